"""hosts.toml: which machines there are, and how jobs are treated.

[options]
contract = 0.5

[hosts.pegasus]
address = "pegasus.example.org"
memory = "1GB"
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from zenturio import trust
from zenturio.errors import InputError, Passage, PlaceError, did_you_mean
from zenturio.execute.hosts.connection import ssh_command
from zenturio.expression import Expression, Value, parse
from zenturio.schedule.formats.document import FormatDocument
from zenturio.settings.document import Entry, KeyPath, read_text
from zenturio.settings.schema import setting, settings_of

FOLDER = "~/.cache/zenturio"

KNOWN_FACTS = (
    "name", "address", "node", "arch", "os", "kernel", "cpu", "mhz", "cores", "memory", "python",
    "speed", "tags", "cost", "load", "free_memory", "disk", "slots", "free",
)  # fmt: skip
"""What REQUIRE and RANK may ask of any host; a probe and a description may add names."""


PLUGIN_OPTIONS = ("prolog", "wrapper", "epilog", "selector", "evaluator")
"""Options that name a module: an entry point, or FILE.py:CLASS."""


@dataclass(frozen=True)
class HostMachine:
    """How one gets there, and what is declared: facts that need not be queried."""

    name: str
    address: str
    port: int | None = None
    user: str = ""
    via: Literal["ssh", "sh"] = "ssh"
    """sh: this machine, without SSH; to try things out."""
    slots: int | None = None
    """Experiments at a time; its cores, if it is not said."""
    folder: str = FOLDER
    python: str = "python3"
    ssh: tuple[str, ...] = ()
    """More options for ssh, such as -F FILE."""
    probe: str = ""
    """A command that prints facts as a JSON object, run as often as the load is read."""
    facts: Mapping[str, Value] = field(default_factory=dict)

    def words(self, patience: float) -> list[str]:
        """Return what comes before a command that is to run there."""
        if self.via == "sh":
            return ["/bin/sh", "-c"]
        return ssh_command(
            self.address, port=self.port, user=self.user, options=self.ssh, patience=patience
        )


def _read_amount(name: str, entry: Entry) -> float:
    """Return a number from 0 on; a text may have a unit, as in 4GB."""
    value = entry.value
    if isinstance(value, str):
        try:
            value = parse(value).value({})
        except InputError:
            hint = "write a number, or one such as '4GB'"
            raise InputError(f"{name} is {value!r:.60}", hint=hint) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{name} = {value!r} is not possible", hint="write a number from 0 on")
    return float(value)


def _read_words(name: str, entry: Entry) -> str:
    if not isinstance(entry.value, str):
        raise InputError(f"{name} = {entry.value!r} is not possible", hint="write a text")
    return entry.value


def _read_names(name: str, entry: Entry) -> tuple[str, ...]:
    value = entry.value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        hint = f'write {name} = ["FILE"]'
        raise InputError(f"{name} = {value!r} is not possible", hint=hint)
    return tuple(value)


def _read_module(name: str, entry: Entry) -> str:
    """Return the name of an entry point as it is; a file stands beside the file of hosts."""
    text = _read_words(name, entry)
    path, colon, attribute = text.rpartition(":")
    if not colon:
        return text
    if not path.endswith(".py") or not attribute.isidentifier():
        raise InputError(f"{text!r} is not a module", hint="write FILE.py:CLASS, or a name")
    assert entry.place is not None, "it stands in a file"
    file = Path(entry.place.file).absolute().parent / path
    trust.check_owner(file, "module")
    if not file.is_file():
        raise InputError(f"{path} is not there", hint=f"it is looked for in {file.parent}")
    return f"{file}:{attribute}"


def _read_expression(name: str, entry: Entry) -> Expression:
    text, place = _read_words(name, entry), entry.place
    assert place is not None, "it stands in a file"
    # It begins behind its key; one of several lines is found at the key.
    begin = place.text.find(text, place.column - 1)
    begins = replace(place, column=begin + 1, width=1) if begin >= 0 else place
    return parse(Passage(text, ((0, begins),)))


@dataclass(frozen=True)
class HostsOptions:
    """How jobs are placed, watched, moved and tried again."""

    exists: float = setting(
        300.0, "seconds between two readings of machines, cores and memory", read=_read_amount
    )
    status: float = setting(
        30.0, "seconds between two readings of the load and of the probe", read=_read_amount
    )
    patience: float = setting(
        30.0,
        "seconds without a connection after which other hosts get the jobs of a host",
        read=_read_amount,
    )
    connect: float = setting(10.0, "seconds for making a connection", read=_read_amount)
    retries: int = setting(
        2, "how often a failed stage is tried again on the same host", low=0, high=1000
    )
    drain: int = setting(
        3,
        "failures of different experiments in a row after which a host gets no more; 0: no limit",
        low=0,
        high=1000,
    )
    then: Literal["reschedule", "stop"] = setting(
        "reschedule", "what to do when no retries are left: try another host, or stop the study"
    )
    contract: float = setting(
        0.0,
        "share by which an iteration must exceed earlier ones to break the contract; 0: off",
        read=_read_amount,
    )
    breaches: int = setting(
        1, "number of long iterations in a row that break the contract", low=0, high=1000
    )
    gain: float = setting(
        0.0,
        "a job moves to a host that would save this share of its remaining time; 0: never",
        read=_read_amount,
    )
    migrations: int = setting(
        5, "how often one job may move; moves after failures do not count", low=0, high=1000
    )
    restart: tuple[str, ...] = setting(
        (),
        "files that move with a job; without such files the job starts from the beginning",
        read=_read_names,
    )
    checkpoint: float = setting(
        0.0,
        "seconds between two copies of restart files to this machine; 0: no copies",
        read=_read_amount,
    )
    returns: float = setting(
        2.0**31, "maximum size of the files that one attempt returns, in bytes", read=_read_amount
    )
    variants: tuple[str, ...] = setting(
        (), "files for hosts of one kind, such as bin/solver.{host.arch}", read=_read_names
    )
    require: Expression | None = setting(
        None, "condition that every host must meet, besides REQUIRE", read=_read_expression
    )
    rank: Expression | None = setting(
        None,
        "expression that ranks hosts if there is no RANK; default: the speed",
        read=_read_expression,
    )
    prolog: str = setting("prolog", "the module that moves files to a host", read=_read_module)
    wrapper: str = setting("wrapper", "the module that starts a job", read=_read_module)
    epilog: str = setting("epilog", "the module that fetches the files of a job", read=_read_module)
    selector: str = setting("selector", "the module that chooses a host", read=_read_module)
    evaluator: str = setting("evaluator", "the module that judges progress", read=_read_module)
    discover: str = setting(
        "", "a command that prints more hosts as JSON, with the settings above", read=_read_words
    )


_ACCESS_KEYS = ("address", "port", "user", "via", "slots", "folder", "python", "ssh", "probe")
_FACT_KEYS = ("cores", "memory", "arch", "speed", "mhz", "load", "cost", "tags", "facts")
_MOST_SLOTS = 10**5
_DISCOVERY_SECONDS = 60.0


@dataclass(frozen=True)
class HostsFile:
    """What such a file says."""

    file: str
    machines: tuple[HostMachine, ...]
    options: HostsOptions

    def texts(self) -> dict[str, str]:
        """Shell text, options of ssh and modules of the file, by where they stand."""
        texts = {}
        if self.options.discover:
            texts[f"{self.file} [options] discover"] = self.options.discover
        for name in PLUGIN_OPTIONS:
            path, colon, _ = getattr(self.options, name).rpartition(":")
            if colon:
                texts[f"{self.file} [options] {name}"] = read_text(Path(path))
        for machine in self.machines:
            where = f"{self.file} [hosts.{machine.name}]"
            if machine.probe:
                texts[f"{where} probe"] = machine.probe
            if machine.ssh:  # -o ProxyCommand is a command
                texts[f"{where} ssh"] = " ".join(machine.ssh)
            if machine.python != "python3":
                texts[f"{where} python"] = machine.python
        return texts

    def discovered(self) -> tuple[HostMachine, ...]:
        """Return the machines of the file, and those that its command names now."""
        if not self.options.discover:
            return self.machines
        names = {machine.name for machine in self.machines}
        discovered = [machine for machine in _discover(self) if machine.name not in names]
        return (*self.machines, *discovered)


LOCAL = "local"
"""The name of this machine in place of a hosts file."""


def local_hosts_file() -> HostsFile:
    """Return the configuration of this machine alone, without SSH: a slot for each core."""
    return HostsFile(LOCAL, (HostMachine(LOCAL, "localhost", via="sh"),), HostsOptions())


def read_hosts_file(path: Path) -> HostsFile:
    """Return the file at *path*, or InputError with the place of what is wrong."""
    trust.check_owner(path, "file of hosts")
    document = FormatDocument.from_toml(path, read_text(path))
    value = document.value
    document.keys(value, ("hosts", "options"), ())
    options = _read_options(document, value.get("options", {}))
    machines = _read_machines(document, value.get("hosts", {}), ("hosts",))
    if not machines and not options.discover:
        raise InputError(f"{path} names no host", hint='write [hosts.NAME] and address = "..."')
    return HostsFile(str(path), machines, options)


def _read_machines(
    document: FormatDocument, value: Any, key_path: KeyPath
) -> tuple[HostMachine, ...]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        document.wrong(key_path, "hosts are tables", "write [hosts.NAME]")
    return tuple(
        _read_machine(document, name, table, (*key_path, name)) for name, table in value.items()
    )


def _read_machine(
    document: FormatDocument, name: str, value: dict[str, Any], key_path: KeyPath
) -> HostMachine:
    document.keys(value, (*_ACCESS_KEYS, *_FACT_KEYS), key_path)
    via = value.get("via", "ssh")
    if via not in ("ssh", "sh"):
        document.wrong((*key_path, "via"), f"via = {via!r}", did_you_mean(str(via), ("ssh", "sh")))
    address = _read_text(document, value, "address", key_path, name)
    if address.startswith("-"):
        document.wrong((*key_path, "address"), f"{address!r} is not an address")
    port, slots = value.get("port"), value.get("slots")
    return HostMachine(
        name,
        address,
        None if port is None else document.whole(port, (*key_path, "port"), 1, 65535),
        _read_text(document, value, "user", key_path),
        via,
        None if slots is None else document.whole(slots, (*key_path, "slots"), 1, _MOST_SLOTS),
        _read_text(document, value, "folder", key_path, FOLDER),
        _read_text(document, value, "python", key_path, "python3"),
        _read_texts(document, value.get("ssh", []), (*key_path, "ssh")),
        _read_text(document, value, "probe", key_path),
        _read_facts(document, value, key_path),
    )


def _read_facts(
    document: FormatDocument, value: dict[str, Any], key_path: KeyPath
) -> dict[str, Value]:
    """Return what is declared of a machine, and what is added to it in a table of its own."""
    facts: dict[str, Value] = {}
    if "cores" in value:
        facts["cores"] = document.whole(value["cores"], (*key_path, "cores"), 1, _MOST_SLOTS)
    for name in ("memory", "speed", "mhz", "load", "cost"):
        if name in value:
            number = document.number(value[name], (*key_path, name))
            facts[name] = int(number) if name == "memory" else number
    if "arch" in value:
        facts["arch"] = document.words(value["arch"], (*key_path, "arch"))
    if "tags" in value:
        facts["tags"] = ",".join(_read_texts(document, value["tags"], (*key_path, "tags")))
    declared = value.get("facts", {})
    if not isinstance(declared, dict):
        document.wrong(
            (*key_path, "facts"), "facts is not a table", 'facts = { gpus = 2, site = "UCM" }'
        )
    for name, fact in declared.items():
        if not isinstance(fact, bool | int | float | str):
            document.wrong((*key_path, "facts", name), f"{name} is neither a number nor a text")
        if name in KNOWN_FACTS:
            document.wrong((*key_path, "facts", name), f"{name} is a built-in fact of every host")
        facts[name] = fact
    return facts


def _read_text(
    document: FormatDocument, value: dict[str, Any], key: str, key_path: KeyPath, usual: str = ""
) -> str:
    return document.words(value.get(key, usual), (*key_path, key))


def _read_texts(document: FormatDocument, value: Any, key_path: KeyPath) -> tuple[str, ...]:
    items = document.items(value, key_path)
    document.texts(items, lambda i: (*key_path, i))
    return tuple(items)


def _read_options(document: FormatDocument, value: Any) -> HostsOptions:
    if not isinstance(value, dict):
        document.wrong(("options",), "options is not a table", "write [options]")
    return settings_of(HostsOptions, document.table(("options",), value).entries, "[options]")


def _discover(configuration: HostsFile) -> tuple[HostMachine, ...]:
    command = configuration.options.discover
    try:
        process = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=Path(configuration.file).absolute().parent,
            capture_output=True,
            timeout=_DISCOVERY_SECONDS,
            check=True,
        )
        value = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise PlaceError(f"discover = {command!r}: {error}", hint="it prints JSON") from error
    text = process.stdout.decode("utf-8", "replace")
    return _read_machines(FormatDocument(f"what {command!r} prints", text, value), value, ())


def fact_values(facts: Mapping[str, Any]) -> dict[str, Value]:
    """Return the facts of a host for expressions: numbers, texts, or NULL."""
    return {
        name: fact if isinstance(fact, bool | int | float | str) else None
        for name, fact in facts.items()
    }
