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
    unverified = "run"             # also run what was written into a shared file past the service
    runas = "/run/zenturio-runas/socket"   # runs experiments as the users who submitted them
    names = ["lab.example.org"]    # by which the proxy, or a browser, calls this machine

    [serve.shares]                 # of slots: for each user first, then by the policy
    alice = { weight = 2.0, slots = 8, active = 16, priority = 1 }
    "*" = { slots = 4 }            # everybody else

    [serve.users]
    alice = { role = "run", password = "scrypt:..." }   # zen serve --hash makes it
    bob = { role = "look" }        # known by a proxy's header
    nightly = { role = "run", token = "sha256:..." }    # zen serve --token makes it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, get_args

from zenturio.errors import Diagnostic, InputError, did_you_mean
from zenturio.settings.document import FILE, Entry, read_table
from zenturio.settings.schema import setting, settings_of
from zenturio.study.service.slot_policy import POLICIES, UserShare

SERVE = "serve"
UserRole = Literal["look", "run", "admin"]
"""May look at everything; may submit, and cancel what they submitted, besides; or cancel all."""


@dataclass(frozen=True)
class ServiceUser:
    """A user of the service."""

    name: str
    role: UserRole = "look"
    password: str = ""
    """Hashed; empty for users who come through a proxy only."""
    token: str = ""
    """The hash of what programs submit with in the user's name; empty if none may."""


def _text(name: str, entry: Entry) -> str:
    if not isinstance(entry.value, str) or not entry.value:
        raise InputError(f"{name} = {entry.value!r} is not possible", hint="write a text")
    return entry.value


def _path(name: str, entry: Entry) -> Path:
    return Path(_text(name, entry))


def _policy(name: str, entry: Entry) -> str:
    if entry.value not in POLICIES:
        hint = did_you_mean(str(entry.value), POLICIES)
        raise InputError(f"{name} = {entry.value!r} is not a policy", hint=hint)
    return str(entry.value)


def _texts(name: str, entry: Entry) -> tuple[str, ...]:
    value = entry.value
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(item, str) and item for item in value)
        or len(set(value)) < len(value)
    ):
        hint = f'write {name} = ["local"], each once'
        raise InputError(f"{name} = {value!r} is not possible", hint=hint)
    return tuple(value)


def _addresses(name: str, entry: Entry) -> tuple[str, ...]:
    addresses = _texts(name, entry)
    for address in addresses:
        try:
            ip_address(address)
        except ValueError:
            hint = 'such as "10.0.0.7" or "::1"'
            raise InputError(f"{address!r} is not an address", hint=hint) from None
    return addresses


def _header(name: str, entry: Entry) -> str:
    text = _text(name, entry)
    if not text.replace("-", "").isalnum() or not text.isascii():
        raise InputError(f"{text!r} is not the name of a header", hint='such as "X-Remote-User"')
    return text


def _secret(name: str, entry: Entry) -> str:
    text = str(entry.value)
    kind, _, digits = text.partition(":")
    if kind != "sha256" or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        option = name.replace("_", "-")
        hint = f"zen serve --{option} creates a secret and prints the line for this file"
        raise InputError(f"{name} is not the hash of a secret", hint=hint)
    return text


def _shares(name: str, entry: Entry) -> dict[str, UserShare]:
    if not isinstance(entry.value, dict) or not all(
        isinstance(facts, dict) for facts in entry.value.values()
    ):
        hint = "write alice = { weight = 2.0 } below [serve.shares]"
        raise InputError(f"{name} are a table for each user", hint=hint)
    shares: dict[str, UserShare] = {}
    faults: list[Diagnostic] = []
    for user, facts in entry.value.items():
        try:
            shares[user] = settings_of(UserShare, facts, f"[serve.shares] {user}")
        except InputError as error:
            faults += [replace(d, message=f"{user}: {d.message}") for d in error.diagnostics]
    if faults:
        raise InputError.all(faults)
    return shares


def _unverified(name: str, entry: Entry) -> str:
    if entry.value not in ("hold", "run"):
        hint = "hold: they wait until they are submitted again; or run"
        raise InputError(f"{name} = {entry.value!r} is not possible", hint=hint)
    return str(entry.value)


def _users(_name: str, entry: Entry) -> dict[str, ServiceUser]:
    if not isinstance(entry.value, dict):
        raise InputError("users are a table", hint="write [serve.users]")
    users: dict[str, ServiceUser] = {}
    faults: list[Diagnostic] = []
    for name, facts in entry.value.items():
        try:
            users[name] = _user(name, facts)
        except InputError as error:
            faults += error.diagnostics
    if faults:
        raise InputError.all(faults)
    return users


def _user(name: str, facts: Any) -> ServiceUser:
    hint = f'write {name} = {{ role = "run", password = "scrypt:…" }}: zen serve --hash makes one'
    if not isinstance(facts, dict) or set(facts) - {"role", "password", "token"}:
        raise InputError(f"the entry of user {name!r} is not valid", hint=hint)
    role, password = facts.get("role", "look"), facts.get("password", "")
    if role not in get_args(UserRole):
        message = f"user {name!r}: {role!r} is not a role"
        raise InputError(message, hint="write look, run, or admin")
    if password and not str(password).startswith("scrypt:"):
        raise InputError(f"the password of {name!r} is not hashed", hint=hint)
    token = _secret("token", Entry(facts["token"], None)) if "token" in facts else ""
    return ServiceUser(name, role, str(password), token)


@dataclass(frozen=True)
class ServiceConfig:
    """How a service is to be."""

    policy: str = setting("fcfs", "which study gets the next slot", read=_policy)
    places: tuple[str, ...] = setting(("local",), "the places where studies run", read=_texts)
    host: str = setting("127.0.0.1", "the address of its pages", read=_text)
    port: int = setting(8600, "the port of its pages; 0: any free port", low=0, high=65535)
    socket: Path | None = setting(
        None, "the Unix socket that serves its pages, instead of a port", read=_path
    )
    proxy_user: str = setting(
        "", "user of this machine who may connect to the socket, besides you and root", read=_text
    )
    header: str = setting("", "the header in which a proxy names the user", read=_header)
    proxy_secret: str = setting(
        "", "the hash of the secret of the proxy", read=_secret, is_secret=True
    )
    proxies: tuple[str, ...] = setting((), "addresses of the proxy", read=_addresses)
    names: tuple[str, ...] = setting((), "host names under which the pages are served", read=_texts)
    users: Mapping[str, ServiceUser] = setting(
        dict, "the users who may log in, and their roles", read=_users, is_secret=True
    )
    shares: Mapping[str, UserShare] = setting(
        dict, "the slots and priorities of each user", read=_shares
    )
    metrics_token: str = setting(
        "", "the hash of the token of Prometheus", read=_secret, is_secret=True
    )
    runas: Path | None = setting(
        None, "the socket of the root program that starts workers as the users", read=_path
    )
    unverified: str = setting(
        "hold", "whether to run or hold submissions without a verified user", read=_unverified
    )

    @classmethod
    def of(cls, project: Path) -> ServiceConfig:
        """What the file of the *project* says; all errors in it are reported together."""
        table = read_table(project / FILE, SERVE)
        if table is None:
            return cls()
        config, faults = cls(), _conflicts(table.entries)
        try:
            config = settings_of(cls, table.entries, f"[{SERVE}]")
        except InputError as error:
            faults = [*error.diagnostics, *faults]
        if faults:
            raise InputError.all(faults)
        return replace(
            config,
            socket=project / config.socket if config.socket else None,
            runas=project / config.runas if config.runas else None,
        )


def _conflicts(entries: Mapping[str, Entry]) -> list[Diagnostic]:
    """Return what is wrong with settings of the proxy that do not go together."""
    faults = _conflicts_of_users(entries)
    if "socket" in entries:
        hint = "leave it out, or leave socket out"
        for name in ("host", "port", "proxies"):
            if name in entries:
                message = f"{name} needs a port, but there is a socket"
                faults.append(Diagnostic(message, entries[name].place, hint))
        return faults
    if "header" in entries and "proxy_secret" not in entries:
        hint = "share a secret with the proxy: zen serve --proxy-secret makes one; or listen"
        hint += " at a socket"
        message = "every user of this machine could send that header"
        faults.append(Diagnostic(message, entries["header"].place, hint))
    if "proxy_user" in entries:
        message, hint = "proxy_user needs a socket", 'write socket = "PATH", too'
        faults.append(Diagnostic(message, entries["proxy_user"].place, hint))
    return faults


def _conflicts_of_users(entries: Mapping[str, Entry]) -> list[Diagnostic]:
    """Return what does not go together with experiments that run as their users."""
    faults: list[Diagnostic] = []
    if "runas" not in entries:
        return faults
    if "unverified" in entries and entries["unverified"].value == "run":
        hint = "leave it out: runas needs to know who submitted an experiment"
        message = "unverified submissions cannot run as a user"
        faults.append(Diagnostic(message, entries["unverified"].place, hint))
    if "places" in entries and entries["places"].value != ["local"]:
        message, hint = "runas works only with the place local", "leave places out, or runas"
        faults.append(Diagnostic(message, entries["places"].place, hint))
    return faults
