"""A portal that answers on a free port, in a thread of its own."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests

from zenturio.show.portal.server import PortalServer
from zenturio.show.portal.state import PortalSettings


@dataclass
class Served:
    """Where it answers, and somebody who came by its link."""

    service: PortalServer
    known: requests.Session = field(default_factory=requests.Session)

    @property
    def address(self) -> str:
        """Without a slash at its end."""
        return self.service.listen_address.url.rstrip("/")

    def link(self) -> str:
        """An address that opens it once, for another browser."""
        return self.service.link()

    def get(self, path: str, **more: Any) -> requests.Response:
        """What somebody who is known is shown."""
        return self.known.get(self.address + path, **more)

    def failed(self, study: str) -> str:
        """The digest of an experiment of *study* that did not succeed."""
        repository = self.service.portal.repository
        return next(repository.records(study, states=["failed"])).digest

    def page(self, path: str, /, **given: Any) -> str:
        """The text of a page that is there."""
        answer = self.get(path, params=given)
        assert answer.status_code == 200, answer.text
        return answer.text


@contextmanager
def served(settings: PortalSettings, **more: Any) -> Iterator[Served]:
    """A portal of *settings* while it answers."""
    service = PortalServer(settings, **more)
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    try:
        while not service.is_started:
            assert thread.is_alive(), "it ended at once"
            time.sleep(0.005)
        found = Served(service)
        with found.known:
            found.known.get(found.link()).raise_for_status()
            yield found
    finally:
        service.stop()
        thread.join()
    assert not thread.is_alive()
