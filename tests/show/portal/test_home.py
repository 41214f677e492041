"""Home: every study and where it stands."""


def test_home_shows_every_study_and_where_it_stands(portal):
    page = portal.page("/")
    for name in ("matmul", "stencil", "half", "hello"):
        assert f"name={name}" in page
    assert "<b>72</b> of 72" in page
    assert "nobody drives it, 28 are left" in page
    assert "it waits for nothing" in page
