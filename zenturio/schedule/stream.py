"""Workflows that arrive one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.transfers import merge_transfers
from zenturio.schedule.workflow import Floats, Indices, Workflow, WorkflowTask


@dataclass(frozen=True, eq=False)
class WorkflowSubmission:
    """A workflow, and when it is submitted; until then nobody knows of it."""

    workflow: Workflow
    arrival: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        if not (isfinite(self.arrival) and self.arrival >= 0):
            raise InputError(
                f"workflow {self.name or self.workflow.name!r} arrives at {self.arrival}",
                hint="in seconds, 0 or more",
            )


@dataclass(frozen=True, eq=False)
class WorkflowStream:
    """Workflows in the order in which they arrive, each with a name of its own."""

    name: str
    submissions: tuple[WorkflowSubmission, ...]

    @classmethod
    def of(cls, name: str, submissions: Iterable[WorkflowSubmission]) -> WorkflowStream:
        """*submissions* by their arrival; those that share a name are numbered."""
        found = sorted(submissions, key=lambda each: each.arrival)
        if not found:
            raise InputError(f"stream {name!r} has no workflow")
        for each in found:
            if not len(each.workflow):
                raise InputError(f"workflow {each.workflow.name!r} has no task")
        labels = _distinct_names([each.name or each.workflow.name for each in found])
        return cls(
            name,
            tuple(replace(each, name=label) for each, label in zip(found, labels, strict=True)),
        )

    def __len__(self) -> int:
        return len(self.submissions)

    def __repr__(self) -> str:
        return f"<Stream {self.name}: {len(self)} workflows, {len(self.workflow)} tasks>"

    @cached_property
    def arrivals(self) -> Floats:
        return np.array([each.arrival for each in self.submissions], np.float64)

    @cached_property
    def first(self) -> Indices:
        """The tasks of workflow w are those from ``first[w]`` to before ``first[w + 1]``."""
        counts = [len(flow) for flow in self._flows]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @cached_property
    def owner(self) -> Indices:
        """The workflow of each task."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.first))

    @cached_property
    def workflow(self) -> Workflow:
        """All of them as one; a task is named ``workflow/task``."""
        flows, shifts = self._flows, self.first.tolist()
        programs: dict[str, int] = {}
        columns = [_program_numbers(flow, programs) for flow in flows]
        names: list[str] = []
        more: dict[int, WorkflowTask] = {}
        for each, flow, shift in zip(self.submissions, flows, shifts, strict=False):
            names += [f"{each.name}/{name}" for name in flow.names]
            more |= {
                shift + i: replace(
                    task, name=names[shift + i], machine=_abstract_machine(each, task)
                )
                for i, task in flow.more.items()
            }
        pairs = list(zip(flows, shifts, strict=False))
        return Workflow(
            self.name,
            tuple(names),
            np.concatenate([flow.work for flow in flows]),
            np.concatenate([flow.sources + np.int32(shift) for flow, shift in pairs]),
            np.concatenate([flow.targets + np.int32(shift) for flow, shift in pairs]),
            np.concatenate([flow.data for flow in flows]),
            more,
            np.concatenate(columns),
            tuple(programs),
        )

    @cached_property
    def _flows(self) -> list[Workflow]:
        """The workflows as they are planned: transfers are bytes along edges."""
        known: dict[int, Workflow] = {}
        for each in self.submissions:
            if id(each.workflow) not in known:
                known[id(each.workflow)] = merge_transfers(each.workflow)
        return [known[id(each.workflow)] for each in self.submissions]


def _distinct_names(names: list[str]) -> list[str]:
    """Each of *names*, if no other is the same; else the first number that makes it so."""
    several = {name for name, count in Counter(names).items() if count > 1}
    taken, used = set(names), Counter[str]()
    found = []
    for name in names:
        label = name
        while name in several and label in taken:
            used[name] += 1
            label = f"{name}-{used[name]}"
        taken.add(label)
        found.append(label)
    return found


def _abstract_machine(each: WorkflowSubmission, task: WorkflowTask) -> str:
    """The abstract machine of *task*: no other workflow shares it."""
    return f"{each.name}/{task.machine}" if task.machine else ""


def _program_numbers(flow: Workflow, programs: dict[str, int]) -> Indices:
    """The program of each task by its number in *programs*, which grows."""
    names = flow.programs if flow.program is not None else ("",)
    numbers = [programs.setdefault(name, len(programs)) for name in names]
    given = np.zeros(len(flow), np.int32) if flow.program is None else flow.program
    return np.array(numbers, np.int32)[given]
