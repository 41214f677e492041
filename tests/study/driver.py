"""Drives the study of the current folder, as a process of its own: python driver.py URL [words].

Words: ``join``, ``lease=SECONDS``, ``jobs=N``, ``keep=WHICH``, ``on=PLACE``,
``order=sorted``. Says ``planned`` before the first experiment, and
after each commit how many are ok.
"""

import sys

from zenturio.annotate.scan import scan
from zenturio.errors import ZenError
from zenturio.study.driver.experiment_source import choose_order, select_points
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions


def main(url: str, *words: str) -> int:
    options = dict(word.split("=") for word in words if "=" in word)
    application = scan(["study.sh"])
    told = [0]

    def listener(progress):
        if progress.ok != told[0]:
            told[0] = progress.ok
            print("ok", progress.ok, flush=True)

    try:
        summary = run_locally(
            application,
            select_points(application.space),
            db=url,
            place=PlaceOptions(
                int(options.get("jobs", 2)),
                options.get("keep", "never"),
                place=options.get("on", "local"),
            ),
            join="join" in words,
            order=choose_order(options.get("order", "blocks")),
            settings=DriverSettings(lease=float(options.get("lease", 60))),
            planned=lambda _plan: print("planned", flush=True),
            listener=listener,
        )
    except ZenError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 130 if summary.interrupted else 3 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
