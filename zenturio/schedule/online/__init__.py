"""Streams of workflows that share machines, and the policies that order them."""
