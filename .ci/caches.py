"""Let a new clone start with what another one of this machine has computed.

    python .ci/caches.py take    # in a new environment, before anything is computed
    python .ci/caches.py keep    # when everything is

It copies compiled kernels, compiled modules of packages, and the results of mypy, by way of the
user's cache folder. mypy compares the contents of files, Python the times of modules, which uv
links from a cache of its own. Kernels are kept under a digest of all their sources; Numba looks at
the time of a source instead, so `take` gives the sources the times that they had.
"""

import contextlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = [p for p in sorted(ROOT.glob("zenturio/**/*.py")) if b"njit" in p.read_bytes()]
PACKAGES = Path(sysconfig.get_path("purelib"))
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenturio-checks"


def _place(kind: str, *sources: Path) -> Path:
    """Return the folder for caches of this *kind* that these sources and packages made."""
    digest = blake2b(sys.version.encode(), digest_size=16)
    for path in (ROOT / "uv.lock", *sources):
        digest.update(path.read_bytes())
    return CACHES / f"{kind}-{digest.hexdigest()}"


def take() -> None:
    """Copy the stored caches into this clone."""
    kept, modules, types = _place("kernels", *KERNELS), _place("modules"), ROOT / ".mypy_cache"
    if modules.is_dir():
        shutil.copytree(modules, PACKAGES, dirs_exist_ok=True)
    if kept.is_dir():
        for name, time in json.loads((kept / "times.json").read_text()).items():
            os.utime(ROOT / name, ns=(time, time))
        shutil.copytree(kept / "zenturio", ROOT / "zenturio", dirs_exist_ok=True)
    if (CACHES / "mypy").is_dir() and not types.exists():
        shutil.copytree(CACHES / "mypy", types)


def keep() -> None:
    """Copy what this clone has computed; of each kind only the newest is kept."""
    times = {str(path.relative_to(ROOT)): path.stat().st_mtime_ns for path in KERNELS}
    compiled = ROOT.glob("zenturio/**/__pycache__/*.nb[ci]")
    _keep(_place("kernels", *KERNELS), ROOT, compiled, {"times.json": json.dumps(times)})
    _keep(_place("modules"), PACKAGES, PACKAGES.glob("**/__pycache__/*.pyc"), {})
    _keep(CACHES / "mypy", ROOT / ".mypy_cache", ROOT.glob(".mypy_cache/**/*.*"), {})


def _keep(place: Path, root: Path, files: Iterable[Path], texts: dict[str, str]) -> None:
    """Store *files* below *root*, and *texts* by name, in *place*; remove others of its kind."""
    CACHES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHES) as name:
        new = Path(name, "new")
        new.mkdir()
        for path in files:
            if path.is_file():
                copy = new / path.relative_to(root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
        for file, text in texts.items():
            (new / file).write_text(text)
        for old in CACHES.glob(f"{place.name.partition('-')[0]}*"):
            shutil.rmtree(old, ignore_errors=True)
        new.rename(place)


if __name__ == "__main__":
    # Whatever cannot be read or written is computed: the checks do not depend on it.
    with contextlib.suppress(OSError, ValueError):
        {"take": take, "keep": keep}[sys.argv[1]]()
