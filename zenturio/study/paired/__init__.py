"""Versions of a program that run next to each other: compared, gated, bisected, followed."""
