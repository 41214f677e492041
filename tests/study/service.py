"""A service as a process of its own: python service.py URL POLICY; it says when it looks."""

import signal
import sys
import threading
from pathlib import Path

from zenturio.execute.local import Local
from zenturio.record.open import open_repository
from zenturio.study.service import study_service
from zenturio.study.service.service_status import locked_alone

study_service.POLL = 0.05


def serve(url: str, policy: str) -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    folder = Path(".zenturio")
    with locked_alone(folder), Local(folder, 2) as place:
        service = study_service.StudyService(open_repository(url), {"local": place}, policy, said)
        print("serving", flush=True)
        service.run(over)


def said(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
