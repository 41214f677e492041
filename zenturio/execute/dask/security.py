"""Who may be talked to: a scheduler runs what it is told, so nobody else may listen or speak."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, PlaceError, SafetyError
from zenturio.execute.dask.options import Options

_CURE = "write dask://host:8786, or tls://host:8786"


@dataclass(frozen=True)
class Address:
    """Where a scheduler listens."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        """As Dask has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}://{host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Whether what is said to it stays on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return self.url.replace("tcp://", "dask://")


def read_address(options: Options) -> Address:
    """The scheduler's address; SafetyError where others could listen to what is said."""
    text = options.address
    scheme, sign, rest = text.partition("://")
    if not sign:
        scheme, rest = "dask", text
    host, colon, port = rest.rpartition(":")
    if scheme not in ("dask", "tcp", "tls") or not colon or not port.isdecimal() or not host:
        raise InputError(f"{text!r} is no address of a scheduler", cure=_CURE)
    found = Address(host.strip("[]"), int(port), scheme == "tls")
    if not (found.tls or found.is_here or options.insecure):
        raise SafetyError(
            f"{text}: what goes there could be read, and replaced, by anybody on the way",
            cure=f"start the scheduler with TLS, and write tls://{rest}; in a network where"
            "\nnobody else is: insecure = true in [places.NAME] of zenturio.toml",
        )
    return found


def tls_of(address: Address, options: Options) -> Any:
    """The certificates, from the options or from Dask's own configuration."""
    if not address.tls:
        return None
    given = {"tls_ca_file": options.ca, "tls_client_cert": options.cert}
    given["tls_client_key"] = options.key or options.cert
    for name, path in given.items():
        if path and not Path(path).expanduser().is_file():
            raise PlaceError(f"{address} needs the file {path}, which is not there ({name})")
    told = {name: str(Path(path).expanduser()) for name, path in given.items() if path}
    security = import_module("distributed").Security(require_encryption=True, **told)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise PlaceError(
            f"{address} needs certificates",
            cure='ca = "ca.pem", cert = "cert.pem" and key = "key.pem" in [places.NAME]',
        )
    return security
