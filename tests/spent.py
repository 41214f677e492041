"""How long something takes by itself, for the few promises that are made in milliseconds."""

import gc
import sys
import time
from contextlib import contextmanager


@contextmanager
def under(seconds):
    """The block takes less processor time, but for what a tracer and other tests' memory cost."""
    tracer = sys.gettrace()
    sys.settrace(None)
    gc.disable()
    start = time.process_time()
    try:
        yield
        spent = time.process_time() - start
    finally:
        gc.enable()
        sys.settrace(tracer)
    assert spent < seconds
