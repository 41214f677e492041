"""Who may be talked to: a scheduler runs what it is told, so nobody else may listen or speak."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, PlaceError, SafetyError
from zenturio.execute.dask.options import DaskOptions

_ADDRESS_HINT = "write dask://host:8786, or tls://host:8786"
_CERTIFICATES_HINT = 'ca = "ca.pem", cert = "cert.pem" and key = "key.pem" in [places.NAME]'
_SETTING_NAMES = {"tls_ca_file": "ca", "tls_client_cert": "cert", "tls_client_key": "key"}


@dataclass(frozen=True)
class SchedulerAddress:
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


def read_address(options: DaskOptions) -> SchedulerAddress:
    """Return the scheduler's address; SafetyError where others could listen to what is said."""
    text = options.address
    scheme, sign, rest = text.partition("://")
    if not sign:
        scheme, rest = "dask", text
    host, colon, port = rest.rpartition(":")
    if scheme not in ("dask", "tcp", "tls") or not colon or not port.isdecimal() or not host:
        raise InputError(f"{text!r} is not the address of a scheduler", hint=_ADDRESS_HINT)
    address = SchedulerAddress(host.strip("[]"), int(port), scheme == "tls")
    if not (address.tls or address.is_here or options.insecure):
        raise SafetyError(
            f"{text}: the traffic could be read and changed by anybody on its way",
            hint=f"start the scheduler with TLS, and write tls://{rest}; in a network where"
            "\nall are trusted: insecure = true in [places.NAME] of zenturio.toml",
        )
    return address


def tls_of(address: SchedulerAddress, options: DaskOptions) -> Any:
    """Return the certificates, from the options or from Dask's own configuration."""
    if not address.tls:
        return None
    files = {"tls_ca_file": options.ca, "tls_client_cert": options.cert}
    files["tls_client_key"] = options.key or options.cert
    for name, path in files.items():
        if path and not Path(path).expanduser().is_file():
            raise PlaceError(
                f"{address} needs the file {path}, which is not there ({_SETTING_NAMES[name]})"
            )
    arguments = {name: str(Path(path).expanduser()) for name, path in files.items() if path}
    security = import_module("distributed").Security(require_encryption=True, **arguments)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise PlaceError(
            f"{address} needs certificates",
            hint=_CERTIFICATES_HINT,
        )
    _check_certificates(security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    return security


def _check_certificates(ca: str, cert: str, key: str | None) -> None:
    """PlaceError, which names the file, where one does not hold what it is for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    what = f"{ca} holds no CA certificate (ca)"
    try:
        if Path(ca).is_file():  # else it is the certificate itself
            context.load_verify_locations(ca)
        if Path(cert).is_file():
            what = f"{cert} and {key or cert} are not a certificate and its key (cert, key)"
            context.load_cert_chain(cert, key or None)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise PlaceError(f"{what}: {reason}", hint=_CERTIFICATES_HINT) from error
