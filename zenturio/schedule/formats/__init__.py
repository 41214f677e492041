"""Files of workflows and platforms: which format they have, reading, writing."""

from zenturio.schedule.formats.files import (
    formats,
    read_instance,
    read_platform,
    read_workflow,
    write_platform,
    write_workflow,
)
from zenturio.schedule.formats.graphs import from_networkx, to_networkx
from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.formats.swf import SwfJobs, load_steps, read_swf

__all__ = [
    "Instance",
    "SwfJobs",
    "formats",
    "from_networkx",
    "load_steps",
    "read_instance",
    "read_platform",
    "read_swf",
    "read_workflow",
    "to_networkx",
    "write_platform",
    "write_workflow",
]
