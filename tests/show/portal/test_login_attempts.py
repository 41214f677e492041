"""Guesses cost whoever guesses, and nobody else."""

import asyncio
import http.client
import threading
from urllib.parse import urlencode

import pytest

from show.portal.loops import run
from show.portal.running_portal import served
from zenturio.show.portal import access
from zenturio.show.portal.access import (
    FREE_ATTEMPTS,
    LONGEST_BLOCK_SECONDS,
    MOST_WAITING,
    MOST_WAITING_PER_ADDRESS,
    LoginAttempts,
    PasswordHash,
    TooManyAttemptsError,
    UserDirectory,
    network,
)
from zenturio.show.portal.state import PortalSettings
from zenturio.study.service.service_config import ServiceUser


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def right():
    return "alice"


def wrong():
    return None


async def refused(attempts, address, name, verify=right):
    """For how many seconds a guess is refused; 0 if it is not."""
    try:
        await attempts.check(address, name, verify)
    except TooManyAttemptsError as error:
        return error.seconds
    return 0


def test_each_wrong_guess_closes_that_way_for_twice_as_long(clock):
    async def guess():
        attempts, found = LoginAttempts(clock), []
        for _ in range(FREE_ATTEMPTS):
            assert await attempts.check("10.0.0.1", "alice", wrong) is None
        for _ in range(9):
            assert await attempts.check("10.0.0.1", "alice", wrong) is None
            found.append(await refused(attempts, "10.0.0.1", "alice"))
            clock.now += found[-1]
        assert found == [
            1,
            2,
            4,
            8,
            16,
            32,
            LONGEST_BLOCK_SECONDS,
            LONGEST_BLOCK_SECONDS,
            LONGEST_BLOCK_SECONDS,
        ]
        assert await attempts.check("10.0.0.1", "alice", right) == "alice"
        assert await attempts.check("10.0.0.1", "alice", right) == "alice"

    run(guess())


def test_other_names_and_other_addresses_stay_open(clock):
    async def guess():
        attempts = LoginAttempts(clock)
        for _ in range(FREE_ATTEMPTS + 1):
            await attempts.check("10.0.0.1", "alice", wrong)
        assert await refused(attempts, "10.0.0.1", "alice")
        assert not await refused(attempts, "10.0.0.1", "bob")
        assert not await refused(attempts, "10.0.0.2", "alice")
        clock.now += access.FORGET_SECONDS + 1
        assert not await refused(attempts, "10.0.0.1", "alice")

    run(guess())


def test_the_right_password_goes_before_guesses_of_those_who_guessed_wrong(clock):
    async def guess():
        attempts, order = LoginAttempts(clock), []
        begun, ends = threading.Semaphore(0), threading.Semaphore(0)
        for number in range(6):
            await attempts.check(f"10.0.0.{number}", "nobody", wrong)

        def slow(who):
            order.append(who)
            begun.release()
            ends.acquire()

        guesses = [
            asyncio.create_task(attempts.check(f"10.0.0.{n}", f"name{n}", lambda: slow("guess")))
            for n in range(6)
        ]
        for _ in range(access.CONCURRENT_HASHES):
            await asyncio.to_thread(begun.acquire)
        alice = asyncio.create_task(attempts.check("10.0.1.1", "alice", lambda: slow("alice")))
        await asyncio.sleep(0)  # she waits behind the other guesses
        ends.release()
        await asyncio.to_thread(begun.acquire)
        assert order[-1] == "alice"
        ends.release(6)
        await asyncio.gather(*guesses, alice)

    run(guess())


def test_one_address_has_one_guess_hashed_at_a_time_and_few_waiting(clock):
    async def guess():
        attempts, free, now, most = LoginAttempts(clock), threading.Event(), [0], [0]

        def slow():
            now[0] += 1
            most[0] = max(most[0], now[0])
            free.wait()
            now[0] -= 1

        tasks = [
            asyncio.create_task(refused(attempts, "10.0.0.1", f"name{n}", slow))
            for n in range(MOST_WAITING_PER_ADDRESS + 5)
        ]
        await asyncio.sleep(0)
        free.set()
        found = await asyncio.gather(*tasks)
        assert found == [0] * (MOST_WAITING_PER_ADDRESS + 1) + [1] * 4
        assert most == [1]

    run(guess())


def test_the_queue_is_bounded_and_the_worst_are_sent_away(clock):
    async def guess():
        attempts, free = LoginAttempts(clock), threading.Event()
        for n in range(MOST_WAITING + 2):
            await attempts.check(f"10.0.0.{n}", "nobody", wrong)
        tasks = [
            asyncio.create_task(refused(attempts, f"10.0.0.{n}", "alice", lambda: free.wait()))
            for n in range(MOST_WAITING + 2)
        ]
        await asyncio.sleep(0)
        alice = asyncio.create_task(refused(attempts, "10.0.1.1", "alice"))
        await asyncio.sleep(0)
        free.set()
        found = await asyncio.gather(*tasks)
        assert sum(map(bool, found)) == 1
        assert found[-1] == 1
        assert await alice == 0
        assert attempts._waiting == attempts._hashing == []

    run(guess())


def test_who_hangs_up_while_waiting_leaves_the_turn_to_others(clock):
    async def guess():
        attempts, free = LoginAttempts(clock), threading.Event()
        tasks = [
            asyncio.create_task(refused(attempts, f"10.0.0.{n}", "alice", lambda: free.wait()))
            for n in range(5)
        ]
        await asyncio.sleep(0)
        for task in tasks[2:]:
            task.cancel()
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert attempts._waiting == attempts._hashing == []
        assert await refused(attempts, "10.0.1.1", "alice") == 0

    run(guess())


def test_what_is_remembered_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(access, "MOST_REMEMBERED", 3)

    async def guess():
        attempts = LoginAttempts(clock)
        for n in range(9):
            await attempts.check("10.0.0.1", f"name{n}" * 100_000, wrong)
        assert len(attempts._by_name) == 3

    run(guess())


def test_addresses_of_one_network_count_as_one():
    assert network("2001:db8::1") == network("2001:db8::ffff:2") != network("2001:db8:0:1::1")
    assert network("::ffff:10.0.0.1") == network("10.0.0.1") != network("10.0.0.2")
    assert network("") == ""


def test_sixty_guesses_from_elsewhere_leave_the_right_password_its_way_in(tmp_path):
    """In this order, and each answered: how long that takes is of no matter."""
    alice = ServiceUser("alice", "run", PasswordHash.of("wonder land").text)
    settings = PortalSettings(str(tmp_path / "none.db"), tmp_path, serves=True)
    with served(settings, users=UserDirectory({"alice": alice})) as portal:

        def guess(source, password):
            door = portal.service.listen_address
            line = http.client.HTTPConnection(door.host, door.port, 30, (source, 0))
            form = urlencode({"name": "alice", "password": password})
            head = {"Content-Type": "application/x-www-form-urlencoded", "Origin": portal.address}
            line.request("POST", "/login", form, head)
            answer = line.getresponse()
            text = answer.read().decode()
            line.close()
            return answer.status, text, answer.headers

        found = [guess("127.0.0.2", f"guess {n}") for n in range(60)]
        assert {status for status, _, _ in found} == {401, 429}
        assert [status for status, _, _ in found].count(401) < 15
        late = next(each for each in found if each[0] == 429)
        assert "too many attempts; try again in" in late[1]
        assert late[2]["Retry-After"].isdecimal()
        assert guess("127.0.0.1", "wonder land")[0] == 303
