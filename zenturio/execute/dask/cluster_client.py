"""Clusters of Dask: connected to, started here, or run as jobs; and who may be talked to."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, TypeVar

from zenturio.errors import InputError, PlaceError, PluginError, SafetyError
from zenturio.execute.dask.slurm_workers import JobRenewal, LossReason
from zenturio.execute.dask.ticket_queue import DaskOptions, TaskBatch
from zenturio.execute.dask.worker_runtime import SessionSettings
from zenturio.execute.machines import check_machine_facts, machine_parts
from zenturio.experiment import MachineKind
from zenturio.install_hint import extra_hint
from zenturio.system.machine import usable_cores

T = TypeVar("T")


def call_with_timeout(seconds: float, function: Callable[[], T]) -> T:
    """Return what *function* returns, or raise what it raises.

    TimeoutError where it takes longer than so many *seconds*: it goes on then, in a thread that
    ends with the process at the latest.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            result.set_exception(error)

    # A daemon thread cannot be stopped, but does not keep the process alive either.
    Thread(target=run, name="zenturio-within", daemon=True).start()
    return result.result(seconds)


_ADDRESS_HINT = "write dask://host:8786, or tls://host:8786"
_CERTIFICATES_HINT = 'ca = "ca.pem", cert = "cert.pem" and key = "key.pem" in [places.NAME]'
_SETTING_NAMES = {"tls_ca_file": "ca", "tls_client_cert": "cert", "tls_client_key": "key"}


@dataclass(frozen=True)
class SchedulerAddress:
    """Where a scheduler listens."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        """As Dask has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}://{host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Whether its traffic stays on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return self.url.replace("tcp://", "dask://")


def read_address(options: DaskOptions) -> SchedulerAddress:
    """Return the scheduler's address; SafetyError if others could read the traffic."""
    text = options.address
    scheme, sign, endpoint = text.partition("://")
    if not sign:
        scheme, endpoint = "dask", text
    host, colon, port = endpoint.rpartition(":")
    if scheme not in ("dask", "tcp", "tls") or not colon or not port.isdecimal() or not host:
        raise InputError(f"{text!r} is not the address of a scheduler", hint=_ADDRESS_HINT)
    address = SchedulerAddress(host.strip("[]"), int(port), scheme == "tls")
    if not (address.tls or address.is_here or options.insecure):
        raise SafetyError(
            f"{text}: the traffic could be read and changed by anybody on its way",
            hint=f"start the scheduler with TLS, and write tls://{endpoint}; in a network where"
            "\nall are trusted: insecure = true in [places.NAME] of zenturio.toml",
        )
    return address


def tls_of(address: SchedulerAddress, options: DaskOptions) -> Any:
    """Return the certificates, from the options or from Dask's own configuration."""
    if not address.tls:
        return None
    files = {"tls_ca_file": options.ca, "tls_client_cert": options.cert}
    files["tls_client_key"] = options.key or options.cert
    for name, path in files.items():
        if path and not Path(path).expanduser().is_file():
            raise PlaceError(
                f"{address} needs the file {path}, which does not exist ({_SETTING_NAMES[name]})"
            )
    arguments = {name: str(Path(path).expanduser()) for name, path in files.items() if path}
    security = import_module("distributed").Security(require_encryption=True, **arguments)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise PlaceError(
            f"{address} needs certificates",
            hint=_CERTIFICATES_HINT,
        )
    _check_certificates(security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    return security


def _check_certificates(ca: str, cert: str, key: str | None) -> None:
    """PlaceError, which names the file, where one does not hold what it is for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    message = f"{ca} holds no CA certificate (ca)"
    try:
        if Path(ca).is_file():  # else it is the certificate itself
            context.load_verify_locations(ca)
        if Path(cert).is_file():
            message = f"{cert} and {key or cert} are not a certificate and its key (cert, key)"
            context.load_cert_chain(cert, key or None)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise PlaceError(f"{message}: {reason}", hint=_CERTIFICATES_HINT) from error


_PAUSE = 0.1
_OWN_SETTINGS = {
    "distributed.nanny.pre-spawn-environ": {},  # experiments would inherit it
    "distributed.scheduler.allowed-failures": 0,  # each lost worker is told of
    "distributed.scheduler.http.routes": [],  # pages that any user of this machine could see
    "distributed.worker.http.routes": [],
}
_ANSWER_SECONDS = 10.0
"""Seconds that a scheduler or a worker may take to answer; one that was stopped never does."""
_SLOWEST_BYTES_PER_SECOND = 2**17
"""Bytes in a second that a network carries at the least."""
_CLOSING_SECONDS = 15.0
"""Seconds within which workers of our own end."""
_LARGE_BYTES = 2**20
"""Bytes beyond which a parcel is not put into the message that describes a task."""


class DaskCluster:
    """A client of a scheduler, and the workers if they are ours."""

    def __init__(
        self,
        client: Any,
        workers: Any,
        slots: int,
        where: str,
        renewal: JobRenewal | None = None,
        loop: Any = None,
    ) -> None:
        """With the runner of the *loop* that the client has for itself."""
        self.client = client
        self._workers = workers
        self._loop = loop
        self._renewal = renewal
        self.slots = slots
        """How many experiments at once: now, or when all jobs have begun."""
        self.where = where
        """The scheduler, in words."""
        self.answers = True
        """Whether it answered the last request."""
        self._machines: dict[str, MachineKind | None] = {}
        """By address, what workers said that they are; None of those that did not say it."""
        self._present: frozenset[MachineKind] = frozenset()
        """The kinds of machine that were there when the scheduler answered last."""

    @property
    def is_connected(self) -> bool:
        return bool(self.client.status == "running")

    @property
    def is_gone(self) -> bool:
        """Whether the client has given up."""
        return self.client.status in ("closed", "closing")

    @property
    def queued(self) -> bool:
        """Whether workers come when a batch system lets them."""
        return self._renewal is not None

    @property
    def fault(self) -> PlaceError | None:
        """Why no worker will come any more."""
        return self._renewal.fault if self._renewal is not None else None

    def begin(self, is_busy: Callable[[], bool]) -> None:
        """See to it that there are workers while *is_busy* says that there is work."""
        if self._renewal is not None:
            self._renewal.begin(is_busy)

    def ending(self, worker: str, address: str, since: float) -> LossReason:
        """Return why the *worker* of that name was lost.

        It was *since* then by the monotonic clock.
        """
        if self._renewal is None:
            return "died"
        return self._renewal.ending(worker, address, since)

    def threads(self) -> dict[str, int]:
        """Return how many experiments each worker takes, by its address.

        OSError where nobody answers.
        """
        cores_of = self.client.scheduler.ncores
        self.answers = False  # and so it stays if the call raises
        threads = dict(self.client.sync(cores_of, workers=None, callback_timeout=_ANSWER_SECONDS))
        self.answers = True
        return threads

    def machines(self) -> frozenset[MachineKind]:
        """Return the kinds of machine of the present workers; a new one is asked once.

        None at all where workers come when a batch system lets them: others may come later.
        """
        if self.queued or not self.is_connected:
            return self._present
        with suppress(OSError):
            workers = self.threads()
            new = [worker for worker in workers if worker not in self._machines]
            if new:
                # None until it answers: a worker that never does is not asked again and again.
                self._machines |= dict.fromkeys(new)
                self._machines |= self._ask_machines(new)
            kinds = (self._machines[worker] for worker in workers)
            self._present = frozenset(machine for machine in kinds if machine is not None)
        return self._present

    def _ask_machines(self, workers: list[str]) -> dict[str, MachineKind]:
        from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

        ask = partial(
            self.client.run, worker_plugin.worker_machine, workers=workers, on_error="ignore"
        )
        answers = call_with_timeout(_ANSWER_SECONDS, ask)
        kinds = {}
        for worker, text in answers.items():
            with suppress(ValueError):
                facts = json.loads(str(text))
                check_machine_facts(facts, "its machine")
                kinds[worker] = machine_parts(facts)["machine"]
        return kinds

    def look(self) -> bool:
        """Count who is there now; whether there is somebody to run something, or will be."""
        if self.queued:
            return True
        with suppress(OSError):
            threads = self.threads()
            self.slots = sum(threads.values()) or self.slots
            if not threads and self._workers is not None:
                self._workers.scale(1)  # Dask takes off a worker that needs 15 s to begin anew
            return bool(threads)
        return False

    def send(self, data: bytes | None, batch: TaskBatch, session: SessionSettings, key: str) -> Any:
        """Return a task of Dask: to run what is packed, or to follow what runs already."""
        from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

        workers = [batch.worker] if batch.worker else list(batch.eligible_workers) or None
        settings: dict[str, Any] = {"key": key, "pure": False, "retries": 0, "workers": workers}
        settings["allow_other_workers"] = bool(batch.worker)  # which may be lost meanwhile
        if data is None:
            return self.client.submit(
                worker_plugin.follow_batch, batch.numbers, session, key, **settings
            )
        if len(data) > _LARGE_BYTES:
            scatter = partial(self.client.scatter, data, workers=workers, hash=False)
            data = call_with_timeout(
                _ANSWER_SECONDS + len(data) / _SLOWEST_BYTES_PER_SECOND, scatter
            )
        return self.client.submit(
            worker_plugin.run_batch, data, batch.numbers, session, key, **settings
        )

    def stop(self, session: str, numbers: tuple[int, ...]) -> None:
        """Tell every worker to kill these."""
        from zenturio.execute.dask import worker_plugin  # noqa: PLC0415

        with suppress(OSError):  # it is said again
            self.client.run(
                worker_plugin.stop_experiments, session, numbers, wait=False, on_error="ignore"
            )

    def leave(self, session: str) -> None:
        """Tell every worker that this driver goes, and waits until it has cleared up."""
        from zenturio.execute.dask import worker_plugin  # noqa: PLC0415

        if self.is_connected:
            with suppress(OSError):
                leave = partial(
                    self.client.run, worker_plugin.leave_session, session, on_error="ignore"
                )
                call_with_timeout(_ANSWER_SECONDS, leave)

    def eligible(self, cpus: int) -> tuple[str, ...]:
        """Return the workers that may be given something of so many CPUs; none if it may be any."""
        retiring = self._renewal.retiring if self._renewal is not None else frozenset()
        if cpus == 1 and not retiring:
            return ()
        threads = self.threads()
        enough = min(cpus, max(threads.values(), default=1))
        wide = [worker for worker, count in threads.items() if count >= enough]
        stays = [worker for worker in wide if worker not in retiring] or wide
        return () if len(stays) == len(threads) else tuple(stays)

    def close(self) -> None:
        """Leave the scheduler; workers of our own end."""
        with suppress(Exception):  # what is lost need not be closed
            call_with_timeout(_ANSWER_SECONDS, partial(self.client.close, timeout=5))
        if self._loop is not None:
            with suppress(Exception):
                call_with_timeout(_ANSWER_SECONDS, self._loop.stop)
        if self._workers is not None:
            with suppress(Exception):
                call_with_timeout(_CLOSING_SECONDS, self._workers.close)


def connect(options: DaskOptions, session: Path, jobs: int | None) -> DaskCluster:
    """Return the cluster that *options* describe, for the driver of a folder *session*.

    PlaceError where there is none.
    """
    with _require_dask():
        if options.cluster is not None:
            workers_module = import_module("zenturio.execute.dask.slurm_workers")
            slurm = workers_module.SlurmWorkers(options, session)
            try:
                client = _connect_client(slurm.workers, options, None, slurm.where)
            except BaseException:
                slurm.close()
                raise
            return DaskCluster(client, slurm, slurm.slots, slurm.where, slurm.renewal)
        if options.address:
            address = read_address(options)
            tls = tls_of(address, options)
            loop = _guarded_loop()
            try:
                client = _connect_client(address.url, options, tls, str(address), loop.loop)
            except BaseException:
                loop.stop()
                raise
            # Lines of others would go to the terminal as they are.
            handlers = client._event_handlers  # noqa: SLF001
            handlers.update(dict.fromkeys(handlers, lambda _event: None))
            cluster = DaskCluster(client, None, 0, str(address), loop=loop)
            cluster.slots = _wait_for_workers(cluster, options, address)
            return cluster
        return _start_local(jobs or usable_cores(), options)


def _start_local(slots: int, options: DaskOptions) -> DaskCluster:
    """Start one worker on this machine, to which others cannot connect without its key."""
    dask, distributed = import_module("dask"), import_module("distributed")
    where = "the workers of this machine"
    try:
        with dask.config.set(_OWN_SETTINGS):
            workers = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=slots,
                processes=True,
                host="127.0.0.1",
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                security=distributed.Security.temporary(),
                silence_logs=logging.CRITICAL,
            )
    except (OSError, RuntimeError) as error:
        raise PlaceError(f"{where} cannot be started: {error}") from error
    return DaskCluster(_connect_client(workers, options, None, where), workers, slots, where)


def _guarded_loop() -> Any:
    """Return a running event loop, in a thread of its own, for a scheduler that is not ours.

    The schedulers that we start are in this process, and have to read our tasks in their loops.
    """
    from zenturio.execute.dask import restricted_unpickler  # noqa: PLC0415

    runner = import_module("distributed.utils").LoopRunner()
    runner.start()
    restricted_unpickler.guard(runner.loop.asyncio_loop)
    return runner


def _connect_client(
    target: Any, options: DaskOptions, security: Any, where: str, loop: Any = None
) -> Any:
    try:
        return import_module("distributed").Client(
            target,
            timeout=options.patience,
            security=security,
            set_as_default=False,
            name="zen",
            loop=loop,
        )
    except (OSError, TimeoutError) as error:
        if hasattr(target, "close"):
            target.close()
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PlaceError(
            f"no Dask scheduler answers at {where}: {reason}",
            hint="start one (dask scheduler), or check name, port and tls",
        ) from error


def _wait_for_workers(cluster: DaskCluster, options: DaskOptions, address: SchedulerAddress) -> int:
    """Return how many experiments the workers take, as soon as there is one."""
    end = monotonic() + options.patience
    while not (threads := cluster.threads()):
        if monotonic() > end:
            cluster.close()
            raise PlaceError(
                f"the scheduler at {address} has no worker",
                hint=f"start some there: dask worker {address.url}",
            )
        sleep(_PAUSE)
    return sum(threads.values())


@contextmanager
def _require_dask() -> Iterator[None]:
    """Dask, if it is installed; what it logs is not for users."""
    try:
        import distributed  # noqa: F401, PLC0415
    except ImportError as error:
        raise PluginError(
            f"the place dask needs a package that is not installed: {error.name}",
            hint=extra_hint("dask"),
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    yield
