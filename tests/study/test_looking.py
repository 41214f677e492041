"""Who looks at a study does not wait for what runs one."""

import subprocess
import sys

HEAVY = ("numpy", "pandas", "zenturio.space", "zenturio.annotate", "zenturio.execute", "rich")


def test_looking_loads_neither_numpy_nor_what_runs_a_study(tmp_path):
    probe = f"""if True:
    import sys
    from zenturio.study.look import opened, standings
    with opened({str(tmp_path / "zenturio.db")!r}) as repository:
        assert standings(repository) == []
    print([name for name in {HEAVY!r} if name in sys.modules])
    """
    told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (told.stdout, told.stderr) == ("[]\n", "")
