#!/usr/bin/python3 -I
"""Start, signal and clean up workers that run as users: the one program of zenturio for root.

    zenturio-runas --service USER --group GROUP [--socket PATH] [--folder PATH] -- COMMAND...

A service that runs experiments as their submitters has no rights to become a user. It connects to
the Unix socket of this program, names a user, and hands over one end of a socket; this program
starts COMMAND with that end, as that user. Nothing else can be asked of it:

* Only the account *service* may connect, which the kernel says. COMMAND is fixed when root starts
  this program; there is no shell, and of a request only the name of the user is used.
* Users are members of *group* with a number from 1000: never root, never an account of the system.
* A user has a bounded number of processes and threads, so that nobody uses up what all share.
* A worker gets no descriptor, variable or right of this program or of the service: it has the
  groups of its user, a clean environment, no way to new privileges (setuid programs), and a folder
  that others cannot enter.
* Signals go to children that have not been waited for, so never to a process of somebody else. What
  a worker leaves behind comes to its supervisor (subreaper) and is killed.
* A worker's folder is emptied with the rights of its user: root removes an empty folder alone.

It uses the standard library alone, and is installed as a file that only root can change.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import grp
import json
import os
import pwd
import re
import resource
import secrets
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

LOWEST_UID = 1000
MOST_SESSIONS = 256
MOST_TASKS = 4096
"""Processes and threads of a user on the machine, those that are not ours included."""
MOST_DESCRIPTORS = 2**20
MESSAGE_BYTES = 4096
REQUEST_SECONDS = 30.0
"""Within which a connection names a user."""
CLEANING_SECONDS = 60.0
"""For which a folder is emptied: its user could fill it again and again."""
KILLING_SECONDS = 30.0
"""After which processes that do not end are left to the system."""
LOCK_SECONDS = 10.0
"""For which the sessions of a helper that was killed may clean up."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_CREDENTIALS = struct.Struct("3i")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_PATH = "/usr/local/bin:/usr/bin:/bin"
_libc = ctypes.CDLL(None, use_errno=True)
"""Loaded before the first fork: a child executes as little as it can."""


class RefusedError(Exception):
    """What is asked for is not done; the message says why."""


def find_user(name: object, group: str) -> pwd.struct_passwd:
    """Return the account *name* if programs may be started as it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError("this is not the name of a user")
    try:
        user = pwd.getpwnam(name)
        members = grp.getgrnam(group).gr_gid
    except KeyError:
        raise RefusedError(f"there is no user {name}, or no group {group}, here") from None
    # An alias of another account, or one of the system, is not who submitted a study.
    if user.pw_name != name or user.pw_uid < LOWEST_UID or user.pw_gid == 0:
        raise RefusedError(f"nothing is started as {name}")
    if members not in os.getgrouplist(name, user.pw_gid):
        raise RefusedError(f"{name} is not a member of the group {group}")
    return user


def environment_of(user: pwd.struct_passwd) -> dict[str, str]:
    """Return all variables of a worker."""
    return {
        "PATH": _PATH,
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
        "LANG": "C.UTF-8",
    }


def become(user: pwd.struct_passwd) -> None:
    """Give up all rights but those of *user*, for good."""
    os.initgroups(user.pw_name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if os.getresuid() != (user.pw_uid,) * 3 or os.getresgid() != (user.pw_gid,) * 3:
        raise OSError("the rights of root could not be given up")


def execute_as(
    user: pwd.struct_passwd,
    folder: str,
    command: Sequence[str],
    descriptors: Sequence[int],
    most_tasks: int = 0,
) -> NoReturn:
    """Become *command* of *user* in *folder*, with *descriptors* as 0, 1 and 2.

    *most_tasks*: processes and threads that the user may have then; 0 if nothing is to be bounded.
    """
    try:
        os.setsid()
        # Duplicated above all of 0 to 2 first, so that none is overwritten before it is read.
        copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in descriptors]
        for number, copy in enumerate(copies):
            os.dup2(copy, number)
        os.closerange(3, MOST_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if most_tasks:
            resource.setrlimit(resource.RLIMIT_NPROC, (most_tasks, most_tasks))
        os.umask(0o077)
        for number in signal.Signals:
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        supervisor = os.getppid()
        become(user)
        # Behind the change of user, which takes it back.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        os.chdir(folder)
        os.execve(command[0], list(command), environment_of(user))  # noqa: S606 - no shell is meant
    except BaseException as error:  # noqa: BLE001 - nothing of root's may go on in this process
        os.write(2, f"{command[0]}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def children() -> list[int]:
    """Return the children of this process that were not waited for."""
    pids = []
    own = str(os.getpid()).encode()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the name of the program, which may hold spaces and brackets.
            if path.read_bytes().rpartition(b")")[2].split()[1] == own:
                pids.append(int(path.parent.name))
    return pids


def kill_children(seconds: float = KILLING_SECONDS) -> None:
    """Kill all that this process has begun, and what that began."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        if not reap():
            return
        time.sleep(0.005)


def reap() -> dict[int, int] | None:
    """Wait for children that have ended; return their statuses, None if there is no child."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if not pid:
            return ended
        ended[pid] = status


def check_folder(path: Path) -> None:
    """Refuse a folder that others than root can change, or put another one in the place of."""
    for folder in (path, *path.parents):
        status = folder.stat()
        # In a sticky folder such as /tmp nobody else renames what belongs to root.
        is_sticky = folder != path and status.st_mode & stat.S_ISVTX
        if status.st_uid != 0 or (status.st_mode & 0o022 and not is_sticky):
            raise RefusedError(f"{folder} can be changed by others than root")


class Folders:
    """Folders of workers, below one that only root can write to."""

    def __init__(self, path: Path) -> None:
        path.mkdir(0o711, parents=True, exist_ok=True)
        path = path.resolve()
        check_folder(path)
        self.path = str(path)
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock()
        os.fchmod(self._handle, 0o711)

    def _lock(self) -> None:
        """Lock the folder for this program and its sessions: another one would sweep theirs."""
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    message = f"another zenturio-runas has its workers in {self.path}"
                    raise RefusedError(message) from None
                time.sleep(0.05)

    def make(self, user: pwd.struct_passwd) -> str:
        """Make a folder for a worker of *user* and return its name."""
        name = f"{user.pw_uid}-{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=self._handle)
        os.chown(name, user.pw_uid, user.pw_gid, dir_fd=self._handle, follow_symlinks=False)
        return name

    def remove(self, name: str) -> bool:
        """Empty a folder with the rights of its owner, and remove it; whether that was possible."""
        with contextlib.suppress(OSError, KeyError):
            status = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
            owner = pwd.getpwuid(status.st_uid)
            path = f"{self.path}/{name}"
            if stat.S_ISDIR(status.st_mode) and owner.pw_uid >= LOWEST_UID:
                for command in (
                    ("/bin/chmod", "-R", "u+rwX", "--", path),
                    ("/bin/rm", "-rf", "--one-file-system", "--", path),
                ):
                    self._run(owner, command)
            os.rmdir(name, dir_fd=self._handle)
            return True
        return False

    def sweep(self) -> None:
        """Remove what a program that was killed left."""
        for path in list(Path(self.path).iterdir()):
            self.remove(path.name)

    def _run(self, user: pwd.struct_passwd, command: Sequence[str]) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        pid = os.fork()
        if not pid:
            execute_as(user, "/", command, (null, null, null))
        os.close(null)
        end = time.monotonic() + CLEANING_SECONDS
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.005)


class WorkerSession:
    """One worker, from the request that starts it to the end of all that it left."""

    def __init__(
        self,
        connection: socket.socket,
        folders: Folders,
        group: str,
        command: Sequence[str],
        most_tasks: int,
    ) -> None:
        self._connection = connection
        self._folders = folders
        self._group = group
        self._command = command
        self._most_tasks = most_tasks

    def run(self) -> None:
        """Answer the request, and supervise the worker that it asks for."""
        # Before the worker begins: from here on an end of this program ends it, too.
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        wake, far = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(far, warn_on_full_buffer=False)
        received: list[int] = []
        try:
            self._connection.settimeout(REQUEST_SECONDS)
            message, received, _, _ = socket.recv_fds(self._connection, MESSAGE_BYTES, 4)
            self._connection.setblocking(True)
            user = self._requested(message, received)
        except (RefusedError, ValueError, OSError) as error:
            self._tell({"refused": str(error)})
            return
        name = self._folders.make(user)
        try:
            worker = os.fork()
            if not worker:
                folder = f"{self._folders.path}/{name}"
                descriptors = (received[0], received[0], received[1])
                execute_as(user, folder, self._command, descriptors, self._most_tasks)
            for descriptor in received:
                os.close(descriptor)
            self._tell({"started": worker})
            status = self._supervise(worker, wake)
        finally:
            kill_children()
            is_removed = self._folders.remove(name)
        self._tell({"ended": status, "removed": is_removed})

    def _requested(self, message: bytes, received: Sequence[int]) -> pwd.struct_passwd:
        request = json.loads(message)
        if not isinstance(request, dict) or request.keys() != {"start"} or len(received) != 2:
            raise RefusedError("this is not a request")
        if not stat.S_ISSOCK(os.fstat(received[0]).st_mode):
            raise RefusedError("no socket came with the request")
        if not stat.S_ISFIFO(os.fstat(received[1]).st_mode):
            raise RefusedError("no pipe came with the request")
        return find_user(request["start"], self._group)

    def _supervise(self, worker: int, wake: int) -> int:
        """Return the status of *worker*, which ends with the connection at the latest."""
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._connection, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != wake:
                    if not self._obey(worker):
                        return -1
                    continue
                with contextlib.suppress(BlockingIOError):
                    numbers = os.read(wake, 4096)
                    if set(numbers) - {signal.SIGCHLD}:  # this program is to end
                        return -1
                ended = reap() or {}
                if worker in ended:
                    return os.waitstatus_to_exitcode(ended[worker])

    def _obey(self, worker: int) -> bool:
        """Send *worker* the signal that the service asks for; false where it is to end."""
        message = self._connection.recv(MESSAGE_BYTES)
        # It was not waited for: its number is no other process's.
        if message == b'{"signal": "TERM"}':
            os.kill(worker, signal.SIGTERM)
            return True
        return False  # the service has gone, or asks for the end of all

    def _tell(self, answer: dict[str, object]) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps(answer).encode())


def listen_at(path: Path, service: pwd.struct_passwd) -> socket.socket:
    """Return a socket that *service* alone can reach, in a folder that root alone can write to."""
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    check_folder(path.parent.resolve())
    # Under its name only once it listens: whoever finds it there can connect.
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)
    try:
        listening.bind(str(fresh))
    finally:
        os.umask(before)
    os.chown(fresh, service.pw_uid, -1, follow_symlinks=False)
    listening.listen(64)
    fresh.replace(path)
    return listening


def serve(
    listening: socket.socket,
    service: pwd.struct_passwd,
    folders: Folders,
    group: str,
    command: Sequence[str],
    most_tasks: int,
) -> NoReturn:
    """Start a session for each connection of *service*."""
    sessions: set[int] = set()
    while True:
        connection, _ = listening.accept()
        sessions -= (reap() or {}).keys()
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        _, user, _ = _CREDENTIALS.unpack(credentials)
        if user not in (0, service.pw_uid) or len(sessions) >= MOST_SESSIONS:
            connection.close()
            continue
        try:
            pid = os.fork()
        except OSError as error:  # one user may have as many processes as the system lets us have
            sys.stderr.write(f"no session can be started: {error}\n")
            sys.stderr.flush()
            connection.close()
            continue
        if not pid:
            listening.close()
            try:
                WorkerSession(connection, folders, group, command, most_tasks).run()
            except BaseException as error:  # noqa: BLE001 - a fault ends its session alone
                sys.stderr.write(f"a session ended: {error!r}\n")
                sys.stderr.flush()
            finally:
                os._exit(0)
        sessions.add(pid)
        connection.close()


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(prog="zenturio-runas", description=__doc__.splitlines()[0])
    parser.add_argument("--service", required=True, help="the account that may connect")
    parser.add_argument("--group", required=True, help="whose members programs are started as")
    parser.add_argument("--socket", type=Path, default=Path("/run/zenturio-runas/socket"))
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/lib/zenturio-runas"), help="of the workers"
    )
    parser.add_argument(
        "--tasks", type=int, default=MOST_TASKS, help="processes and threads of each user"
    )
    parser.add_argument("command", nargs="+", help="what is started, an absolute path and words")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("zenturio-runas: only root can start programs as other users")
    if options.tasks < 1:
        sys.exit("zenturio-runas: --tasks is at least 1")
    if not options.command[0].startswith("/"):
        sys.exit(f"zenturio-runas: {options.command[0]} is not an absolute path")
    # Nothing of whoever started this program reaches a worker.
    os.environ.clear()
    os.chdir("/")
    try:
        service = pwd.getpwnam(options.service)
        grp.getgrnam(options.group)
        folders = Folders(options.folder)
        folders.sweep()
        listening = listen_at(options.socket, service)
    except (RefusedError, KeyError, OSError) as error:
        sys.exit(f"zenturio-runas: {error}")
    serve(listening, service, folders, options.group, options.command, options.tasks)


if __name__ == "__main__":
    main()
