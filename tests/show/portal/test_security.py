"""Who is let in, what is refused, and what pages may do in a browser."""

import socket
from urllib.parse import urlsplit

import pytest
import requests

from show.portal.example_project import EVIL
from show.portal.running_portal import served
from zenturio.errors import PlaceError, SafetyError
from zenturio.show.portal.security import HostNames
from zenturio.show.portal.server import PortalServer
from zenturio.show.portal.state import PortalSettings

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
PATHS = ("/", "/live", "/study?name=matmul", "/sql", "/static/portal.css", "/run", "/nowhere")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "foreign",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "169.254.169.254"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
    ids=str,
)
def test_what_comes_from_elsewhere_is_refused_whatever_it_asks(portal, method, foreign):
    for path in PATHS:
        answer = portal.known.request(method, portal.address + path, headers=foreign)
        assert answer.status_code == 403, (path, answer.status_code)
        assert "matmul" not in answer.text
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_request_that_changes_something_must_say_where_it_comes_from(portal, method):
    answer = portal.known.request(method, portal.address + "/run/start")
    assert answer.status_code == 403
    own = {"Origin": portal.address}
    answer = portal.known.request(method, portal.address + "/sql", headers=own)
    assert answer.status_code == 405
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


def test_two_hosts_in_one_request_are_refused(portal):
    with socket.create_connection(("127.0.0.1", portal.service.listen_address.port), 20) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert line.recv(100).split()[1] in (b"400", b"403")


def test_a_websocket_is_refused(portal):
    headers = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    assert portal.get("/live/socket", headers=headers).status_code in (403, 404)


def test_a_link_is_good_once_and_leaves_no_token_behind(portal):
    link = portal.link()
    with requests.Session() as somebody:
        first = somebody.get(link + "&name=matmul")
        assert first.status_code == 200
        assert "token" not in first.url
        assert urlsplit(first.url).query == "name=matmul"
        cookie = first.history[0].headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
    assert requests.get(link).status_code == 401
    assert requests.get(portal.address + "/?token=").status_code == 401


def test_a_link_opens_no_other_site(portal):
    link = portal.link()
    token = urlsplit(link).query
    answer = requests.get(f"{portal.address}//evil.example/?{token}", allow_redirects=False)
    assert answer.headers["Location"] == "/evil.example/"


def test_a_link_is_not_used_up_by_who_only_asks_for_its_head(portal):
    link = portal.link()
    assert requests.head(link).status_code == 401
    assert requests.get(link).status_code == 200


@pytest.mark.parametrize("path", ["/", "/study?name=matmul", "/live", "/sql", "/nowhere", "/run"])
def test_who_has_no_cookie_sees_nothing(portal, path):
    for cookies in ({}, {portal.service.cookie: "guess"}, {"zenturio": "guess"}):
        answer = requests.get(portal.address + path, cookies=cookies)
        assert answer.status_code == 401
        assert "matmul" not in answer.text


def test_a_link_on_another_page_asks_once_more_from_here(portal):
    """For a link elsewhere a browser keeps the cookie back; from this page it comes with it."""
    followed = {
        "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
    }  # fmt: skip
    answer = requests.get(portal.address + "/study?name=matmul", headers=followed)
    assert answer.status_code == 401
    assert 'http-equiv="refresh"' in answer.text
    again = {**followed, "Sec-Fetch-Site": "same-origin"}
    answer = requests.get(portal.address + "/study?name=matmul", headers=again)
    assert answer.status_code == 401
    assert 'http-equiv="refresh"' not in answer.text
    assert portal.get("/study?name=matmul", headers=followed).status_code == 200


def test_every_answer_says_what_a_browser_may_do_with_it(portal):
    for path in ("/", "/nowhere", "/static/portal.css", "/study?name=nobody", "/study"):
        headers = portal.get(path).headers
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["connect-src"] == "'self'"
        assert "unsafe" not in policy["style-src"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Server" not in headers
    assert portal.get("/").headers["Cache-Control"] == "no-store"


def test_names_and_values_that_would_be_scripts_are_text(portal):
    digest = portal.failed(EVIL)
    paths = [("/", {}), ("/study", {"name": EVIL}), ("/study/failures", {"name": EVIL}),
             ("/study/parameters", {"name": EVIL}), (f"/experiment/{digest}", {}),
             ("/study", {"name": EVIL, "where": f"`{EVIL}` != '{EVIL}'"})]  # fmt: skip
    for path, given in paths:
        page = portal.page(path, **given)
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page
        assert "<img" not in page
    for path, given in [
        ("/study", {"name": f"{EVIL}x"}),
        (f"/{EVIL}", {}),
        ("/sql", {"query": EVIL}),
    ]:
        assert "<script>alert" not in portal.get(path, params=given).text


def test_a_page_has_no_script_or_style_of_its_own(portal):
    for path in ("/", "/study?name=matmul", "/sql", f"/experiment/{portal.failed(EVIL)}"):
        page = portal.page(path)
        assert "<script>" not in page
        assert "<style" not in page
        assert " onclick" not in page
        assert "http://" not in page.replace("http://www.w3.org/", "")
        assert "https://" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e%2fapp.py",
        "/static/%252e%252e%252fapp.py", "/static//etc/passwd", "/static/portal.css%00",
        "/experiment/{}/file/../../../etc/passwd", "/experiment/{}/file/%2e%2e%2f0",
        "/experiment/{}/file/..%252f..%252fetc%252fpasswd", "/experiment/{}/file/1",
        "/experiment/{}/file/-1", "/experiment/{}/file/99999999999999999999",
        "/experiment/{}/log/..%2fstdout", "/experiment/..%2f..", "/experiment/%2e%2e",
    ],
)  # fmt: skip
def test_there_is_nothing_behind_the_paths_that_are_known(portal, path):
    request = requests.Request("GET", portal.address, cookies=portal.known.cookies).prepare()
    request.url = portal.address + path.format(portal.failed(EVIL))
    assert portal.known.send(request).status_code in (400, 404)


def test_a_portal_that_others_can_reach_asks_for_a_password(tmp_path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "", "example.org"):
        with pytest.raises(SafetyError, match="nobody would have to log in"):
            PortalServer(PortalSettings(folder=tmp_path), host)


def test_a_password_lets_in_and_a_wrong_one_does_not(project):
    settings = PortalSettings(db=str(project / ".zenturio" / "zenturio.db"), folder=project)
    with served(settings, host="0.0.0.0", password="Größe 7") as portal:
        address = f"http://127.0.0.1:{portal.service.listen_address.port}"
        own = {"Origin": address}
        with requests.Session() as somebody:
            asked = somebody.get(address + "/study?name=matmul")
            assert asked.url.endswith("/login?next=%2Fstudy%3Fname%3Dmatmul")
            assert 'name="next" value="/study?name=matmul"' in asked.text
            form = {"password": "größe 7"}
            wrong = somebody.post(address + "/login", data=form, headers=own)
            assert wrong.status_code == 401
            form = {"password": "Größe 7"}
            right = somebody.post(address + "/login", data=form, headers=own)
            assert right.status_code == 200
            assert "matmul" in right.text
            for target, place in [("/study?name=matmul", "/study?name=matmul"), ("", "/"),
                                  ("//evil.example/x", "/evil.example/x"),
                                  ("/\\\\evil.example", "/evil.example"),
                                  ("https://evil.example", "/https://evil.example")]:  # fmt: skip
                answer = somebody.post(
                    address + "/login", data={**form, "next": target}, headers=own,
                    allow_redirects=False,
                )  # fmt: skip
                assert answer.headers["Location"] == place
            assert somebody.post(address + "/login", data=form).status_code == 403


def test_names_are_known_by_their_own_and_by_plain_addresses():
    narrow, wide = HostNames.of("127.0.0.1"), HostNames.of("0.0.0.0")
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:8600", "127.3.2.1", "[::1]:8600"):
        assert narrow.has(host)
    for host in ("", ":80", "192.0.2.1", "evil.example", "localhost:80:80", "localhost:x", "[::1",
                 "localhost.", "[localhost]", "user@localhost", "127.0.0.1/evil"):  # fmt: skip
        assert not narrow.has(host), host
    assert wide.has("192.0.2.1:80")
    assert wide.has(socket.gethostname())
    assert not wide.has("evil.example")


def test_a_port_that_is_taken_is_said(portal, tmp_path):
    with pytest.raises(PlaceError, match="cannot listen"):
        PortalServer(PortalSettings(folder=tmp_path), port=portal.service.listen_address.port)
