"""Five hosts that are unequal by real CPU limits, one overloaded and one killed in the middle."""

from contextlib import ExitStack, closing

import pytest

from limits import Limit, why_not
from zenturio.testing.executor import experiment, until

SHARES = {"one": 0.4, "two": 0.3, "three": 0.25, "four": 0.2, "five": 0.15}
"""Of a processor: their tasks compute, and are as fast as they are let."""
BURN = b"""
import json, os, sys, time
from pathlib import Path

state, steps = Path("state.ckpt"), int(sys.argv[1])
step = int(state.read_text()) if state.exists() else 0
print(os.environ["ZEN_HOST_NAME"], step, flush=True)
while step < steps:
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() < used + 0.04:
        pass
    step += 1
    Path("draft").write_text(str(step))
    os.replace("draft", state)
    line = {"iteration": step, "seconds": time.monotonic() - begun, "of": steps}
    with open(os.environ["ZEN_PROFILE"], "a") as profile:
        profile.write(json.dumps(line) + "\\n")
"""


@pytest.fixture
def limits(testbed):
    """A limit for each host, under which all is that is logged in there."""
    if why := why_not():
        pytest.skip(why)
    with ExitStack() as stack:
        found = {}
        for name, share in SHARES.items():
            found[name] = stack.enter_context(closing(Limit(f"zenturio-{name}")))
            found[name].give(share)
            found[name].take(testbed[name].process.pid)
        yield found
        for name in SHARES:  # out of the group, so that it can go
            testbed[name].kill(all_of_it=True)
            testbed[name].start()


@pytest.mark.slow
def test_jobs_leave_a_host_that_is_overloaded_and_outlive_one_that_is_killed(
    limits, hosts, testbed
):
    ways = {"contract": 1.5, "breaches": 2, "restart": ["*.ckpt"], "patience": 1, "checkpoint": 0.5}
    place = hosts(ways, **{name: {"speed": share} for name, share in SHARES.items()})
    several = [
        experiment(f"python3 burn.py {steps}", files={"burn.py": BURN})
        for steps in (60, 40, 35, 30)
    ]
    futures = [place.submit(each) for each in several]

    def far(what, host):
        told = [e.iteration for e in place.events.seen if (e.digest, e.host) == (what.digest, host)]
        return max(filter(None, told), default=0)

    until(lambda: far(several[0], "one") >= 8)
    limits["one"].give(0.02)
    until(lambda: far(several[2], "three") >= 5)
    testbed["three"].kill(all_of_it=True)
    found = [future.result() for future in futures]
    assert [each.status for each in found] == ["ok"] * 4
    assert found[0].host != "one"
    left = [e.why for e in place.events.seen if (e.kind, e.host) == ("moving", "one")]
    assert left[0].startswith("an iteration took ")
    where, step = found[0].stdout.head.split()
    assert (where.decode(), int(step) >= 8) == (found[0].host, True)
    assert found[2].host != "three"
