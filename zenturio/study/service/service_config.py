"""
What zenturio.toml says of a service:

    [serve]
    policy = "srpt"                # who gets the next slot; fcfs, if it is not said
    places = ["local", "cluster"]  # by their names; local, if it is not said
    host = "0.0.0.0"               # where its pages are; this machine alone, if it is not said
    port = 8600
    socket = "/run/zenturio/sock"  # or at this Unix socket, for a proxy on this machine
    proxy_user = "www-data"        # who may connect to it beside yourself and root
    header = "X-Remote-User"       # how a proxy before it tells who asks
    proxy_secret = "sha256:..."    # by what the proxy is known: zen serve --proxy-secret makes it
    proxies = ["10.0.0.7"]         # from where alone the proxy may come
    metrics_token = "sha256:..."   # with which Prometheus reads /metrics: zen serve --metrics-token
    names = ["lab.example.org"]    # by which the proxy, or a browser, calls this machine

    [serve.shares]                 # of slots: for each user first, then by the policy
    alice = { weight = 2.0, slots = 8, active = 16, priority = 1 }
    "*" = { slots = 4 }            # everybody else

    [serve.users]
    alice = { role = "run", password = "scrypt:..." }   # zen serve --hash makes it
    bob = { role = "look" }        # known by a proxy's header
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, get_args

from zenturio.errors import Diagnostic, InputError, did_you_mean
from zenturio.settings.document import Entry, Table
from zenturio.settings.project_file import FILE, read_table
from zenturio.settings.schema import settings_of
from zenturio.study.service.fair_share import UserShare
from zenturio.study.service.slot_policy import POLICIES

SERVE = "serve"
UserRole = Literal["look", "run", "admin"]
"""May look at everything; may submit, and cancel what they submitted, besides; or cancel all."""


@dataclass(frozen=True)
class ServiceUser:
    """Somebody who may come."""

    name: str
    role: UserRole = "look"
    password: str = ""
    """Hashed; empty for who comes through a proxy only."""


@dataclass(frozen=True)
class ServiceConfig:
    """How a service is to be."""

    policy: str = "fcfs"
    places: tuple[str, ...] = ("local",)
    host: str = "127.0.0.1"
    port: int = 8600
    socket: Path | None = None
    """The Unix socket at which its pages are, instead of a port."""
    proxy_user: str = ""
    """The user of this machine who may connect to the socket, beside the service's own and root."""
    header: str = ""
    proxy_secret: str = ""
    proxies: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: Mapping[str, ServiceUser] = field(default_factory=dict)
    shares: Mapping[str, UserShare] = field(default_factory=dict)
    metrics_token: str = ""

    @classmethod
    def of(cls, project: Path) -> ServiceConfig:
        """What the file of the *project* says; all that is wrong with it is told together."""
        table = read_table(project / FILE, SERVE)
        return cls() if table is None else cls(**_Reader(project).read(table))


class _Reader:
    """Reads the table, and gathers what is wrong."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._diagnostics: list[Diagnostic] = []

    def read(self, table: Table) -> dict[str, Any]:
        reads = {
            "policy": self._policy, "places": self._texts, "host": self._text, "port": self._port,
            "header": self._header, "proxies": self._addresses, "names": self._texts,
            "users": self._users, "proxy_secret": self._secret, "socket": self._path,
            "proxy_user": self._text, "shares": self._shares,
            "metrics_token": self._secret,
        }  # fmt: skip
        values = {}
        for name, entry in table.entries.items():
            if name in reads:
                values[name] = reads[name](name, entry)
            else:
                self._wrong(entry, f"[serve] has no setting {name!r}", did_you_mean(name, reads))
        self._check_ways_in(table.entries)
        if self._diagnostics:
            raise InputError.all(self._diagnostics)
        return values

    def _check_ways_in(self, entries: Mapping[str, Entry]) -> None:
        """Gather settings of the proxy that do not go together."""
        if "socket" not in entries:
            if "header" in entries and "proxy_secret" not in entries:
                self._wrong(
                    entries["header"],
                    "anybody on this machine could send that header",
                    "share a secret with the proxy: zen serve --proxy-secret makes one; or"
                    " listen at a socket",
                )
            if "proxy_user" in entries:
                hint = 'write socket = "PATH", too'
                self._wrong(entries["proxy_user"], "proxy_user is for a socket", hint)
            return
        for name in ("host", "port", "proxies"):
            if name in entries:
                hint = "leave it out, or leave socket out"
                self._wrong(entries[name], f"{name} is for a port, and there is a socket", hint)

    def _wrong(self, entry: Entry, message: str, hint: str) -> None:
        self._diagnostics.append(Diagnostic(message, entry.place, hint))

    def _text(self, name: str, entry: Entry) -> str:
        if not isinstance(entry.value, str) or not entry.value:
            self._wrong(entry, f"{name} = {entry.value!r} is not possible", "write a text")
        return str(entry.value)

    def _path(self, name: str, entry: Entry) -> Path:
        return self._project / self._text(name, entry)

    def _policy(self, name: str, entry: Entry) -> str:
        if entry.value not in POLICIES:
            hint = did_you_mean(str(entry.value), POLICIES)
            self._wrong(entry, f"{name} = {entry.value!r} is not a policy", hint)
        return str(entry.value)

    def _texts(self, name: str, entry: Entry) -> tuple[str, ...]:
        value = entry.value
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(item, str) and item for item in value)
            or len(set(value)) < len(value)
        ):
            hint = f'write {name} = ["local"], each once'
            self._wrong(entry, f"{name} = {value!r} is not possible", hint)
            return ()
        return tuple(value)

    def _addresses(self, name: str, entry: Entry) -> tuple[str, ...]:
        addresses = self._texts(name, entry)
        for address in addresses:
            try:
                ip_address(address)
            except ValueError:
                self._wrong(entry, f"{address!r} is not an address", 'such as "10.0.0.7" or "::1"')
        return addresses

    def _port(self, name: str, entry: Entry) -> int:
        if type(entry.value) is not int or not 0 <= entry.value < 65536:
            self._wrong(entry, f"{name} = {entry.value!r} is not possible", "from 0 to 65535")
            return 0
        return entry.value

    def _header(self, name: str, entry: Entry) -> str:
        text = self._text(name, entry)
        if not text.replace("-", "").isalnum() or not text.isascii():
            self._wrong(entry, f"{text!r} is not the name of a header", 'such as "X-Remote-User"')
        return text

    def _secret(self, name: str, entry: Entry) -> str:
        text = str(entry.value)
        kind, _, digits = text.partition(":")
        if kind != "sha256" or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            place = replace(entry.place, text="") if entry.place else None
            option = name.replace("_", "-")
            hint = f"zen serve --{option} makes one, and what belongs here"
            self._wrong(Entry("", place), f"{name} is not the hash of a secret", hint)
        return text

    def _shares(self, name: str, entry: Entry) -> dict[str, UserShare]:
        if not isinstance(entry.value, dict) or not all(
            isinstance(facts, dict) for facts in entry.value.values()
        ):
            hint = "write alice = { weight = 2.0 } below [serve.shares]"
            self._wrong(entry, f"{name} are a table for each user", hint)
            return {}
        shares = {}
        for user, facts in entry.value.items():
            try:
                shares[user] = settings_of(UserShare, facts, f"[serve.shares] {user}")
            except InputError as error:
                for fault in error.diagnostics:
                    self._wrong(entry, f"{user}: {fault.message}", fault.hint)
        return shares

    def _users(self, _name: str, entry: Entry) -> dict[str, ServiceUser]:
        if not isinstance(entry.value, dict):
            self._wrong(entry, "users are a table", "write [serve.users]")
            return {}
        # Diagnostics show the line that they are about: what is secret may stand in this one.
        place = replace(entry.place, text="") if entry.place else None
        hidden = Entry(entry.value, place)
        return {name: self._user(name, facts, hidden) for name, facts in entry.value.items()}

    def _user(self, name: str, facts: Any, entry: Entry) -> ServiceUser:
        hint = f'write {name} = {{ role = "run", password = "scrypt:…" }}'
        hint += ": zen serve --hash makes one"
        if not isinstance(facts, dict) or set(facts) - {"role", "password"}:
            self._wrong(entry, f"user {name!r} is not understood", hint)
            return ServiceUser(name)
        role, password = facts.get("role", "look"), facts.get("password", "")
        if role not in get_args(UserRole):
            self._wrong(
                entry, f"user {name!r}: {role!r} is not a role", "write look, run, or admin"
            )
            return ServiceUser(name)
        if password and not str(password).startswith("scrypt:"):
            self._wrong(entry, f"the password of {name!r} is not hashed", hint)
            return ServiceUser(name)
        return ServiceUser(name, role, str(password))
