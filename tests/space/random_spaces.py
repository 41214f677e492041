"""Small spaces of every kind, for laws that hold for all of them."""

from hypothesis import strategies as st

from zenturio.expression import parse
from zenturio.space import (
    Parameter,
    Space,
    Zip,
    arithmetic,
    concatenation,
    derived,
    elements,
    geometric,
    parameter,
    span,
)

WORDS = ["x", "y", "fast", "", "it's", "Größe"]

ints = st.lists(st.integers(-3, 9), min_size=1, max_size=4, unique=True).map(
    lambda values: elements(map(str, values))
)
reals = st.lists(
    st.sampled_from(["0.1", "0.5", "1", "2.5", "1e1"]), min_size=1, max_size=3, unique=True
)
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True)
ranges = st.tuples(st.integers(-2, 4), st.integers(0, 6), st.integers(1, 3)).map(
    lambda r: span(r[0], r[0] + r[1], r[2])
)
downward = st.integers(1, 5).map(lambda n: arithmetic(str(n), "1", "-1"))
machines = st.integers(1, 3).map(
    lambda n: concatenation(["m", arithmetic("1", str(n)), "-", elements(["a", "b"])])
)
bools = st.just(elements(["true", "false"], "bool"))
numbers = st.one_of(ints, ranges, downward)
sets = st.one_of(
    numbers,
    numbers,
    reals.map(lambda texts: elements(texts, "real")),
    words.map(lambda texts: elements(texts, "str")),
    machines,
    bools,
)

CONDITIONS = {
    1: ["{a} > 1", "{a} % 2 == 0", "index({a}) < 2", "{a} in (1, 2, 5)", "{a} != 3 and {a} < 8"],
    2: [
        "{a} <= {b}",
        "{a} * {b} < 12",
        "{b} == 0 or {a} % {b} == 0",
        "index({a}) >= index({b})",
        "({a} if {b} > 1 else {b}) < 4",
        "{a} + {b} != 4",
    ],
    3: [
        "{a} + {b} + {c} < 9",
        "{a} * {b} >= {c}",
        "{a} < {b} or {b} < {c}",
        "max({a}, {b}) != {c}",
    ],
}
WHENS = ["{a} > 1", "{a} != 2", "index({a}) == 0"]
BOUNDS = [
    lambda n: span(1, f"{n} / 2"),
    lambda n: span(0, n),
    lambda n: span(n, 3),
    lambda n: span(f"{n} + 0", f"{n} + 2"),
    lambda n: span(f"{n} // 2", 3, "0.5"),
    lambda n: span(n, 0, -1),
    lambda n: geometric(1, n),
    lambda n: span(1, 4, f"abs({n}) + 1"),
]
DERIVED = ["{a} * 2", "{a} + {b}", "{a} > {b}", "max({a}, 2)"]


@st.composite
def spaces(draw):
    """A space of at most six parameters, of every kind."""
    named: dict[str, Parameter] = {}
    always: list[str] = []  # integers that are never NULL
    numeric: list[str] = []
    for name in draw(
        st.lists(
            st.sampled_from(["n", "m", "k", "select", "Größe", "block-size"]),
            min_size=1,
            max_size=5,
            unique=True,
        )
    ):
        quoted = name if name.isidentifier() else f"`{name}`"
        kind = draw(st.integers(0, 9))
        if kind == 0 and numeric:
            a, b = draw(st.sampled_from(numeric)), draw(st.sampled_from(numeric))
            named[name] = derived(draw(st.sampled_from(DERIVED[:2] + DERIVED[3:])).format(a=a, b=b))
            numeric.append(quoted)
            if {a, b} <= set(always):
                always.append(quoted)
            continue
        if kind in (1, 2) and always:
            domain = draw(st.sampled_from(BOUNDS))(draw(st.sampled_from(always)))
        else:
            domain = draw(sets)
        when = None
        if kind in (2, 3) and numeric:
            when = draw(st.sampled_from(WHENS))
            choices = (
                numeric if "index" not in when else [n for n in numeric if _has_positions(named, n)]
            )
            when = when.format(a=draw(st.sampled_from(choices))) if choices else None
        named[name] = parameter(domain, when=when, default="off" if when else None)
        if domain.type in ("int", "real"):
            numeric.append(quoted)
        if domain.type == "int" and when is None:
            always.append(quoted)
    constraints = draw(st.lists(_constraint(numeric, named), max_size=3)) if numeric else []
    constraints += draw(_zips(named))
    declared = [Parameter(name, *_fields(each)) for name, each in named.items()]
    order = draw(st.permutations(declared))
    return Space(order, constraints)


def _fields(each):
    return (each.domain, each.kind, each.unit, each.default, each.when, each.derived)


def _has_positions(named, quoted):
    return named[quoted.strip("`")].derived is None


@st.composite
def _constraint(draw, numeric, named):
    count = draw(st.integers(1, min(3, len(numeric))))
    text = draw(st.sampled_from(CONDITIONS[count]))
    names = draw(st.permutations(numeric))[:count]
    if "index" in text and not all(_has_positions(named, name) for name in names):
        text = CONDITIONS[count][0]
    return parse(text.format(**dict(zip("abc", names, strict=False))))


@st.composite
def _zips(draw, named):
    sizes: dict[int, list[str]] = {}
    for name, each in named.items():
        if each.derived is None and not hasattr(each.domain, "bounds"):
            sizes.setdefault(each.domain.size, []).append(name)
    fitting = [names for names in sizes.values() if len(names) > 1]
    if not fitting or draw(st.booleans()):
        return []
    names = draw(st.permutations(draw(st.sampled_from(fitting))))
    return [Zip(tuple(names[: draw(st.integers(2, len(names)))]))]
