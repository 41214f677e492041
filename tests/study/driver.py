"""Drives the study of the current folder, as a process of its own: python driver.py URL [words].

Words: ``join``, ``lease=SECONDS``, ``jobs=N``, ``keep=WHICH``, ``on=PLACE``. Says ``planned`` before the first experiment, and
after each commit how many are ok.
"""

import sys

from zenturio.annotate.scan import scan
from zenturio.errors import ZenError
from zenturio.study import Here, Settings, choose, run_here


def main(url: str, *words: str) -> int:
    options = dict(word.split("=") for word in words if "=" in word)
    application = scan(["study.sh"])
    told = [0]

    def listener(progress):
        if progress.ok != told[0]:
            told[0] = progress.ok
            print("ok", progress.ok, flush=True)

    try:
        summary = run_here(
            application,
            choose(application.space),
            db=url,
            here=Here(
                int(options.get("jobs", 2)),
                options.get("keep", "never"),
                place=options.get("on", "local"),
            ),
            join="join" in words,
            settings=Settings(lease=float(options.get("lease", 60))),
            planned=lambda _plan: print("planned", flush=True),
            listener=listener,
        )
    except ZenError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 130 if summary.interrupted else 3 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
