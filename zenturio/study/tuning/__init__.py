"""Tuning a search engine: each experiment is a search."""
