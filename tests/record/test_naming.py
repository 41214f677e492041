"""Names of users become names in SQL: laws."""

from hypothesis import given
from hypothesis import strategies as st

from zenturio.record import naming

words = st.text(min_size=1, max_size=90) | st.sampled_from(
    [
        "n",
        "N",
        "ß",
        "SS",
        "ss",
        "n_2",
        "digest",
        "zen_digest",
        "DIGEST",
        "x" * 70,
        "x" * 71,
        "ü" * 50,
    ]
)
fields = st.lists(words, unique=True, max_size=40)


@given(fields)
def test_columns_fit_and_differ_in_more_than_case(names):
    own, facts = naming.columns(names)
    columns = [*own.values(), *facts.values()]
    assert list(own) == names
    assert len({column.casefold() for column in columns}) == len(names) + len(naming.BUILT_IN)
    assert all(0 < len(column.encode()) <= 63 for column in columns)
    assert not any("\0" in column for column in columns)


@given(fields, words)
def test_a_later_field_never_renames_an_earlier_one(names, later):
    more = [*names, later] if later not in names else names
    assert {n: c for n, c in naming.columns(more)[0].items() if n != later} == {
        n: c for n, c in naming.columns(names)[0].items() if n != later
    }


@given(st.lists(words, unique=True, max_size=12))
def test_a_name_that_clashes_with_nothing_is_kept(names):
    own, _ = naming.columns(names)
    folded = [name.casefold() for name in names]
    for name in names:
        if folded.count(name.casefold()) == 1 and len(name.encode()) <= 63 and "\0" not in name:
            taken = [own[other].casefold() for other in names if other != name]
            assert own[name] == name or name.casefold() in taken


@given(fields)
def test_views_of_studies_never_meet(names):
    taken = []
    for name in names:
        pair = naming.views(name, taken)
        assert all(len(view.encode()) <= 63 for view in pair)
        taken += pair
    assert len({view.casefold() for view in taken}) == len(taken)


def test_a_view_is_named_after_its_study():
    assert naming.views("matmul", []) == ("study_matmul", "study_matmul_all")
    assert naming.views("A", ["study_a", "study_a_all"]) == ("study_A_2", "study_A_2_all")
    assert naming.views("a_all", ["study_a", "study_a_all"]) == (
        "study_a_all_2",
        "study_a_all_2_all",
    )
