"""Five unequal machines, each an sshd on a port of this one, until it is told to end.

It leaves hosts.toml, and for each machine the file machines/NAME/speed.
"""

import getpass
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

SPEEDS = {"pegasus": 0.8, "ursa": 0.5, "babieca": 0.4, "solea": 0.3, "draco": 0.2}
HERE = Path.cwd() / "machines"
SSHD = "/usr/sbin/sshd"


def key(path):
    """A new key; its public part."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "study", "-f", path]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(name, authorized):
    """The sshd of a machine, and how ssh finds it."""
    folder = HERE / name
    folder.mkdir(parents=True)
    (folder / "speed").write_text(str(SPEEDS[name]))
    public, port = key(folder / "host_key"), free_port()
    (folder / "authorized_keys").write_text(authorized)
    path = os.pathsep.join([str(Path(sys.executable).resolve().parent), "/usr/bin", "/bin"])
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        f"SetEnv PATH={path} HOME={folder} SPEED={folder}/speed\n"
    )
    with (folder / "log").open("w") as log:
        command = [SSHD, "-D", "-e", "-f", folder / "sshd_config"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    with (HERE / "ssh_config").open("a") as file:
        file.write(f"Host {name}\n HostName 127.0.0.1\n Port {port}\n")
    with (HERE / "known_hosts").open("a") as file:
        file.write(f"[127.0.0.1]:{port} {public}")
    return process


def describe():
    """hosts.toml, whole when it is there."""
    lines = ["[options]\nstatus = 1\npatience = 5\n"]
    for name, speed in SPEEDS.items():
        lines.append(
            f'[hosts.{name}]\naddress = "{name}"\nssh = ["-F", "{HERE}/ssh_config"]\n'
            f'folder = "{HERE / name}/work"\nslots = 1\nspeed = {speed}\n'
        )
    Path("hosts.draft").write_text("\n".join(lines))
    Path("hosts.draft").rename("hosts.toml")


def main():
    HERE.mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)  # sshd wants it
    authorized = key(HERE / "key")
    servers = [started(name, authorized) for name in SPEEDS]
    with (HERE / "ssh_config").open("a") as file:
        file.write(
            f"Host *\n User {getpass.getuser()}\n IdentityFile {HERE}/key\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {HERE}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        time.sleep(0.5)
        describe()
        while True:
            time.sleep(60)
    finally:
        for server in servers:
            server.terminate()


main()
