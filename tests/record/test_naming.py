"""Names of users become names in SQL: laws."""

from hypothesis import given
from hypothesis import strategies as st

from zenturio.record import Field, sql_names, studies
from zenturio.record.field_layout import FieldLayout

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


def columns(names, taken=()):
    """The columns of fields that are declared together."""
    used, found = {sql_names.folded(each) for each in taken}, {}
    for name in names:
        found[name] = sql_names.column_name(name, "metric", used, set(names))
        used.add(sql_names.folded(found[name]))
    return found


@given(fields)
def test_columns_fit_and_differ_in_more_than_case(names):
    found = list(columns(names).values())
    every = [sql_names.folded(column) for column in (*found, *sql_names.FACTS)]
    assert len(set(every)) == len(names) + len(sql_names.FACTS)
    assert all(0 < len(column.encode()) <= 63 for column in found)
    assert not any("\0" in column for column in found)


@given(fields)
def test_the_first_of_several_names_that_are_alike_keeps_it(names):
    found, seen = columns(names), set(map(sql_names.folded, sql_names.FACTS))
    for name in names:
        alone = sql_names.folded(name) not in seen
        if alone and len(name.encode()) <= 63 and "\0" not in name:
            taken = [sql_names.folded(found[other]) for other in names[: names.index(name)]]
            assert found[name] == name or sql_names.folded(name) in taken
        seen.add(sql_names.folded(name))


def test_exact_names_win():
    assert columns(["N", "n", "n__2", "n_2"]) == {
        "N": "N", "n": "n__3", "n__2": "n__2", "n_2": "n_2",
    }  # fmt: skip
    assert columns(["ö", "o\u0308"]) == {"ö": "ö", "o\u0308": "o\u0308__2"}


def test_what_every_study_has_keeps_its_name():
    assert sql_names.column_name("digest", "parameter", set(), set()) == "param_digest"
    assert sql_names.column_name("Exit", "metric", set(), set()) == "metric_Exit"
    assert sql_names.column_name("exit", "metric", {"metric_exit"}, set()) == "metric_exit__2"
    assert sql_names.column_name("exit", "metric", set(), {"metric_exit"}) == "metric_exit__2"


@given(fields)
def test_views_of_studies_never_meet(names):
    taken = []
    for name in names:
        taken.append(sql_names.study_view(name, taken))
    views = [view for each in taken for view in (each, sql_names.all_view(each))]
    versions = [sql_names.all_view(sql_names.version_view(each, 10**6)) for each in taken]
    assert all(len(view.encode()) <= 63 for view in (*views, *versions))
    assert len({sql_names.folded(view) for view in views}) == len(views)


def test_a_field_that_sql_calls_otherwise_says_why():
    old = FieldLayout("sqlite", 1, 1)
    names = ("x" * 63, "X" * 63, "y" * 64, "n")
    new = old.declared("parameter", map(Field, names))
    reasons = [(name, text.rpartition(" is ")[2]) for name, text in studies.renamed(old, new)]
    assert reasons == [("X" * 63, "taken, or differs too little"), ("y" * 64, "too long")]
    assert studies.renamed(new, new.declared("metric", [Field("t")])) == []
