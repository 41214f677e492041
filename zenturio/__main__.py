"""``python -m zenturio`` is ``zen``."""

from zenturio.cli import main

if __name__ == "__main__":
    main()
