"""An event loop of a test's own, beside the one that the browser of other tests has."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def run(coroutine):
    """What *coroutine* returns; in a thread, for in this one another loop may be running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
