"""What somebody sees who is not root, where the tests run as root."""

import contextlib
import os

NOBODY = 65534


@contextlib.contextmanager
def unprivileged():
    """For no longer than the body of a test: around it, coverage and pytest write their files."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if before == 0:
            os.seteuid(before)
