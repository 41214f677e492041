"""Parsers of bytes that others wrote, fed with what a seeded mutation makes of good examples.

Each parser runs in a process of its own under a limit of memory. For each input it has to answer
within its deadline: with a result, or with an error of ours. Anything else is a crash.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

MEMORY = 3 * 2**30
"""Bytes of address space of a parser's process, of which what it imports takes about one half."""
DEADLINE = 20
"""Seconds of processor time for one input."""

SWF = b"; UnixStartTime: 0\n; MaxProcs: 8\n" + b"".join(
    b"%d %d 5 60 4 50 1024 4 90 -1 1 3 1 1 1 -1 -1 -1\n" % (n, n * 10) for n in range(1, 9)
)
STG = b"  3\n 0 0 0\n 1 5 1 0\n 2 7 1 0\n 3 4 2 1 2\n 4 0 1 3\n# comment\n"
DOT = b'digraph g { a [work=3]; b [work="4.5"]; a -> b [data=10]; subgraph s { c -> {a b} } }'
DAX = b"""<adag name="d"><job id="a" runtime="3"><uses file="f" link="output" size="9"/></job>
<job id="b" name="x" numcores="2" runtime="1.5"><uses name="f" link="input" size="9"/></job>
<child ref="b"><parent ref="a"/></child></adag>"""
WFFORMAT_1_4 = json.dumps({
    "name": "w", "schemaVersion": "1.4", "workflow": {
        "machines": [{"nodeName": "n", "cpu": {"count": 2, "speed": 1000}}],
        "tasks": [
            {"name": "a", "id": "1", "runtimeInSeconds": 3, "machine": "n", "cores": 1.5,
             "files": [{"name": "f", "sizeInBytes": 9, "link": "output"}]},
            {"name": "b", "runtimeInSeconds": 4, "parents": ["a"],
             "files": [{"name": "f", "sizeInBytes": 9, "link": "input"}]},
        ],
    },
}).encode()  # fmt: skip
WFFORMAT = json.dumps({
    "name": "w", "schemaVersion": "1.5", "workflow": {
        "specification": {
            "tasks": [
                {"name": "a", "id": "a", "parents": [], "children": ["b"], "outputFiles": ["f"]},
                {"name": "b", "id": "b", "parents": ["a"], "children": [], "inputFiles": ["f"]},
            ],
            "files": [{"id": "f", "sizeInBytes": 100}],
        },
        "execution": {
            "makespanInSeconds": 10, "executedAt": "2020-01-01T00:00:00Z",
            "tasks": [{"id": "a", "runtimeInSeconds": 3.5}, {"id": "b", "runtimeInSeconds": 1}],
            "machines": [{"nodeName": "m", "cpu": {"coreCount": 4, "speedInMHz": 2000}}],
        },
    },
}).encode()  # fmt: skip
OURS = json.dumps({
    "tasks": [{"name": "a", "work": 3}, {"name": "b", "work": 4}],
    "edges": [["a", "b", 10]],
    "platform": {"machines": [{"name": "m", "speed": 1, "cores": 2}]},
}).encode()  # fmt: skip
TOML = b"""[places.cluster]\nkind = "slurm"\njobs = 4\nsetup = "module load gcc"\narray = 10
"""
HOSTS = b"""[hosts.a]\naddress = "a"\nslots = 2\nmemory = 1e9\nfacts = { gpus = 2 }\n[options]\npatience = 3.5\nrequire = "cores > 2"\n"""
CSV = b'step,loss,name\n1,0.5,a\n2,0.25,"b,c"\n3,nan,d\n'
JSON = b'{"a": {"b": [1, 2.5, {"c": "x"}], "d": 1e308}, "n": [[1, 2], [3, 4]]}\n'
SOURCE = b"""#!/bin/sh
# ZEN$ SUBSTITUTE 7 = { 1:10:2, a{1:3}-{x,y}, "b c" } AS n TYPE str WHEN m > 2
# ZEN$ PARAM m = { LIN(0, 1, 5) } UNIT "s"
# ZEN$ CONSTRAINT VALUE n != "a1-x" or m ** 2 < 0.5
# ZEN$ RUN "sh p.sh {n}" TIMEOUT 3s CPUS 2 MEMORY 1GB
# ZEN$ METRIC t FROM stdout REGEX "t=(\\\\S+)" TAKE last UNIT "s"
# ZEN$ OBJECTIVE MINIMIZE t
echo 7
"""
SVG = (
    b'<?xml version="1.0"?><!-- a --><svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>'
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))


def file_of(reader):
    def parse(data, folder):
        path = folder / "file"
        path.write_bytes(data)
        reader(path)

    return parse


def swf(path):
    from zenturio.schedule.formats.swf import read_swf

    read_swf(path)


def workflow(ending):
    def read(data, folder):
        from zenturio.schedule.formats.files import read_workflow

        path = folder / f"file{ending}"
        path.write_bytes(data)
        read_workflow(path)

    return read


def settings(path):
    from zenturio.execute.places import configured_places

    path.rename(path.with_name("zenturio.toml"))
    for named in configured_places(path.parent).values():
        named.options()


def hosts(path):
    from zenturio.execute.hosts.hosts_file import read_hosts_file

    read_hosts_file(path)


def metric(text):
    def read(data, folder):
        from zenturio.annotate.scan import scan
        from zenturio.experiment.experiment import Log, Recipe
        from zenturio.experiment.metrics import Evidence, measure

        (folder / "p.sh").write_text(f"#ZEN$ RUN 'true'\n#ZEN$ METRIC x FROM stdout {text}\n")
        recipe = Recipe(metrics=scan(folder / "p.sh").metrics)
        measure(recipe, {}, Evidence(Log(data, b"", len(data)), Log(), folder, b""))

    return read


def reported(data, folder):
    from zenturio.experiment.experiment import Log, Recipe
    from zenturio.experiment.metrics import Evidence, measure

    measure(Recipe(), {}, Evidence(Log(), Log(), folder, data))


def source(data, folder):
    from zenturio.annotate.scan import scan
    from zenturio.annotate.substitution import Filler

    (folder / "p.sh").write_bytes(data)
    application = scan(folder / "p.sh")
    Filler(application)


PLATFORM = json.dumps({
    "machines": [
        {"name": "m", "speed": 1, "cores": 2, "site": "m", "load": [[0, 1], [5, 0]]},
        {"name": "n", "speed": 2, "site": "n"},
    ],
    "links": [{"between": ["m", "n"], "bandwidth": 1e6, "latency": 0.1}],
}).encode()  # fmt: skip


def plan(path):
    from zenturio.schedule.formats import plan_json
    from zenturio.schedule.formats.files import read_instance
    from zenturio.schedule.model.problem import Problem

    flow = path.with_name("flow.json")
    flow.write_bytes(OURS)
    instance = read_instance(flow)
    plan_json.read_plan(path, Problem.of(instance.workflow, instance.platform))


def platform(path):
    from zenturio.schedule.formats.files import read_platform

    read_platform(str(path.rename(path.with_suffix(".json"))))


def tables(path):
    from zenturio.query.raw_query import with_csv_tables

    with_csv_tables("select * from t", {"t": path})


def service(path):
    from zenturio.study.service.service_config import ServiceConfig

    path.rename(path.with_name("zenturio.toml"))
    ServiceConfig.of(path.parent)


def project_file(place, reader):
    """A file that zenturio keeps in a project, which may be somebody else's."""

    def read(data, folder):
        path = folder / ".zenturio" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        reader(folder)

    return read


def outputs(folder):
    from zenturio.files import recorded_outputs

    recorded_outputs(folder)


def events(folder):
    from zenturio.execute.hosts.attempt_journal import read_events

    for event in read_events(folder / ".zenturio", ["a"]):
        event.digest[:12] + event.host + event.kind


def facts(folder):
    from zenturio.execute.hosts.executor import read_facts

    for known in read_facts(folder / ".zenturio" / "places" / "hosts").values():
        known.get("address")


def portal_runs(folder):
    from zenturio.show.portal.state import PortalRuns

    for run in PortalRuns(folder, None).list_runs():
        run.is_alive, run.study[:1], run.began + 1


def messages(path):
    from zenturio.execute import wire
    from zenturio.execute.wire import MalformedError

    with path.open("rb") as file:
        try:
            while message := wire.receive(file.fileno()):
                wire.receive_blobs(file.fileno(), message, most=1000)
        except (MalformedError, EOFError):
            pass


def example_message():
    from zenturio.execute.wire import encode_message

    return encode_message({"do": "x", "deep": [1, {"a": "b"}]}, b"blob", b"more") * 2


def experiments(data, _folder):
    from zenturio.execute.experiment_codec import unpack_experiments

    unpack_experiments(data)


def example_experiments():
    from zenturio.execute.experiment_codec import pack_experiments
    from zenturio.testing.experiments import experiment

    return pack_experiments([experiment(1), experiment(2)])


def outcomes(data, folder):
    from zenturio.execute.experiment_codec import unpack_outcome

    unpack_outcome(data, "ab" * 16, folder)


def example_outcome():
    from dataclasses import replace

    from zenturio.execute.experiment_codec import pack_outcome
    from zenturio.testing.experiments import experiment, outcome

    return pack_outcome(replace(outcome(experiment(1), time=1.5), digest="ab" * 16))


def stored_values(data, _folder):
    from zenturio.errors import ZenError
    from zenturio.execute import experiment_codec
    from zenturio.record import codec, studies

    text = data.decode("utf-8", "surrogateescape")
    for decode in (
        codec.load_values,
        codec.remarks_on,
        studies.read_members,
        experiment_codec.read_recipe,
    ):
        with suppress(ZenError), codec.decoding():
            decode(text)


def salvaged(path):
    from zenturio.record.salvage import salvage_file
    from zenturio.record.sqlite import SQLite

    target = path.with_name("saved.db")
    target.unlink(missing_ok=True)
    salvage_file(SQLite(path, 1.0), SQLite(target, 1.0))


def example_database():
    from zenturio.record import DriverProcess, Field, StudyDefinition
    from zenturio.record.open import open_repository
    from zenturio.testing.experiments import experiment, outcome

    path = Path(tempfile.mkdtemp()) / "zenturio.db"
    repository = open_repository(path)
    repository.open("s", StudyDefinition((Field("n", "int"),), (Field("time", how="stdout"),)))
    lease = repository.acquire_lease("s", DriverProcess.current())
    some = [experiment(n) for n in range(3)]
    repository.claim("s", lease.number, some)
    repository.record("s", lease.number, [outcome(e, time=1.5) for e in some])
    repository.release_lease(lease)
    repository.close()
    return path.read_bytes()


PLAN = json.dumps({
    "algorithm": "heft",
    "tasks": [
        {"id": "a", "machine": "m", "start": 0, "end": 3},
        {"id": "b", "machine": "m", "start": 3, "end": 7},
    ],
}).encode()  # fmt: skip
SERVICE = b"""[serve]
policy = "srpt"
places = ["local"]
socket = "x.sock"
header = "X-Remote-User"
[serve.users]
bob = { role = "look" }
"""
EVENT = (
    b'{"time": 1.5, "kind": "started", "digest": "ab", "host": "m", "why": "x", "iteration": 3}\n'
)


def example_portal_run():
    from zenturio.show.portal.state import _signature

    run = {
        "key": "x", "study": "p", "arguments": ["run", "p.sh"], "pid": 5, "born": "a", "began": 1.5,
    }  # fmt: skip
    return f"{_signature(json.dumps(run))}\n{json.dumps(run)}".encode()


def preview_of(name):
    def read(data, folder):
        from zenturio.show.portal.pages.experiment import image_type
        from zenturio.show.portal.pages.experiment import preview_of as preview

        preview(name, data, len(data) + 5)
        image_type(name, data)

    return read


PARSERS = {
    "swf": (file_of(swf), SWF),
    "stg": (workflow(".stg"), STG),
    "dot": (workflow(".dot"), DOT),
    "dax": (workflow(".dax"), DAX),
    "wfformat 1.4": (workflow(".json"), WFFORMAT_1_4),
    "wfformat": (workflow(".json"), WFFORMAT),
    "ours": (workflow(".json"), OURS),
    "places": (file_of(settings), TOML),
    "hosts": (file_of(hosts), HOSTS),
    "csv": (metric("CSV COLUMN loss"), CSV),
    "json path": (metric('JSON "$.a.b[2].c"'), JSON),
    "regex": (metric('REGEX "(\\\\d+),"'), CSV),
    "reported": (reported, b'{"x": 1, "y": [1, 2]}\n{"z": "text"}\n'),
    "directives": (source, SOURCE),
    "svg": (preview_of("a.svg"), SVG),
    "png": (preview_of("a.png"), PNG),
    "table": (preview_of("a.csv"), CSV),
    "plan": (file_of(plan), PLAN),
    "platform": (file_of(platform), PLATFORM),
    "sql tables": (file_of(tables), CSV),
    "service": (file_of(service), SERVICE),
    "outputs": (project_file("outputs.jsonl", outputs), b'{"path": "a.csv", "digest": "00"}\n'),
    "events": (project_file("places/hosts/events.jsonl", events), EVENT),
    "facts": (project_file("places/hosts/facts.json", facts), b'{"a": {"cores": 2, "load": 1.5}}'),
    "portal runs": (project_file("portal/x.json", portal_runs), example_portal_run),
    "messages": (file_of(messages), example_message),
    "experiments": (experiments, example_experiments),
    "outcomes": (outcomes, example_outcome),
    "stored values": (
        stored_values,
        b'{"a": [1, {"real": "nan"}], "0": ["x", "int", "", "", 0, 1]}',
    ),
    "databases": (file_of(salvaged), example_database),
}
SLOW = {"databases": 20}
"""Those of which one input takes as many times as long as of others."""
NASTY = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"[" * 5000, b"{" * 5000, b'{"a":' * 3000, b"(" * 5000,
    b"9" * 400, b"-1", b"1e999", b"nan", b"\n" * 1000, b'"', b"'", b"<!---->" * 40, b"%s%n",
    b"../" * 20, b"2147483648", b"18446744073709551616", b"\r\n", b"\\", b"\xf0\x9f\x92\xa9", b"",
]  # fmt: skip


def mutated(data, generator):
    """*data* with a few changes, each at a random place."""
    data = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 3, 8])):
        at = generator.randrange(len(data) + 1)
        match generator.randrange(6):
            case 0:
                data[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                data[at:at] = generator.choice(NASTY)
            case 2:
                del data[at : at + generator.randrange(1, 40)]
            case 3:
                end = min(len(data), at + generator.randrange(1, 200))
                data[at:at] = data[at:end] * generator.choice([1, 2, 50])
            case 4:
                del data[at:]
            case 5:
                other = generator.randrange(len(data) + 1)
                data[at:at] = data[other : other + 30]
    return bytes(data)


def attack(name, count):
    """Feed the parser *name*; print the input that it does not bear and end with 1."""
    from zenturio.errors import ZenError

    parse, example = PARSERS[name]
    example = example() if callable(example) else example
    folder = Path(tempfile.mkdtemp())
    parse(example, folder)  # what is good is read: else the mutants would prove nothing
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    generator = random.Random(f"{name} {os.environ.get('ZENTURIO_FUZZ_SEED', '0')}")
    for number in range(count // SLOW.get(name, 1)):
        data = mutated(example, generator)
        signal.setitimer(signal.ITIMER_PROF, DEADLINE)
        try:
            parse(data, folder)
        except ZenError as error:
            str(error)
        except BaseException:
            print(f"input {number} of {name}: {data!r}", file=sys.stderr)
            raise
    signal.setitimer(signal.ITIMER_PROF, 0)


def survives(name, count, tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, name, str(count)],
        env=dict(os.environ, TMPDIR=str(tmp_path), OPENBLAS_NUM_THREADS="1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def survive(names, count, tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(count), *names],
        env=dict(os.environ, TMPDIR=str(tmp_path), OPENBLAS_NUM_THREADS="1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_parsers_bear_changed_examples(tmp_path):
    survive(PARSERS, 40, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_bears_many_changed_examples(name, tmp_path):
    survive([name], 5000, tmp_path)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        attack(name, int(sys.argv[1]))
