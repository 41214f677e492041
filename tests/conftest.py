"""What holds for all tests."""

import pytest


def pytest_collection_modifyitems(items):
    """Laws run the same lines a thousand times: traced, they take half of the gate's time.

    So coverage counts what examples reach, and laws come on top of it.
    """
    for item in items:
        if getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)
