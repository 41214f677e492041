"""A workflow with the machines that belong to it, if any do."""

from __future__ import annotations

from dataclasses import dataclass

from zenturio.schedule.platform import Platform
from zenturio.schedule.workflow import Workflow


@dataclass(frozen=True)
class Instance:
    workflow: Workflow
    platform: Platform | None = None
    """None: any platform will do."""
