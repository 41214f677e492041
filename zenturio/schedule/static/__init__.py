"""Algorithms that plan a whole workflow before it runs."""
