"""Algorithms that decide while a workflow runs."""
