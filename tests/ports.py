"""Ports for servers that tests start.

A port that the system chooses may be the local end of somebody's connection by the time that a
server wants it, or wants it again after it was killed. These lie below those that systems give to
connections, and each is found by chance, so that tests side by side do not meet.
"""

import secrets
import socket

LOWEST, HIGHEST = 10_000, 32_767


def free_port() -> int:
    """One that nobody listens at."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    found: set[int] = set()
    while len(found) < count:
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    return sorted(found)
