import json
import subprocess
import sys

import pytest

from tests.cli.conftest import SMALL, zen

HEAVY = ("numpy", "pandas", "plotly", "sqlalchemy", "numba", "rich", "alembic", "matplotlib")


def test_help_loads_nothing_heavy(tmp_path):
    probe = f"""
import sys
from zenturio.cli import main
sys.argv = ['zen', '--help']
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "expand" in done.stdout


def test_every_verb_has_help_with_an_example(tmp_path):
    from zenturio.cli.main import app

    verbs = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert len(verbs) > 3
    for verb in verbs:
        told = " ".join(zen(verb.replace("_", "-"), "--help", cwd=tmp_path).out.split())
        assert f"zen {verb.replace('_', '-')}" in told.split("Example", 1)[1], verb


def test_space_shows_what_was_asked_for(study):
    told = zen("space", study.name, cwd=study.parent)
    assert "8 combinations, 7 points" in told.out
    assert "total [J] from stdout" in told.out


def test_space_as_json(study):
    facts = zen("space", study.name, "--json", cwd=study.parent).facts
    parameters = {each["name"]: each for each in facts["parameters"]}
    assert parameters["n"]["values"] == [1, 2, 3, 4]
    assert (parameters["n"]["kind"], parameters["n"]["size"]) == ("assign", 4)
    assert parameters["level"]["values"] == ["low", "high"]
    assert (facts["cartesian"], facts["size"]) == (8, 7)
    assert [c["removes"] for c in facts["constraints"]] == [1]
    assert facts["objectives"] == [{"direction": "maximize", "expression": "total"}]
    assert [m["name"] for m in facts["metrics"]] == ["total"]


def test_sizes_are_exact_at_any_magnitude(tmp_path):
    lines = [f"#ZEN$ PARAM p{i} = {{ 1:300 }}" for i in range(2000)]
    (tmp_path / "huge.sh").write_text("\n".join(lines) + "\n")
    sys.set_int_max_str_digits(0)
    try:
        facts = zen("space", "huge.sh", "--json", cwd=tmp_path).facts
        assert facts["size"] == 300**2000
    finally:
        sys.set_int_max_str_digits(4300)
    told = zen("space", "huge.sh", cwd=tmp_path)
    assert "e+4954 points" in told.out


def test_values_are_listed_up_to_the_cap_and_counted_beyond(tmp_path):
    (tmp_path / "long.sh").write_text("#ZEN$ PARAM p = { 1:1000000000 }\n")
    (parameter,) = zen("space", "long.sh", "--json", cwd=tmp_path).facts["parameters"]
    assert parameter["size"] == 10**9
    assert parameter["values"] == list(range(1, 1001))


def test_a_parameter_can_be_replaced_or_added(study):
    told = zen("space", study.name, "-P", "n={7,8}", "-P", "x={1,2,3}", "--json", cwd=study.parent)
    sizes = {p["name"]: p["size"] for p in told.facts["parameters"]}
    assert sizes == {"n": 2, "level": 2, "x": 3}


def test_a_continuous_space_has_no_size_and_can_be_sampled(tmp_path):
    (tmp_path / "real.py").write_text("#ZEN$ PARAM x = { UNIFORM(0, 1) }\n")
    facts = zen("space", "real.py", "--json", cwd=tmp_path).facts
    assert facts["size"] is None
    assert len(facts["samples"]) == 3
    assert "continuous" in zen("space", "real.py", cwd=tmp_path).out


def test_wrong_directives_are_named_with_their_place(study):
    study.write_text(SMALL.replace("{ 1:4 }", "{ 1:4:0 }").replace("total\n", "totel\n"))
    told = zen("space", study.name, cwd=study.parent, code=2)
    assert "small.py:2:" in told.err
    assert "small.py:8:" in told.err
    assert "did you mean 'total'" in told.err
    assert "^" in told.err


def test_check_tells_all_as_json(study):
    study.write_text(SMALL.replace("{ 1:4 }", "{ }"))
    facts = zen("check", study.name, "--json", cwd=study.parent, code=2).facts
    assert facts["ok"] is False
    assert facts["complaints"][0]["line"] == 2


def test_check_of_a_good_study(study):
    assert "nothing to complain of" in zen("check", study.name, cwd=study.parent).out


def test_expand_writes_a_folder_for_each_experiment(study):
    facts = zen("expand", study.name, "--out", "runs", "--json", cwd=study.parent).facts
    assert facts["experiments"] == 7
    lines = (study.parent / "runs" / "manifest.jsonl").read_text().splitlines()
    manifest = [json.loads(line) for line in lines]
    assert [each["index"] for each in manifest] == list(range(7))
    assert manifest[0]["parameters"] == {"n": 1, "level": "low"}
    for each in manifest:
        text = (study.parent / "runs" / each["path"] / "small.py").read_text()
        assert f"\nn = {each['parameters']['n']}\n" in text
        assert f'level = "{each["parameters"]["level"]}"' in text
        assert each["path"] == each["digest"]
    assert study.read_text() == SMALL


@pytest.mark.parametrize(
    ("options", "indices"),
    [(("--limit", 2), [0, 1]), (("--index", 5), [5]), (("--limit", 0), [])],
)
def test_expand_of_some_points(study, options, indices):
    zen("expand", study.name, "--out", "runs", *options, cwd=study.parent)
    lines = (study.parent / "runs" / "manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == indices


def test_the_same_seed_draws_the_same_points(study):
    drawn = []
    for out in ("a", "b", "c"):
        seed = 2 if out == "c" else 1
        zen("expand", study.name, "-o", out, "--sample", 3, "--seed", seed, cwd=study.parent)
        lines = (study.parent / out / "manifest.jsonl").read_text().splitlines()
        drawn.append([json.loads(line)["digest"] for line in lines])
    assert len(set(drawn[0])) == 3
    assert drawn[0] == drawn[1] != drawn[2]


def test_expanding_again_goes_on_and_leaves_what_is_there(study):
    zen("expand", study.name, "-o", "runs", "--limit", 3, cwd=study.parent)
    stays = min((study.parent / "runs").glob("*/small.py"))
    before = stays.stat().st_mtime_ns
    zen("expand", study.name, "-o", "runs", cwd=study.parent)
    assert stays.stat().st_mtime_ns == before
    assert len(list((study.parent / "runs").glob("*/small.py"))) == 7


def test_expand_leaves_a_folder_of_other_things_alone(study):
    told = zen("expand", study.name, "-o", ".", cwd=study.parent, code=5)
    assert "holds other files" in told.err


def test_a_huge_space_is_not_expanded_by_accident(tmp_path):
    lines = [f"#ZEN$ PARAM p{i} = {{ 1:300 }}" for i in range(82)]
    (tmp_path / "huge.sh").write_text("\n".join(lines) + "\n")
    told = zen("expand", "huge.sh", "-o", "out", cwd=tmp_path, code=2)
    assert "--limit" in told.err
    assert not (tmp_path / "out").exists()
    zen("expand", "huge.sh", "-o", "out", "--sample", 2, cwd=tmp_path)


def test_an_index_that_is_not_there(study):
    told = zen("expand", study.name, "-o", "runs", "--index", 7, cwd=study.parent, code=2)
    assert "from 0 to 6" in told.err


def test_a_missing_file_is_named(tmp_path):
    assert "nowhere.c" in zen("space", "nowhere.c", cwd=tmp_path, code=2).err


def test_a_reader_that_goes_away_is_no_error(study):
    command = f"{sys.executable} -c 'from zenturio.cli import main; main()' space {study} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_init_lists_its_languages_and_refuses_to_overwrite(tmp_path):
    assert "python" in zen("init", cwd=tmp_path).out
    zen("init", "python", cwd=tmp_path)
    assert "there already" in zen("init", "python", cwd=tmp_path, code=5).err
    assert "did you mean 'python'" in zen("init", "pyton", cwd=tmp_path, code=2).err


@pytest.mark.parametrize("language", ["c", "fortran", "javascript", "make", "python", "shell"])
def test_the_first_example_of_each_language_is_a_good_study(tmp_path, language):
    zen("init", language, cwd=tmp_path)
    (path,) = tmp_path.iterdir()
    assert "nothing to complain of" in zen("check", path.name, cwd=tmp_path).out


def test_an_example_under_another_name_speaks_of_itself_by_it(tmp_path):
    zen("init", "c", "--out", "my study.c", cwd=tmp_path)
    text = (tmp_path / "my study.c").read_text()
    assert "first" not in text
    assert "nothing to complain of" in zen("check", "my study.c", cwd=tmp_path).out
