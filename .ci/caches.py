"""Let a new clone start with what another one of this machine has computed.

    python .ci/caches.py take    # in a new environment, before anything is computed
    python .ci/caches.py keep    # when everything is

That is compiled kernels and the results of mypy. Both lie in the user's cache folder. mypy compares
the contents of files; kernels are kept under a digest of all their sources. (Numba looks at the
time of a source instead, so `take` gives the sources the times that they had.)
"""

import json
import os
import shutil
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = [p for p in sorted(ROOT.glob("zenturio/**/*.py")) if b"njit" in p.read_bytes()]
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenturio-checks"


def _kernels() -> Path:
    """Where the compiled kernels of these sources lie."""
    digest = blake2b(sys.version.encode(), digest_size=16)
    for path in (*KERNELS, ROOT / "uv.lock"):
        digest.update(path.read_bytes())
    return CACHES / f"kernels-{digest.hexdigest()}"


def take() -> None:
    """Copy what is kept into this clone."""
    kept, types = _kernels(), ROOT / ".mypy_cache"
    if kept.is_dir():
        for name, time in json.loads((kept / "times.json").read_text()).items():
            os.utime(ROOT / name, ns=(time, time))
        shutil.copytree(kept / "zenturio", ROOT / "zenturio", dirs_exist_ok=True)
    if (CACHES / "mypy").is_dir() and not types.exists():
        shutil.copytree(CACHES / "mypy", types)


def keep() -> None:
    """Copy what this clone has computed; of kernels only the newest are kept."""
    kept, types = _kernels(), ROOT / ".mypy_cache"
    CACHES.mkdir(parents=True, exist_ok=True)
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHES) as name:
            new = Path(name, "new")
            for path in ROOT.glob("zenturio/**/__pycache__/*.nb[ci]"):
                copy = new / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            times = {str(path.relative_to(ROOT)): path.stat().st_mtime_ns for path in KERNELS}
            (new / "times.json").write_text(json.dumps(times))
            for old in CACHES.glob("kernels-*"):
                shutil.rmtree(old, ignore_errors=True)
            new.rename(kept)
    if types.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHES) as name:
            new = shutil.copytree(types, Path(name, "new"))
            if (CACHES / "mypy").exists():
                (CACHES / "mypy").rename(Path(name, "old"))
            Path(new).rename(CACHES / "mypy")


if __name__ == "__main__":
    {"take": take, "keep": keep}[sys.argv[1]]()
