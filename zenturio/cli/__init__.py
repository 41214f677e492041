"""The command line: one thin function for each verb; it parses, calls and prints."""

import sys

if sys.platform == "win32":  # before anything that only Unix systems have is imported
    sys.exit(
        "zen runs on Linux and macOS; on Windows use it in WSL: run `wsl --install` once, and in"
        " its terminal `pip install zenturio`."
    )

from zenturio.cli.main import main

__all__ = ["main"]
