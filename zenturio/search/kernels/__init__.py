"""Compiled inner loops of searches, on bare arrays; they import nothing of ours."""
