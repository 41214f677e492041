"""What an experiment inherits of the environment of the command that runs it."""

from tests.cli.conftest import zen

PROGRAM = """\
import os
#ZEN$ ASSIGN n = { 1 }
#ZEN$ RUN "python3 program.py"
#ZEN$ METRIC ours FROM stdout REGEX "ours (\\d+)"
#ZEN$ METRIC theirs FROM stdout REGEX "theirs (\\d+)"
n = 1
print("ours", sum(name.startswith("ZENTURIO_") for name in os.environ))
print("theirs", sum(name == "LICENSE_FILE" for name in os.environ))
"""


def test_an_experiment_does_not_see_the_database_and_sees_the_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB", str(tmp_path / "a database with a password.db"))
    monkeypatch.setenv("ZENTURIO_LOG", "info")
    monkeypatch.setenv("LICENSE_FILE", "27000@licenses")
    (tmp_path / "program.py").write_text(PROGRAM)
    zen("run", "program.py", "-j", "1", cwd=tmp_path)
    facts = zen("results", "program", "--json", cwd=tmp_path).facts
    (row,) = facts["rows"]
    values = dict(zip(facts["columns"], row, strict=True))
    assert (values["ours"], values["theirs"]) == (0, 1)
