"""docs/settings.md has what can be set in the files; ZEN_UPDATE_GOLDENS=1 writes it anew."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

from execute.test_place_settings import shown
from zenturio.execute.hosts.hosts_file import HostMachine, HostsOptions
from zenturio.settings.schema import described
from zenturio.study.service.service_config import ServiceConfig, ServiceUser
from zenturio.study.service.slot_policy import UserShare

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """# Settings of files

This page lists the settings of `zenturio.toml`, the settings file beside the folder `.zenturio`, and of a hosts file. Both files are TOML. If a name is unknown or a
value is not allowed, zenturio reports an error with line and column. The settings of a place, `[places.NAME]`, are on [another page](place-settings.md).
"""
MACHINE = {
    "address": "the name or address that `ssh` connects to",
    "port": "the port of SSH",
    "user": "the name to log in with",
    "via": "`ssh`, or `sh` for this machine without SSH, to try a configuration",
    "slots": "experiments at a time; default: the number of cores",
    "folder": "the folder of zenturio's files on the machine",
    "python": "the Python of the machine, 3.9 or newer",
    "ssh": "more options for `ssh`, such as `-F FILE`",
    "probe": "a command that prints facts as a JSON object",
    "facts": "facts for REQUIRE and RANK that zenturio then does not measure",
}
USER = {
    "role": "`look`: read everything; `run`: also submit studies and cancel their own; `admin`: also cancel studies of other users",
    "password": "the line that `zen serve --hash` prints; a user without a password logs in through a proxy",
    "token": "the hash that `zen serve --token NAME` prints, for programs that submit",
}


def table(kind: type) -> str:
    return rows((s.name, shown(s), s.help) for s in described(kind))


def own_table(kind: type, meanings: dict[str, str]) -> str:
    return rows(
        (part.name, shown(part) if isinstance(part.default, str | int | float) else "", text)
        for part in fields(kind)
        for text in [meanings.get(part.name)]
        if text
    )


def rows(cells) -> str:
    lines = [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in cells]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *lines])


def page() -> str:
    return f"""{HEAD}
## A machine: `[hosts.NAME]` of a file of hosts

{own_table(HostMachine, MACHINE)}

## All machines: `[options]` of a file of hosts

[Machines over SSH](hosts.md) explains these settings.

{table(HostsOptions)}

## The service: `[serve]` of `zenturio.toml`

[The service](serve.md) explains these settings.

{table(ServiceConfig)}

## A user: `[serve.users]`

{own_table(ServiceUser, USER)}

## A share: `[serve.shares]`

{table(UserShare)}
"""


def test_the_page_has_all_settings_of_all_files():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_setting_of_machines_and_users_has_a_meaning():
    for kind, meanings in ((HostMachine, MACHINE), (ServiceUser, USER)):
        assert {part.name for part in fields(kind)} - {"name"} == set(meanings)
