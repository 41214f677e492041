"""A machine as its owner describes it, and how its jobs are to be treated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zenturio.execute.hosts.connection import ssh_command
from zenturio.expression import Expression, Value

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
