"""Compiled loops on bare arrays; each has a slow, obvious twin in the tests."""
