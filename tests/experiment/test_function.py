"""Functions as experiments: identity, repeats, arguments, and how another process finds them."""

import inspect
import json
import sys

import pytest

import zenturio as zen
import zenturio.experiment as room
from zenturio.errors import InputError
from zenturio.experiment.function import experiment


def cost(x, y=1):
    """Return what it costs."""
    return x + y


def other(x, y=1):
    return x - y


def takes_all(**values):
    return len(values)


def seeded(x, run):
    return x * run


def test_a_decorated_function_is_called_as_before_and_has_its_settings():
    plain = experiment(cost)
    assert (plain(2), plain.name, plain.repeat.count, plain.exact) == (3, "cost", 1, False)
    decorated = experiment(repeat=3, seed="run", exact=True)(seeded)
    assert (decorated.repeat.count, decorated.repeat.seed, decorated.exact) == (3, "run", True)
    assert decorated(2, 5) == 10
    assert not experiment(repeat=3)(seeded).exact
    assert experiment(exact=True)(seeded).repeat.count == 1
    assert (plain.__wrapped__, plain.__doc__) == (cost, cost.__doc__)
    assert room(cost)(2) == room(repeat=2)(cost)(2) == 3


def test_each_repeat_is_an_experiment_with_its_number_as_the_seed():
    found = experiment(repeat=3, seed="run")(seeded).experiments({"x": 7}, 4)
    assert [dict(each.values) for each in found] == [{"x": 7, "run": n} for n in (1, 2, 3)]
    assert [each.repeat for each in found] == [1, 2, 3]
    assert {each.index for each in found} == {4}
    assert len({each.digest for each in found}) == 3
    assert {len(each.digest) for each in found} == {32}
    (single,) = experiment(cost).experiments({"x": 7})
    assert (dict(single.values), single.repeat, single.index) == ({"x": 7}, 1, -1)


def test_identity_tells_functions_values_and_their_types_apart_and_no_orders():
    def digest(function, point):
        return experiment(function).experiments(point)[0].digest

    values = [1, 2, 1.0, True, "1"]
    digests = [digest(cost, {"x": value}) for value in values]
    digests += [digest(other, {"x": 1}), digest(cost, {"x": 1, "y": 2}), digest(cost, {"y": 1})]
    assert len(set(digests)) == len(digests)
    assert digest(cost, {"x": 1, "y": 2}) == digest(cost, {"y": 2, "x": 1})
    assert digest(cost, {"x": 1}) == digest(cost, {"x": 1})


def test_a_parameter_that_is_no_argument_is_refused_with_a_proposal():
    experiment(cost).check(zen.Space(x=[1], y=[2]))
    experiment(takes_all).check(zen.Space(anything=[1]))
    with pytest.raises(InputError, match=r"cost\(\) has no argument yy") as caught:
        experiment(cost).check(zen.Space(x=[1], yy=[2]))
    assert "did you mean 'y'" in str(caught.value)


def test_a_function_becomes_a_command_that_another_process_can_run(tmp_path, monkeypatch):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("def top(x):\n    return x\n")
    (package / "inner.py").write_text("def deep(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from pack import top
    from pack.inner import deep

    for function, name in ((top, "pack:top"), (deep, "pack.inner:deep")):
        made = experiment(function)
        (found,) = made.experiments({"x": 2**63, "unused": 1})
        command = made.command(found)
        assert command.steps[0].command == (f"python -m zenturio.execute.call {tmp_path} {name}")
        (filed,) = command.files
        assert (filed.path, filed.mode) == (".zen-arguments.json", 0o644)
        assert json.loads(filed.content) == {"x": {"int": hex(2**63)}}
        assert command.digest == found.digest
    for name in ("pack.inner", "pack"):
        del sys.modules[name]


def test_integers_that_readers_of_json_take_go_as_they_are():
    made = experiment(takes_all)
    (found,) = made.experiments({"a": 2**63 - 1, "b": -(2**63), "c": 1.5, "d": True})
    content = json.loads(made.command(found).files[0].content)
    assert content == {"a": 2**63 - 1, "b": {"int": hex(-(2**63))}, "c": 1.5, "d": True}


def test_a_function_of_the_main_program_is_found_by_its_file(tmp_path, monkeypatch):
    path = tmp_path / "script.py"
    path.write_text("def cost(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from script import cost as found

    found.__module__ = "__main__"
    made = experiment(found)
    (one,) = made.experiments({"x": 1})
    assert made.command(one).steps[0].command.split()[-2:] == [str(tmp_path), f"{path}:cost"]
    del sys.modules["script"]


def test_a_function_inside_another_cannot_be_found_by_others():
    def inner(x):
        return x

    made = experiment(inner)
    with pytest.raises(InputError, match="cannot be found by its name"):
        made.command(made.experiments({"x": 1})[0])


def test_a_function_without_a_source_is_known_by_its_compiled_form():
    def compiled(text):
        names = {"__name__": "typed"}
        exec(text, names)
        return experiment(names["cost"])

    one, same, two = (compiled(f"def cost(x):\n    return x + {n}\n") for n in (1, 1, 2))
    assert one.source == same.source != two.source
    assert one.source.startswith("typed.cost\n")
    assert experiment(len).source == "builtins.len\n"
    assert experiment(cost).source == f"{__name__}.cost\n{inspect.getsource(cost)}"
    digests = {each.experiments({"x": 1})[0].digest for each in (one, same, two)}
    assert len(digests) == 2
