"""Replay of the jobs of a cluster under queue policies."""
