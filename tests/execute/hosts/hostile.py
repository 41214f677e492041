"""An agent that lies: it answers like a good one, but for one thing. ``hostile.py LIE FOLDER``."""

import os
import struct
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from zenturio.execute import wire
from zenturio.execute.hosts import remote_agent

MB = 2**20
SETUID = [["left.txt", 4, 0o4777]]
LIES = {
    "setuid": ("found", {"files": SETUID}),
    "outside": ("found", {"files": [["../left.txt", 4, 0o644]]}),
    "absolute": ("found", {"files": [["/tmp/left.txt", 4, 0o644]]}),
    "nul": ("found", {"files": [["left\0.txt", 4, 0o644]]}),
    "twice": ("found", {"files": [["left.txt", 4, 0o644], ["left.txt/a", 4, 0o644]]}),
    "types": ("reply", {"reply": {"stop": 7}, "spoilt": False, "fault": ""}),
    "names": ("prepare", {"where": "nowhere"}),
    "words": ("start", {"state": ["running"]}),
    "large": ("found", {"files": [["left.txt", 3_700_000_000, 0o644]]}),
    "jobs": ("hello", {"folder": "/", "jobs": ["../../x"]}),
}


def raw(text):
    data = text if isinstance(text, bytes) else text.encode()
    os.write(1, struct.pack("!I", len(data)) + data)


def frames():
    """What is sent in place of the answer to "start", as bytes of the wire."""
    return {
        "list": lambda: raw("[1,2]"),
        "deep": lambda: raw("[" * 200_000 + "]" * 200_000),
        "many": lambda: raw("[" + "[]," * (2 * MB) + "[]]"),
        "digits": lambda: raw('{"id": ' + "1" * MB + "}"),
        "length": lambda: raw('{"id": 1, "lengths": [4611686018427387904]}'),
        "negative": lambda: raw('{"id": 1, "lengths": [-1]}'),
        "frame": lambda: os.write(1, b"\xff" * 8),
        "no-json": lambda: raw(b"\x80\x81"),
        "event": lambda: raw('{"event": "explode", "token": "x"}'),
        "unasked": lambda: raw('{"id": 999999, "lengths": []}'),
        "token": token,
    }


def token():
    raw('{"event": "over", "token": 7, "state": "ended"}')
    while True:
        time.sleep(60)


class Hostile(remote_agent.HostAgent):
    def _answer(self, request):
        lie = sys.argv[1]
        asked, answer = LIES.get(lie, ("start", None))
        if request["do"] != asked:
            return super()._answer(request)
        wire.receive_blobs(self._requests, request)
        if answer is None:
            frames()[lie]()
        else:
            blobs = [b"", b"", b"", b""] if asked == "reply" else []
            lengths = [len(blob) for blob in blobs]
            wire.send(1, {**answer, "id": request["id"], "lengths": lengths})
        return None


if __name__ == "__main__":
    os.write(1, remote_agent.GREETING)
    Hostile(Path(sys.argv[2]), "me").serve()
