"""Reading and writing workflow and platform files of all formats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats import graphs as dot
from zenturio.schedule.formats import platforms, stg, wfformat
from zenturio.schedule.formats import zenturio_json as ours
from zenturio.schedule.formats.dax import read_dax
from zenturio.schedule.formats.document import FormatDocument, file_exists, write_text
from zenturio.schedule.formats.makeflow import read_makeflow
from zenturio.schedule.formats.nextflow_snakemake import (
    is_nextflow_trace,
    is_snakemake_folder,
    read_nextflow_trace,
    read_snakemake_folder,
)
from zenturio.schedule.model.platform import TESTBEDS, Platform, identical
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Workflow
from zenturio.settings.document import place_at, read_text

_FORMAT_NAMES = {
    "json": "zenturio's own: everything about a workflow and its platform",
    "wfformat": f"WfFormat {wfformat.VERSION} of WfCommons (also written *.json)",
    "stg": "Standard Task Graph",
    "dot": "Graphviz",
    "dax": "DAX of Pegasus (read only)",
    "makeflow": "Makeflow, with its log (read only)",
    "nextflow": "a trace of Nextflow (read only)",
    "snakemake": "a folder in which Snakemake ran (read only)",
}
_READ_ONLY = {"dax", "makeflow", "nextflow", "snakemake"}
_ENDINGS = {
    ".json": "json", ".stg": "stg", ".dot": "dot", ".gv": "dot", ".dax": "dax", ".xml": "dax",
    ".makeflow": "makeflow",
}  # fmt: skip


def formats() -> dict[str, str]:
    """Return the names of the formats and what each is."""
    return dict(_FORMAT_NAMES)


def read_workflow(path: str | Path) -> Workflow:
    """Return the workflow in the file *path*, whatever its format."""
    return read_instance(path).workflow


def read_instance(path: str | Path) -> Instance:
    """Return the workflow in the file *path*, with its platform if the file has one.

    The format follows from the ending, or else from the first characters. A folder is one in which
    Snakemake ran. Raise InputError if it is none.
    """
    path = Path(path)
    if is_snakemake_folder(path):
        return Instance(read_snakemake_folder(path))
    text = read_text(path)
    match _ENDINGS.get(path.suffix.lower()) or _guess_format(path, text):
        case "json":
            return _read_json_workflow(path, text)
        case "stg":
            return Instance(stg.read_stg(path, text))
        case "dot":
            return Instance(dot.read_dot(path, text))
        case "dax":
            return Instance(read_dax(path, text))
        case "makeflow":
            return Instance(read_makeflow(path, text))
        case "nextflow":
            return Instance(read_nextflow_trace(path, text))
        case _:
            raise InputError(
                f"{path} is not a workflow",
                place=place_at(str(path), text, 0),
                hint=f"known formats: {', '.join(_FORMAT_NAMES)}",
            )


def _guess_format(path: Path, text: str) -> str:
    if path.name == "Makeflow":
        return "makeflow"
    if is_nextflow_trace(text):
        return "nextflow"
    start = text.lstrip()[:200]
    if start.startswith("{"):
        return "json"
    if start.startswith("<"):
        return "dax"
    if re.match(r"(strict\s+)?(di)?graph\b", start):
        return "dot"
    return "stg" if start[:1].isdigit() else ""


def _read_json_workflow(path: Path, text: str) -> Instance:
    document = FormatDocument.from_json(path, text)
    if not isinstance(document.value, dict):
        document.wrong((), "a workflow is an object")
    if "workflow" in document.value or "schemaVersion" in document.value:
        return wfformat.read_wfformat(document)
    return ours.read_zenturio_json(document)


def read_platform(text: str) -> Platform:
    """Return the platform ``identical:N``, ``grid-2005``, or that of a file.

    A file is TOML, such as grid.toml, or JSON with machines.
    """
    kind, colon, rest = text.partition(":")
    if kind == "identical" and colon:
        if not rest.isdecimal() or len(rest) > 6 or not 1 <= int(rest) <= platforms.MAX_MACHINES:
            raise InputError(f"{text}: identical:N has N from 1 to {platforms.MAX_MACHINES:,}")
        return identical(int(rest))
    if text in TESTBEDS and not file_exists(Path(text)):
        return TESTBEDS[text]()
    path = Path(text)
    content = read_text(path) if path.suffix or file_exists(path) else None
    if content is None:
        testbeds = ", ".join(TESTBEDS)
        raise InputError(
            f"no platform {text!r}", hint=f"identical:8, {testbeds}, or a file such as grid.toml"
        )
    if path.suffix.lower() == ".json" or content.lstrip().startswith("{"):
        return _platform_of_json(path, content)
    document = FormatDocument.from_toml(path, content)
    return platforms.read_platform_values(document, document.value, (), path.stem)


def _platform_of_json(path: Path, text: str) -> Platform:
    document = FormatDocument.from_json(path, text)
    value = document.value
    if isinstance(value, dict) and "machines" in value:
        return platforms.read_platform_values(document, value, (), path.stem)
    platform = _read_json_workflow(path, text).platform
    if platform is None:
        document.wrong((), "this workflow names no machines", "try --on identical:8")
    return platform


def write_workflow(
    flow: Workflow, path: str | Path, platform: Platform | None = None, form: str = ""
) -> tuple[str, ...]:
    """Write *flow* to *path*, and return what the format cannot express, as messages.

    The format follows from *form*, or else from the ending.
    """
    path = Path(path)
    form = form or _ENDINGS.get(path.suffix.lower(), "json" if path == Path("-") else "")
    if form not in _FORMAT_NAMES:
        raise InputError(
            f"{path}: no format is named {form or path.suffix!r}",
            hint=did_you_mean(form or path.suffix.lstrip("."), _FORMAT_NAMES),
        )
    if form in _READ_ONLY:
        raise InputError(f"{path}: {form} is read, not written", hint="json, wfformat, stg or dot")
    pieces, format_losses = _text_and_losses(flow, platform, form)
    losses = list(format_losses)
    if platform is not None and form in {"stg", "dot"}:
        losses.append(f"the {len(platform)} machines of the platform")
    write_text(path, pieces)
    return tuple(losses)


def _text_and_losses(
    flow: Workflow, platform: Platform | None, form: str
) -> tuple[Iterable[str], Iterable[str]]:
    """Return the text in pieces, and messages about what the format cannot express."""
    match form:
        case "json":
            return ours.write_zenturio_json(flow, platform), ()
        case "wfformat":
            return wfformat.write_wfformat(flow, platform), wfformat.wfformat_losses(flow, platform)
        case "stg":
            return stg.write_stg(flow), stg.stg_losses(flow)
        case _:
            return dot.write_dot(flow), dot.dot_losses(flow)


def write_platform(platform: Platform, path: str | Path) -> None:
    """Write *platform* to *path* as TOML."""
    write_text(Path(path), platforms.platform_toml(platform))
