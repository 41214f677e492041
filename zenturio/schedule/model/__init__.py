"""Workflows, platforms, scheduling problems and plans."""
