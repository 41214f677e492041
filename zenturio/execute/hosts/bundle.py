"""
The one file that a host gets: what runs there, packed for any Python from 3.9.

It is named by its digest and shipped once. A host that has it starts it; a host that does not asks
for it through the connection that is there, in which everything follows.
"""

from __future__ import annotations

import io
import shlex
import zipfile
from functools import cache
from hashlib import blake2b
from importlib.resources import files

_PARTS = (
    "execute/launcher.py",
    "execute/matching.py",
    "execute/run_facts.py",
    "execute/schema.py",
    "execute/spawn.py",
    "execute/streams.py",
    "execute/tree.py",
    "execute/wire.py",
    "execute/hosts/remote/facts.py",
    "execute/hosts/remote/keeper.py",
    "execute/hosts/remote/serve.py",
    "execute/hosts/remote/store.py",
    "execute/hosts/remote/watching.py",
    "experiment/inside.py",
)
_MAIN = "from zenturio.execute.hosts.remote.serve import main\n\nmain()\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)

_BOOT = """\
import os, sys
digest, size, folder, owner = sys.argv[1:5]
if sys.version_info < (3, 9):
    os.write(1, b"zenturio needs Python 3.9 or newer here, not %d.%d\\n" % sys.version_info[:2])
    sys.exit(1)
folder = os.path.abspath(os.path.expanduser(folder))
os.makedirs(folder, 0o700, exist_ok=True)
path = os.path.join(folder, "agent-" + digest + ".pyz")
if not os.path.exists(path):
    os.write(1, b"zenturio wants its agent\\n")
    left = int(size)
    draft = path + "." + str(os.getpid())
    with open(draft, "wb") as file:
        while left:
            piece = os.read(0, min(left, 65536))
            if not piece:
                sys.exit(1)
            left -= file.write(piece)
    os.replace(draft, path)
os.execv(sys.executable, [sys.executable, "-I", "-S", path, folder, owner])
"""
"""What a host is told first; it answers with what it wants, or greets at once."""

WANTED = b"zenturio wants its agent\n"


@cache
def packed() -> bytes:
    """The file: the same bytes from the same sources."""
    room = files("zenturio")
    stream = io.BytesIO()
    packages = sorted(
        {"/".join(part.split("/")[:i]) for part in _PARTS for i in range(part.count("/") + 1)}
    )
    with zipfile.ZipFile(stream, "w") as archive:

        def put(name: str, content: bytes | str) -> None:
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for package in packages:
            put(f"zenturio/{package}/__init__.py" if package else "zenturio/__init__.py", b"")
        for part in _PARTS:
            put(f"zenturio/{part}", room.joinpath(part).read_bytes())
        put("__main__.py", _MAIN)
    return stream.getvalue()


def boot(python: str, folder: str, owner: str) -> str:
    """The command, in sh's words, that makes a host ask for the file or greet."""
    content = packed()
    digest = blake2b(content, digest_size=16).hexdigest()
    words = [python, "-c", _BOOT, digest, str(len(content)), folder, owner]
    return "exec " + " ".join(map(shlex.quote, words))
