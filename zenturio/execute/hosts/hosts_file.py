"""hosts.toml: which machines there are, and how jobs are treated.

[options]
contract = 0.5

[hosts.pegasus]
address = "pegasus.example.org"
memory = "1GB"
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from zenturio import trust
from zenturio.errors import InputError, Passage, Place, PlaceError, did_you_mean
from zenturio.execute.hosts.connection import ssh_command
from zenturio.expression import Expression, Value, parse
from zenturio.schedule.formats.document import FormatDocument
from zenturio.settings.document import place_at, read_text
from zenturio.settings.positions import KeyPath

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
    """How one gets there, and what is declared: facts that need not be asked."""

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
    """A command that prints facts as a JSON object, asked as often as the load."""
    facts: Mapping[str, Value] = field(default_factory=dict)

    def words(self, patience: float) -> list[str]:
        """Return what comes before a command that is to run there."""
        if self.via == "sh":
            return ["/bin/sh", "-c"]
        return ssh_command(
            self.address, port=self.port, user=self.user, options=self.ssh, patience=patience
        )


@dataclass(frozen=True)
class HostsOptions:
    """How jobs are placed, watched, moved and tried again."""

    exists: float = 300.0
    """Seconds between two looks at what there is: machines, cores, memory."""
    status: float = 30.0
    """Seconds between two looks at how it is: load, what a probe says."""
    patience: float = 30.0
    """Seconds without a connection after which a host is given up, and its jobs go elsewhere."""
    connect: float = 10.0
    """Seconds that a connection may take to be made."""
    retries: int = 2
    """How often a stage that failed is tried again at the same host."""
    drain: int = 3
    """A host that could not run so many different experiments in a row gets no more; 0: never."""
    then: Literal["reschedule", "stop"] = "reschedule"
    """What follows when no retries are left: another host, or the end of the study."""
    contract: float = 0.0
    """An iteration longer by this part than those before breaks the contract; 0: none does."""
    breaches: int = 1
    """So many iterations in a row break it: where one that is slow may be an accident, 2."""
    gain: float = 0.0
    """A job moves to a better host that ends it earlier by this part of what is left; 0: never."""
    migrations: int = 5
    """How often one job may move, failures not counted."""
    restart: tuple[str, ...] = ()
    """Files that go with a job when it moves: without them it begins again."""
    checkpoint: float = 0.0
    """Seconds between two copies of restart files to here, for hosts that fail; 0: none."""
    returns: float = 2.0**31
    """Bytes that the files of one attempt may have which come back."""
    variants: tuple[str, ...] = ()
    """Files for one sort of hosts alone, such as ``bin/solver.{host.arch}``."""
    require: Expression | None = None
    """What every host must be, besides what REQUIRE says."""
    rank: Expression | None = None
    """What is better where no RANK says it; the speed, if nothing does."""
    prolog: str = "prolog"
    wrapper: str = "wrapper"
    epilog: str = "epilog"
    selector: str = "selector"
    evaluator: str = "evaluator"
    discover: str = ""
    """A command that prints hosts, as this file has them, in JSON."""


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
"""What stands for this machine where a hosts file is named."""


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
    """Return the table ``[options]``: fields of Ways, each of its type."""
    hints = get_type_hints(HostsOptions)
    document.keys(value, tuple(field.name for field in fields(HostsOptions)), ("options",))
    return HostsOptions(
        **{n: _read_option(document, n, hints[n], setting) for n, setting in value.items()}
    )


def _read_option(document: FormatDocument, name: str, annotation: Any, value: Any) -> Any:
    key_path = ("options", name)
    if annotation is float:
        return document.number(value, key_path)
    if annotation is int:
        return document.whole(value, key_path, 0, 1000)
    if name in PLUGIN_OPTIONS:
        return _read_module(document, document.words(value, key_path), key_path)
    if annotation is str:
        return document.words(value, key_path)
    if annotation == tuple[str, ...]:
        return _read_texts(document, value, key_path)
    if Expression in get_args(annotation):
        return _read_expression(document, document.words(value, key_path), key_path)
    if value not in get_args(annotation):
        document.wrong(
            key_path, f"{name} = {value!r}", did_you_mean(str(value), get_args(annotation))
        )
    return value


def _value_position(document: FormatDocument, text: str, key_path: KeyPath) -> Place:
    """Return where *text* begins, behind its key."""
    key, _ = document.span(key_path)
    at = document.text.find(text, key)
    return place_at(document.file, document.text, key if at < 0 else at)


def _read_module(document: FormatDocument, text: str, key_path: KeyPath) -> str:
    """Return the name of an entry point as it is; a file stands beside the file of hosts."""
    path, colon, name = text.rpartition(":")
    if not colon:
        return text
    if not path.endswith(".py") or not name.isidentifier():
        document.wrong(key_path, f"{text!r} is not a module", "write FILE.py:CLASS, or a name")
    file = Path(document.file).absolute().parent / path
    trust.check_owner(file, "module")
    if not file.is_file():
        document.wrong(key_path, f"{path} is not there", f"it is looked for in {file.parent}")
    return f"{file}:{name}"


def _read_expression(document: FormatDocument, text: str, key_path: KeyPath) -> Expression:
    return parse(Passage(text, ((0, _value_position(document, text, key_path)),)))


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
    """Facts as expressions may ask for them: numbers, texts, or NULL."""
    return {
        name: fact if isinstance(fact, bool | int | float | str) else None
        for name, fact in facts.items()
    }
