"""Fetches what pages show and what tests them in browsers: pinned, checked, with its licence.

    python .ci/vendor.py

The result is committed: neither a build nor a run asks a network for anything.
"""

import base64
import gzip
import hashlib
import io
import re
import tarfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
STATIC = "zenturio/show/portal/static"
TESTS = "tests/show/portal/axe"
PLOTLY = f"{STATIC}/plotly-strict.min.js.gz"
REGISTRY = "https://registry.npmjs.org"

PINNED = {
    # Of the version that plotly.py has: figures are made for it.
    "plotly.js-strict-dist-min": (
        "4.1.1",
        "/M2gRAF8LeqafKIO/bUU+DQk7RlonVbwpPb2G/jZsfqCl/DttBfvF+wQfZ6vT9y9EKy47eDI/zfIWC/uA1L6TQ==",
        {
            "package/plotly-strict.min.js": PLOTLY,
            "package/LICENSE": f"{STATIC}/plotly.LICENSE",
        },
    ),
    "htmx.org": (
        "2.0.11",
        "Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        {
            "package/dist/htmx.min.js": f"{STATIC}/htmx.min.js.gz",
            "package/LICENSE": f"{STATIC}/htmx.LICENSE",
        },
    ),
    # What finds barriers in pages: for tests alone.
    "axe-core": (
        "4.14.0",
        "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
        {
            "package/axe.min.js": f"{TESTS}/axe.min.js.gz",
            "package/LICENSE": f"{TESTS}/LICENSE",
            "package/LICENSE-3RD-PARTY.txt": f"{TESTS}/LICENSE-3RD-PARTY.txt",
        },
    ),
}  # fmt: skip


def fetch(name: str, version: str, sha512: str) -> bytes:
    """The package's archive; an error if it is not the one that was looked at."""
    address = f"{REGISTRY}/{name}/-/{name}-{version}.tgz"
    with urllib.request.urlopen(address, timeout=60) as answer:
        content = answer.read()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != sha512:
        raise SystemExit(f"{address} is another file: sha512-{found}")
    return content


def styles(script: str) -> str:
    """The rules that plotly.js would write into a page, which a strict policy forbids: a file."""
    (body,) = re.findall(r'\{("X,X div":.*?)\};for\(', script)
    rules = re.findall(r"""(?:"([^"]+)"|(Y)):(?:"([^"]*)"|'([^']*)')""", body)
    names = {"X": ".js-plotly-plot .plotly", "Y": ".plotly-notifier"}
    found = []
    for *selectors, double, single in rules:
        selector = re.sub("[XY]", lambda match: names[match[0]], "".join(selectors))
        found.append(f"{selector} {{ {double or single} }}")
    return "/* Of plotly.js, by .ci/vendor.py. */\n" + "\n".join(found) + "\n"


def main() -> None:
    for name, (version, sha512, wanted) in PINNED.items():
        with tarfile.open(fileobj=io.BytesIO(fetch(name, version, sha512))) as archive:
            for inside, target in wanted.items():
                member = archive.extractfile(inside)
                assert member is not None, f"{inside} is a folder"
                content = member.read()
                if target == PLOTLY:
                    (ROOT / STATIC / "plotly.css").write_text(styles(content.decode()))
                if target.endswith(".gz"):
                    content = gzip.compress(content, 9, mtime=0)
                (ROOT / target).parent.mkdir(exist_ok=True)
                (ROOT / target).write_bytes(content)
                print(f"{target}: {len(content):,} bytes, of {name} {version}")


if __name__ == "__main__":
    main()
