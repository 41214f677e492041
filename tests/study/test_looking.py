"""Who looks at a study does not wait for what runs one."""

import subprocess
import sys

import pytest

from zenturio.errors import NotFoundError
from zenturio.record.open import open_repository
from zenturio.study.overview import opened_repository, study_statuses

HEAVY = (
    "numpy",
    "pandas",
    "sqlalchemy",
    "zenturio.space",
    "zenturio.annotate",
    "zenturio.execute",
    "rich",
)


def test_looking_loads_neither_numpy_nor_what_runs_a_study(tmp_path):
    place = str(tmp_path / "zenturio.db")
    open_repository(place).close()
    probe = f"""if True:
    import sys
    from zenturio.study.overview import opened_repository, study_statuses
    with opened_repository({place!r}):
        assert study_statuses({place!r}) == []
    print([name for name in {HEAVY!r} if name in sys.modules])
    """
    told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (told.stdout, told.stderr) == ("[]\n", "")


def test_looking_creates_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    assert study_statuses(None) == []
    for db in (None, "typed.wrong.db"):
        with pytest.raises(NotFoundError, match="there is no database at"), opened_repository(db):
            pass
    with pytest.raises(NotFoundError):
        study_statuses("typed.wrong.db")
    assert list(tmp_path.iterdir()) == []
