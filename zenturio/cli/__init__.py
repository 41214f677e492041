"""The command line: one thin function for each verb; it parses, calls and prints."""

from zenturio.cli.main import main

__all__ = ["main"]
