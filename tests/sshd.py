"""Real SSH servers on loopback ports, with keys, configuration and folders of their own.

with Testbed(folder, ["pegasus", "babieca"]) as testbed:
    testbed.write("hosts.toml", pegasus={"slots": 1, "speed": 2.4})
    testbed.kill("pegasus")
"""

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from ports import free_port
from zenturio.system import processes

SSHD = "/usr/sbin/sshd"
_EMPTY = Path("/run/sshd")


def _key(path):
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, "-C", "zenturio-test"]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text().rsplit(" ", 1)[0]


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


class Server:
    """One sshd, and all that was logged in to it."""

    def __init__(self, folder, name, authorized, python):
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.public = _key(self.folder / "host_key")
        (self.folder / "authorized_keys").write_text(authorized + "\n")
        self.port = free_port()
        path = os.pathsep.join([str(python.parent), "/usr/bin", "/bin"])
        (self.folder / "sshd_config").write_text(
            f"""
ListenAddress 127.0.0.1
Port {self.port}
HostKey {self.folder}/host_key
AuthorizedKeysFile {self.folder}/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PrintMotd no
MaxStartups 100
SetEnv PATH={path} HOME={self.folder}
"""
        )
        self.process = None
        self.start()

    def start(self):
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def revive(self):
        """Starts it again, if it was killed."""
        if self.process.poll() is not None:
            self.start()

    def drop(self):
        """Cuts all connections; what runs there runs on, and one can log in again."""
        processes.send_signal(processes.descendants(self.process.pid), signal.SIGKILL)

    def kill(self, *, all_of_it=False):
        """Ends the server; with all of it, as if the machine had lost its power."""
        below = processes.descendants(self.process.pid)
        self.process.kill()
        processes.send_signal(below, signal.SIGKILL)
        self.process.wait()
        if all_of_it:
            for pid in self.keepers():
                processes.send_signal([pid], signal.SIGKILL)
            processes.kill_marked(f"ZEN_METRICS={self.folder}/".encode())

    def keepers(self):
        """The processes that keep jobs here."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if f"{self.folder}/work/agent-".encode() in words:
                found.append(int(path.parent.name))
        return found


class Testbed:
    """Several servers, and a client configuration that knows them."""

    __test__ = False

    def __init__(self, folder, names, *, has_zenturio=False):
        """Start a server for each of *names*, whose Python has only the standard library.

        With *has_zenturio* it is that of this environment.
        """
        python = Path(sys.executable) if has_zenturio else Path(sys.executable).resolve()
        if os.geteuid() == 0:
            _EMPTY.mkdir(exist_ok=True, mode=0o755)  # sshd wants it, whatever its configuration
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        authorized = _key(self.folder / "key")
        self.servers = {name: Server(self.folder, name, authorized, python) for name in names}
        known = [f"[127.0.0.1]:{s.port} {s.public}\n" for s in self.servers.values()]
        (self.folder / "known_hosts").write_text("".join(known))
        entries = [
            f"Host {s.name}\n HostName 127.0.0.1\n Port {s.port}\n" for s in self.servers.values()
        ]
        (self.folder / "ssh_config").write_text(
            "".join(entries)
            + f"""Host *
 User {getpass.getuser()}
 IdentityFile {self.folder}/key
 IdentitiesOnly yes
 UserKnownHostsFile {self.folder}/known_hosts
 GlobalKnownHostsFile /dev/null
"""
        )

    def write(self, path, options=None, **hosts):
        """A file of hosts, with those that are named, each with what is declared of it."""
        lines = ["[options]\n", *(f"{k} = {json.dumps(v)}\n" for k, v in (options or {}).items())]
        for name, declared in hosts.items():
            usual = {
                "address": name,
                "ssh": ["-F", str(self.folder / "ssh_config")],
                "folder": str(self.servers[name].folder / "work"),
            }
            lines.append(f"[hosts.{name}]\n")
            lines += [f"{k} = {_toml(v)}\n" for k, v in {**usual, **declared}.items()]
        Path(path).write_text("".join(lines))
        return Path(path)

    def __getitem__(self, name):
        return self.servers[name]

    def close(self):
        for server in self.servers.values():
            server.kill(all_of_it=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
