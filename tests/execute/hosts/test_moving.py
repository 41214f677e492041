"""Jobs that move: a better host, a broken contract, other requirements; and what goes with them."""

from types import SimpleNamespace

import pytest

from zenturio.errors import ExpressionError, InputError, PlaceError, PluginError
from zenturio.execute.hosts.connection import RequestFailedError
from zenturio.execute.hosts.prolog_epilog import Returning, Stages, Staging, Starting
from zenturio.execute.hosts.remote_agent import WatchedJob
from zenturio.experiment import ExperimentFile, Recipe, Step
from zenturio.experiment.identity import content_digest
from zenturio.expression import parse
from zenturio.testing.executor import experiment, outcome, until

LOOP = b"""#!/bin/sh
# $1 iterations; each takes as many seconds as the file pace.HOST says.
i=0
test -e state.ckpt && i=$(cat state.ckpt)
echo "$ZEN_HOST_NAME from $i"
while test $i -lt $1; do
    seconds=$(cat FOLDER/pace.$ZEN_HOST_NAME)
    sleep $seconds
    i=$((i + 1))
    echo $i > state.draft && mv state.draft state.ckpt
    echo "{\\"iteration\\": $i, \\"seconds\\": $seconds, \\"of\\": $1}" >> $ZEN_PROFILE
    test -e FOLDER/need.$i && cat FOLDER/need.$i > $ZEN_REQUIRE
    echo "$ZEN_HOST_NAME $i" >> FOLDER/trace
done
"""


@pytest.fixture
def loop(tmp_path):
    """An experiment of so many iterations, and files that say how fast hosts are."""

    def make(iterations, **paces):
        for host, seconds in paces.items():
            pace(host, seconds)
        script = LOOP.replace(b"FOLDER", str(tmp_path).encode())
        return experiment(f"./loop {iterations}", files={"loop": script})

    def pace(host, seconds):
        (tmp_path / f"pace.{host}").write_text(str(seconds))

    make.pace = pace
    make.trace = tmp_path / "trace"
    return make


def reached(loop, host, iteration=""):
    return lambda: loop.trace.exists() and f"{host} {iteration}" in loop.trace.read_text()


RESTART = {"restart": ["*.ckpt"]}


def test_a_broken_contract_moves_the_job_with_its_restart_files(hosts, loop):
    place = hosts({"contract": 0.5, **RESTART}, one={"speed": 2.0}, two={})
    future = place.submit(loop(16, one=0.05, two=0.1))
    until(reached(loop, "one", 4))
    loop.pace("one", 0.6)
    found = future.result()
    assert found.host == "two"
    start = int(found.stdout.head.split()[-1])
    assert 4 <= start < 16
    assert loop.trace.read_text().count("\n") <= 17
    (why,) = [e.why for e in place.events.seen if e.kind == "moving"]
    assert why == "an iteration took 0.6 s, not 0.05 s"


@pytest.mark.slow
def test_without_restart_files_it_begins_again(hosts, loop):
    place = hosts({"contract": 0.5}, one={"speed": 2.0}, two={})
    future = place.submit(loop(12, one=0.05, two=0.1))
    until(reached(loop, "one", 4))
    loop.pace("one", 1.0)
    assert future.result().stdout.head == b"two from 0\n"


@pytest.mark.slow
def test_a_broken_contract_moves_nothing_where_the_other_host_is_worse_still(hosts, loop):
    place = hosts({"contract": 0.5, **RESTART}, one={"speed": 9.0}, two={})
    future = place.submit(loop(10, one=0.05, two=5))
    until(reached(loop, "one", 4))
    loop.pace("one", 0.1)
    assert future.result().host == "one"


@pytest.mark.slow
def test_without_a_contract_a_slow_job_stays(hosts, loop):
    place = hosts(RESTART, one={"speed": 2.0}, two={})
    future = place.submit(loop(8, one=0.05, two=0.1))
    until(reached(loop, "one", 4))
    loop.pace("one", 0.3)
    assert future.result().host == "one"


def test_a_better_host_that_gets_free_draws_a_job_that_gains(hosts, loop, tmp_path):
    place = hosts({"gain": 0.1, **RESTART}, one={"speed": 10.0}, two={})
    first = place.submit(experiment(f"while test ! -e {tmp_path}/go; do sleep 0.02; done"))
    future = place.submit(loop(30, one=0.02, two=0.2))
    until(reached(loop, "two", 3))
    (tmp_path / "go").touch()
    assert first.result().host == "one"
    found = future.result()
    assert found.host == "one"
    assert int(found.stdout.head.split()[-1]) >= 3
    assert [e.why for e in place.events.seen if e.kind == "moving"] == ["one is better"]


@pytest.mark.slow
def test_a_job_that_gains_less_than_is_asked_for_stays(hosts, loop, tmp_path):
    place = hosts({"gain": 0.95, **RESTART}, one={"speed": 10.0}, two={})
    first = place.submit(experiment(f"while test ! -e {tmp_path}/go; do sleep 0.02; done"))
    future = place.submit(loop(5, one=0.02, two=0.2))
    until(reached(loop, "two", 3))
    (tmp_path / "go").touch()
    assert (first.result().host, future.result().host) == ("one", "two")


def test_a_program_that_requires_more_goes_to_the_host_that_has_it(hosts, loop, tmp_path):
    place = hosts(RESTART, one={"memory": "256MB", "speed": 9.0}, two={"memory": "1GB"})
    (tmp_path / "need.3").write_text("# the second phase\nREQUIRE host.memory >= 512MB\n")
    found = outcome(place, loop(6, one=0.1, two=0.1))
    assert found.stdout.head in (b"two from 3\n", b"two from 4\n")
    assert [e.why for e in place.events.seen if e.kind == "moving"] == [
        "the program requires another host"
    ]


@pytest.mark.slow
def test_a_program_that_requires_what_its_host_has_stays(hosts, loop, tmp_path):
    place = hosts(RESTART, one={"memory": "1GB", "speed": 9.0}, two={"memory": "2GB"})
    (tmp_path / "need.2").write_text("REQUIRE host.memory >= 512MB")
    assert outcome(place, loop(4, one=0.05, two=0.05)).host == "one"


def test_requirements_that_make_no_sense_are_told_and_change_nothing(hosts, loop, tmp_path):
    place = hosts(one={})
    (tmp_path / "need.2").write_text("REQUIRE host.memory >=\n")
    assert outcome(place, loop(5, one=0.1)).status == "ok"
    (why,) = [e.why for e in place.events.seen if e.kind == "requires"]
    assert why.startswith("not understood: ")


@pytest.mark.slow
def test_requirements_that_ask_for_unknown_facts_change_nothing_either(
    hosts, testbed, loop, tmp_path
):
    place = hosts({"patience": 0.3, **RESTART}, one={"speed": 2.0}, two={})
    (tmp_path / "need.2").write_text("REQUIRE host.memry >= 1GB\n")
    future = place.submit(loop(40, one=0.05, two=0.02))
    until(reached(loop, "one", 6))
    testbed["one"].kill(all_of_it=True)
    assert future.result().host == "two"  # as it was wanted before
    (why,) = {e.why for e in place.events.seen if e.kind == "requires"}
    assert why.startswith("not understood: host.memry is not known")


def test_a_program_that_requires_what_no_host_has_fails_and_does_not_wait(hosts, loop, tmp_path):
    place = hosts(one={"memory": "1GB"}, two={"memory": "2GB"})
    (tmp_path / "need.2").write_text("REQUIRE host.memory >= 1TB\n")
    found = outcome(place, loop(50, one=0.05, two=0.05))
    assert found.status == "failed"
    assert found.cause == "no host meets what the program requires: host.memory >= 1TB"


def test_copies_of_restart_files_survive_the_host(hosts, testbed, loop):
    ways = {"patience": 0.3, "checkpoint": 0.1, **RESTART}
    place = hosts(ways, one={"speed": 2.0}, two={})
    future = place.submit(loop(40, one=0.05, two=0.02))
    until(reached(loop, "one", 30))
    testbed["one"].kill(all_of_it=True)
    found = future.result()
    assert found.host == "two"
    assert int(found.stdout.head.split()[-1]) > 5


@pytest.mark.slow
def test_a_job_moves_no_more_often_than_is_allowed(hosts, loop):
    place = hosts({"contract": 0.5, "migrations": 0, **RESTART}, one={"speed": 2.0}, two={})
    future = place.submit(loop(8, one=0.05, two=0.1))
    until(reached(loop, "one", 4))
    loop.pace("one", 0.4)
    assert future.result().host == "one"


def test_requirements_and_ranks_choose_the_host(hosts):
    place = hosts(
        one={"memory": "1GB", "tags": ["big"], "speed": 1.0},
        two={"memory": "2GB", "cost": 3.0, "speed": 2.0},
        three={"memory": "4GB", "facts": {"gpus": 2}, "speed": 3.0},
    )

    def where(*requires, rank=None):
        recipe = Recipe(requires=tuple(map(parse, requires)), rank=rank and parse(rank))
        return outcome(place, experiment("true", recipe=recipe)).host

    assert where() == "three"
    assert where("host.memory <= 2GB") == "two"
    assert where("'big' in host.tags") == "one"
    assert where("host.gpus >= 1") == "three"
    assert where(rank="-host.memory") == "one"
    assert where("host.cost == 0", rank="host.name == 'one'") == "one"
    assert where("host.arch == 'x86_64' or true", rank="1 / (host.memory - 1GB)") == "two"


def test_what_no_host_will_ever_have_is_refused_at_once(hosts):
    place = hosts(one={"memory": "1GB"}, two={"memory": "2GB"})
    recipe = Recipe(requires=(parse("host.memory >= 4GB"),))
    with pytest.raises(PlaceError) as caught:
        outcome(place, experiment("true", recipe=recipe))
    assert "no host meets REQUIRE" in str(caught.value)
    assert "one: host.memory = 1000000000\n" in str(caught.value)
    with pytest.raises(PlaceError, match="no host has more than 2000000000 B"):
        outcome(place, experiment(Step("true", memory=3 * 10**9)))


def test_a_fact_that_no_host_has_is_named(hosts):
    place = hosts(one={})
    recipe = Recipe(requires=(parse("host.memry >= 4GB"),))
    with pytest.raises(Exception, match=r"host\.memry is not known.*\n(.*\n)*.*memory"):
        outcome(place, experiment("true", recipe=recipe))


@pytest.mark.parametrize(
    ("require", "rank", "said"),
    [
        ("host.memory", None, r"<text>:1:1: a requirement is true or false, but this is \d+"),
        ("true", "host.name", "<text>:1:1: a rank is a number, but this is 'one'"),
    ],
)
def test_requirements_and_ranks_that_are_of_another_kind_are_told(hosts, require, rank, said):
    recipe = Recipe(requires=(parse(require),), rank=rank and parse(rank))
    with pytest.raises(ExpressionError, match=said):
        outcome(hosts(one={}), experiment("true", recipe=recipe))


def test_a_rank_of_the_file_is_told_with_its_place(hosts):
    with pytest.raises(InputError, match=r"hosts\.toml:3:20: an operator is missing"):
        hosts({"rank": "host.speed 2"}, one={})


def test_it_is_told_once_that_all_wait_for_what_no_host_is_now(hosts, tmp_path):
    (tmp_path / "facts").write_text('{"load": 7.5}')
    place = hosts({"status": 0.1}, one={"probe": f"cat {tmp_path}/facts"})
    future = place.submit(experiment("true", recipe=Recipe(requires=(parse("host.load < 1"),))))
    until(lambda: place.remarks)
    (tmp_path / "facts").write_text('{"load": 0.5}')
    assert future.result().status == "ok"
    assert list(place.remarks) == [
        "nothing runs, 1 waiting: no host meets their requirements now\none: host.load = 7.5"
    ]


def test_commands_and_files_know_the_host(hosts):
    place = hosts({"variants": ["bin/solver.{host.arch}"]}, one={"arch": "alpha"})
    files = {"bin/solver.alpha": b"echo an alpha", "bin/solver.sparc": b"echo a sparc", "x": b""}
    what = experiment("sh bin/solver.{host.arch}; ls bin; echo $ZEN_HOST_ARCH", files=files)
    assert outcome(place, what).stdout.head == b"an alpha\nsolver.alpha\nalpha\n"


def test_what_a_probe_says_counts(hosts, tmp_path):
    (tmp_path / "facts").write_text('{"load": 7.5, "gpus": 3}')
    place = hosts(one={"probe": f"cat {tmp_path}/facts"}, two={"speed": 9.0})
    recipe = Recipe(requires=(parse("host.load == 7.5 and host.gpus == 3"),))
    assert outcome(place, experiment("true", recipe=recipe)).host == "one"


def large(tmp_path, size=3_000_000):
    path = tmp_path / "large"
    path.write_bytes(b"x" * size)
    return ExperimentFile("large", 0o644, None, path, content_digest(path.read_bytes()).hex())


def with_file(what, filed):
    from dataclasses import replace

    return replace(what, files=(*what.files, filed))


def test_a_large_file_is_staged_once_for_each_host(hosts, testbed, tmp_path):
    place = hosts(one={"slots": 2}, two={"slots": 2})
    filed = large(tmp_path)
    several = [with_file(experiment(f"wc -c < large; echo {i}"), filed) for i in range(6)]
    found = [f.result() for f in [place.submit(each) for each in several]]
    assert all(o.stdout.head.startswith(b"3000000\n") for o in found), found
    for name in {o.host for o in found}:
        assert [p.name for p in (testbed[name].folder / "work" / "files").iterdir()].count(
            filed.digest
        ) == 1
    filed.original.unlink()  # nobody asks for it again
    assert outcome(place, with_file(experiment("wc -c < large"), filed)).status == "ok"


def test_a_large_file_that_somebody_wrote_to_is_found_out_and_brought_again(hosts, tmp_path):
    place = hosts({"retries": 1}, one={})
    filed = large(tmp_path, 2_500_000)
    found = outcome(place, with_file(experiment("echo bad >> large; true"), filed))
    assert (found.status, found.cause) in (
        ("failed", "the large input file large was written to; copy it first: cp large mine"),
        ("ok", ""),  # where the file system clones, each has its own
    )
    assert outcome(place, with_file(experiment("wc -c < large"), filed)).stdout.head == b"2500000\n"


def test_files_come_back_with_metrics_in_them(hosts):
    from zenturio.annotate.model import Metric

    place = hosts(one={})
    recipe = Recipe((Metric("value", "out.txt", r"(\d+)"),), outputs=("out.txt", "big"))
    made = "head -c 2500000 /dev/zero > big; echo 42 > out.txt"
    found = outcome(place, experiment(made, recipe=recipe))
    assert found.metrics["value"] == 42
    assert {a.path: a.size for a in found.artifacts} == {"out.txt": 3, "big": 2500000}


class Failing(Staging):
    """A prolog that fails at the host one."""

    def __call__(self, site):
        if site.host.name == "one":
            raise RequestFailedError("no room")
        super().__call__(site)


def test_a_stage_that_fails_is_tried_again_and_then_elsewhere(hosts, monkeypatch):
    monkeypatch.setattr(Stages, "of", lambda _: Stages(Failing(), Starting(), Returning()))
    place = hosts({"retries": 1}, one={"speed": 9.0}, two={})
    assert outcome(place, experiment("true")).host == "two"
    assert [(e.kind, e.why) for e in place.events.seen if e.kind in ("retry", "left")] == [
        ("retry", "prolog: no room"),
        ("retry", "prolog: no room"),
        ("left", "the prolog failed: no room"),
    ]


@pytest.mark.slow
def test_or_it_stops_the_study_where_that_is_wanted(hosts, monkeypatch):
    monkeypatch.setattr(Stages, "of", lambda _: Stages(Failing(), Starting(), Returning()))
    place = hosts({"retries": 0, "then": "stop"}, one={"speed": 9.0}, two={})
    with pytest.raises(PlaceError, match="one: the prolog failed: no room"):
        outcome(place, experiment("true"))


def test_where_no_other_host_would_do_a_stage_that_fails_ends_the_study(hosts, monkeypatch):
    monkeypatch.setattr(Stages, "of", lambda _: Stages(Failing(), Starting(), Returning()))
    with pytest.raises(PlaceError, match="no room") as caught:
        outcome(hosts({"retries": 0}, one={}), experiment("true"))
    assert "no other host can run the experiment" in str(caught.value)


@pytest.mark.slow
def test_a_job_that_waits_again_waits_before_those_that_came_later(hosts, loop, tmp_path):
    place = hosts(RESTART, one={"memory": "256MB", "speed": 9.0}, two={"memory": "1GB"})
    more = Recipe(requires=(parse("host.memory >= 512MB"),))
    wait = f"while test ! -e {tmp_path}/go; do sleep 0.02; done"
    busy = place.submit(experiment(wait, recipe=more))
    (tmp_path / "need.2").write_text("REQUIRE host.memory >= 512MB")
    early = place.submit(loop(3, one=0.3, two=0.01))
    until(reached(loop, "one", 1))
    late = place.submit(experiment("true", recipe=more))
    until(lambda: any(event.kind == "left" for event in place.events.seen))
    (tmp_path / "go").touch()
    outcomes = [future.result() for future in (busy, early, late)]
    assert [each.host for each in outcomes] == ["two", "two", "two"]
    assert outcomes[1].started < outcomes[2].started


@pytest.mark.slow
def test_room_that_one_job_is_drawn_to_draws_no_other(hosts, loop, tmp_path):
    place = hosts({"gain": 0.1, **RESTART}, one={"speed": 10.0}, two={"slots": 2})
    wait = f"while test ! -e {tmp_path}/go; do sleep 0.02; done"
    busy = place.submit(experiment(wait))
    several = [place.submit(each) for each in (loop(25, one=0.05, two=0.3), loop(24))]
    until(lambda: loop.trace.exists() and loop.trace.read_text().count("two 3\n") == 2)
    (tmp_path / "go").touch()
    for future in (busy, *several):
        assert future.result().status == "ok"
    life = [(e.kind, e.digest) for e in place.events.seen if e.kind in ("moving", "ended")]
    drawn = next(digest for kind, digest in life if kind == "moving")
    assert [k for k, _ in life[: life.index(("ended", drawn))]].count("moving") == 1


MODULES = """
from zenturio.execute.hosts.prolog_epilog import Staging


class Listed:
    def __call__(self, wants, hosts, known):
        names = [each["name"] for each in hosts]
        return names.index("two") if "two" in names else None


class Steps:
    def __call__(self, profile, ways):
        last = profile.lines[-1]
        return "few steps" if last.get("steps", 9) < 2 else ""


class Wrong:
    def __call__(self, *given):
        return 7 if given else None


class Raising:
    def __call__(self, *given):
        raise KeyError("oh")


class Noting(Staging):
    def __call__(self, site):
        site.host.ask("command", command="echo seen > FOLDER/noted")
        super().__call__(site)
"""


@pytest.fixture
def modules(tmp_path):
    """A file beside hosts.toml; it is called as a module of the standard library is."""
    path = tmp_path / "select.py"
    path.write_text(MODULES.replace("FOLDER", str(tmp_path)))
    return path


@pytest.mark.slow
def test_a_selector_and_a_prolog_of_ones_own_stand_beside_the_file_of_hosts(
    hosts, modules, tmp_path
):
    import select

    place = hosts(
        {"selector": "select.py:Listed", "prolog": "select.py:Noting"}, one={"speed": 9.0}, two={}
    )
    several = [place.submit(experiment(f"echo {i}")) for i in range(3)]
    assert [each.result().host for each in several] == ["two"] * 3
    assert (tmp_path / "noted").read_text() == "seen\n"
    assert select.__file__ != str(modules)


@pytest.mark.slow
def test_an_evaluator_of_ones_own_looks_at_what_the_program_tells(hosts, modules, loop):
    place = hosts(
        {"evaluator": "select.py:Steps", **RESTART}, one={"speed": 2.0}, two={"speed": 4.0}
    )
    tells = (
        'test $ZEN_HOST_NAME = one || echo \'{"iteration": 1, "seconds": 1, "of": 99}\' >> $ZEN_PROFILE;'
        "test $ZEN_HOST_NAME = one || sleep 0.3;"
        'test $ZEN_HOST_NAME = one || echo \'{"iteration": 2, "seconds": 9, "of": 99, "steps": 1}\' >> $ZEN_PROFILE;'
        "test $ZEN_HOST_NAME = one || sleep 60"
    )
    assert outcome(place, experiment(tells)).host == "one"
    assert [e.why for e in place.events.seen if e.kind == "moving"] == ["few steps"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Wrong", "chose 7 of 1 hosts"),
        ("Raising", "select.py:Raising failed: KeyError: 'oh'"),
    ],
)
def test_a_selector_that_is_wrong_ends_the_study_and_says_so(hosts, modules, name, said):
    with pytest.raises(PluginError) as caught:
        outcome(hosts({"selector": f"select.py:{name}"}, one={}), experiment("true"))
    assert said in str(caught.value)


def test_a_stage_that_is_wrong_ends_the_study_and_says_so(hosts, modules):
    place = hosts({"prolog": "select.py:Raising"}, one={})
    with pytest.raises(PluginError, match="one: the prolog failed: KeyError: 'oh'"):
        outcome(place, experiment("true"))


def test_a_module_that_is_not_there_is_told_with_its_place(hosts, modules):
    with pytest.raises(InputError, match=r"hosts\.toml:3:1: nowhere\.py is not there"):
        hosts({"selector": "nowhere.py:Listed"}, one={})
    with pytest.raises(InputError, match=r"write FILE\.py:CLASS"):
        hosts({"epilog": "select.sh:x"}, one={})
    with pytest.raises(PluginError, match=r"does not load: .*Nobody"):
        hosts({"selector": "select.py:Nobody"}, one={})


def test_requirements_that_are_half_written_are_not_read(tmp_path):
    job = SimpleNamespace(folder=tmp_path, lock=tmp_path / "no keeper")
    watched, demand = WatchedJob("token", job), tmp_path / ".zen-require"
    for part in ("", "REQUIRE host.memory >= 1"):
        demand.write_text(part)
        assert watched.new_events() == []
    demand.write_text("REQUIRE host.memory >= 128MB\n")
    (event,) = watched.new_events()
    assert event["text"] == "REQUIRE host.memory >= 128MB\n"
    assert watched.new_events() == []
    demand.write_text("RANK host.speed")  # without an end of the line: once it stays so
    assert watched.new_events() == []
    (event,) = watched.new_events()
    assert event["text"] == "RANK host.speed"
