"""Algorithms that plan a workflow, one file each."""
