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

_FILES = (
    "execute/launcher.py",
    "execute/output_patterns.py",
    "execute/run_facts.py",
    "execute/json_checks.py",
    "execute/spawn.py",
    "execute/captured_stream.py",
    "execute/machine_facts.py",
    "execute/process_tree.py",
    "execute/wire.py",
    "execute/hosts/remote/host_facts.py",
    "execute/hosts/remote/supervisor.py",
    "execute/hosts/remote/agent.py",
    "execute/hosts/remote/job_store.py",
    "execute/hosts/remote/job_watch.py",
    "experiment/inside.py",
)
_MAIN = "from zenturio.execute.hosts.remote.agent import main\n\nmain()\n"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)

_BOOT = """\
import hashlib, os, stat, sys
digest, size, folder, owner = sys.argv[1:5]
def refuse(words):
    os.write(2, ("zenturio: " + words).encode("utf-8", "replace") + b"\\n")
    sys.exit(1)
if sys.version_info < (3, 9):
    refuse("Python 3.9 or newer is needed here, not %d.%d" % sys.version_info[:2])
folder = os.path.abspath(os.path.expanduser(folder))
try:
    os.makedirs(folder, 0o700, exist_ok=True)
    room = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
except OSError as error:
    refuse("%s: %s" % (folder, error.strerror))
look = os.fstat(room)
if look.st_uid != os.geteuid():
    refuse("the folder %s belongs to somebody else" % folder)
if look.st_mode & 0o022:
    refuse("the folder %s can be written by others" % folder)
above = os.path.dirname(os.path.realpath(folder))
while True:
    look = os.stat(above)
    if look.st_mode & 0o002 and not look.st_mode & stat.S_ISVTX:
        refuse("the folder %s can be replaced: others can write to %s" % (folder, above))
    if above == os.path.dirname(above):
        break
    above = os.path.dirname(above)
name = "agent-" + digest + ".pyz"
def is_agent(content):
    return hashlib.blake2b(content, digest_size=16).hexdigest() == digest
def present():
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=room)
    except OSError:
        return b""
    with os.fdopen(file, "rb") as file:
        return file.read(int(size) + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
if not is_agent(present()):
    os.write(1, b"zenturio wants its agent\\n")
    content = b""
    while len(content) < int(size):
        piece = os.read(0, min(int(size) - len(content), 65536))
        if not piece:
            sys.exit(1)
        content += piece
    if not is_agent(content):
        refuse("its agent came with other bytes than it had")
    draft = name + "." + str(os.getpid())
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=room), "wb") as file:
            file.write(content)
        os.rename(draft, name, src_dir_fd=room, dst_dir_fd=room)
    except OSError as error:
        refuse("%s: %s" % (folder, error.strerror))
path = os.path.join(folder, name)
os.execv(sys.executable, [sys.executable, "-I", "-S", path, folder, owner])
"""
"""What a host is told first; it answers with what it wants, or greets at once.

The folder has to be the user's own, and no one else's to write to or to replace: what lies there is
executed, and read as files of experiments. The agent is compared with its digest all the same.
"""

AGENT_WANTED = b"zenturio wants its agent\n"


@cache
def packed_agent() -> bytes:
    """Return the file: the same bytes from the same sources."""
    room = files("zenturio")
    stream = io.BytesIO()
    packages = sorted(
        {"/".join(part.split("/")[:i]) for part in _FILES for i in range(part.count("/") + 1)}
    )
    with zipfile.ZipFile(stream, "w") as archive:

        def put(name: str, content: bytes | str) -> None:
            # A fixed date: the digest depends on the sources alone.
            entry = zipfile.ZipInfo(name, _FIXED_DATE)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for package in packages:
            put(f"zenturio/{package}/__init__.py" if package else "zenturio/__init__.py", b"")
        for part in _FILES:
            put(f"zenturio/{part}", room.joinpath(part).read_bytes())
        put("__main__.py", _MAIN)
    return stream.getvalue()


def boot_command(python: str, folder: str, owner: str) -> str:
    """Return the command, in sh's words, that makes a host ask for the file or greet."""
    content = packed_agent()
    digest = blake2b(content, digest_size=16).hexdigest()
    words = [python, "-I", "-c", _BOOT, digest, str(len(content)), folder, owner]
    return "exec " + " ".join(map(shlex.quote, words))
