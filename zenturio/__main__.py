"""``python -m zenturio`` is ``zen``."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python puts the current folder first here: a numpy.py of a received project would be run.
        del sys.path[0]
    from zenturio.cli import main

    main()
