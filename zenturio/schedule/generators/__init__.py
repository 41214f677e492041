"""Workflows generated from settings and a seed."""
