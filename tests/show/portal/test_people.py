"""Named users, proxies and roles; the queue of a service as each of them sees it."""

from contextlib import contextmanager

import pytest
import requests
from starlette.datastructures import Headers

from show.portal.running_portal import served
from zenturio.errors import InputError, SafetyError
from zenturio.record.open import open_repository
from zenturio.show.portal.access import (
    IDLE_SECONDS,
    PROXY_HEADER,
    SESSION_SECONDS,
    PasswordHash,
    SessionStore,
    UserDirectory,
    hash_secret,
)
from zenturio.show.portal.server import PortalServer
from zenturio.show.portal.state import PortalSettings
from zenturio.study.service.service_config import ServiceConfig, ServiceUser

STUDY = '#!/bin/sh\n#ZEN$ PARAM n = { 1:3 }\n#ZEN$ RUN "sh one.sh {n}"\n'
USERS = {
    "alice": ServiceUser("alice", "run", PasswordHash.of("wonder land").text),
    "bob": ServiceUser("bob", "look", PasswordHash.of("builder").text),
    "carol": ServiceUser("carol", "run"),
    "dave": ServiceUser("dave", "run", PasswordHash.of("copper field").text),
}


@pytest.fixture
def lab(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "one.sh").write_text(STUDY)
    open_repository(tmp_path / ".zenturio" / "zenturio.db").close()
    return tmp_path


@contextmanager
def opened(lab, users=None, **more):
    settings = PortalSettings(str(lab / ".zenturio" / "zenturio.db"), lab, serves=True)
    with served(settings, users=users, **more) as found:
        yield found


def entered(portal, name, password):
    """A browser after it has sent the form; nobody's, if that was refused."""
    browser = requests.Session()
    form = {"name": name, "password": password}
    answer = browser.post(f"{portal.address}/login", form, headers={"Origin": portal.address})
    assert answer.status_code == (200 if portal.service.cookie in browser.cookies else 401)
    return browser


def post(browser, portal, path, /, **form):
    return browser.post(portal.address + path, form, headers={"Origin": portal.address})


def test_metrics_are_read_with_a_token_of_their_own_which_opens_nothing_else(lab):
    users = UserDirectory(USERS, metrics_token=hash_secret("tok"))
    with opened(lab, users) as portal:
        bearer = {"Authorization": "Bearer tok"}
        answer = requests.get(f"{portal.address}/metrics", headers=bearer)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "zenturio_service_up 0" in answer.text
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic tok"}):
            refused = requests.get(f"{portal.address}/metrics", headers=headers)
            assert "zenturio_service_up" not in refused.text
        queue = requests.get(f"{portal.address}/queue", headers=bearer)
        assert "Submit a study" not in queue.text
        assert "/login" in queue.url
        assert "zenturio_submissions" in portal.get("/metrics").text


def test_users_come_by_their_passwords_and_may_do_what_their_roles_say(lab):
    with opened(lab, UserDirectory(USERS)) as portal:
        alice, bob = entered(portal, "alice", "wonder land"), entered(portal, "bob", "builder")
        queue = f"{portal.address}/queue"
        assert "Logged in as alice" in alice.get(queue).text
        assert "Submit a study" in alice.get(queue).text
        seen = bob.get(queue).text
        assert "Logged in as bob, read-only" in seen
        assert "Submit a study" not in seen

        refused = post(bob, portal, "/queue/submit", path="one.sh")
        assert refused.status_code == 403
        assert "bob has read-only access" in refused.text
        assert post(alice, portal, "/queue/submit", path="one.sh", limit="2").status_code == 200

        repository = portal.service.portal.repository
        (found,) = repository.submissions()
        assert (found.user, found.study, found.turn) == ("alice", "one", "waiting")
        assert found.request["limit"] == 2
        assert "cancel" in alice.get(f"{queue}/waiting").text
        assert "cancel" not in bob.get(f"{queue}/waiting").text

        assert post(bob, portal, "/queue/cancel", number="1").status_code == 403
        dave = entered(portal, "dave", "copper field")
        assert "danger" not in dave.get(f"{queue}/waiting").text
        refused = post(dave, portal, "/queue/cancel", number="1")
        assert (refused.status_code, "is of alice" in refused.text) == (403, True)
        assert repository.submissions()[0].turn == "waiting"
        assert "by alice" in post(alice, portal, "/queue/cancel", number="1").text
        assert repository.submissions()[0].turn == "cancelled"
        for each in (alice, bob, dave):
            each.close()


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "builder"), ("alice", ""), ("carol", ""), ("mallory", "wonder land"), ("", "")],
)
def test_who_does_not_know_a_password_stays_outside(lab, name, password):
    with opened(lab, UserDirectory(USERS)) as portal:
        browser = entered(portal, name, password)
        answer = browser.get(f"{portal.address}/queue", allow_redirects=False)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/login?next=%2Fqueue")
        browser.close()


def test_a_proxy_tells_who_asks(lab):
    people = UserDirectory(USERS, "X-Remote-User", hash_secret("what they share"))
    with opened(lab, people, names=["lab.example.org"]) as portal:

        def ask(name, method="GET", where="/queue", **form):
            headers = {"X-Remote-User": name, "Host": "lab.example.org"}
            headers |= {PROXY_HEADER: "what they share"}
            headers |= {"Origin": "https://lab.example.org"} if method == "POST" else {}
            return requests.request(method, portal.address + where, headers=headers, data=form)

        assert "Logged in as carol" in ask("carol").text
        assert "Logged in as bob, read-only" in ask("bob").text
        assert ask("mallory").status_code == 403
        assert "this user may not use the portal" in ask("mallory").text
        assert ask("bob", "POST", "/queue/submit", path="one.sh").status_code == 403
        assert (
            requests.get(
                portal.address + "/queue", headers={"Host": "evil.example.org"}
            ).status_code
            == 403
        )


def test_who_is_no_proxy_is_not_believed(lab):
    """Any user of this machine can send a header from 127.0.0.1."""
    people = UserDirectory(USERS, "X-Remote-User", hash_secret("what they share"))
    with opened(lab, people) as portal:
        for secret in ({}, {PROXY_HEADER: "guess"}, {PROXY_HEADER: people.proxy_secret}):
            headers = {"X-Remote-User": "alice", **secret}
            answer = requests.get(f"{portal.address}/queue", headers=headers)
            assert answer.status_code == 403
            assert "only the proxy may send" in answer.text
        assert portal.known.get(f"{portal.address}/queue").status_code == 200
        twice = requests.get(f"{portal.address}/queue", allow_redirects=False)
        assert twice.status_code == 303


def test_two_names_of_a_proxy_are_none():
    people = UserDirectory(USERS, "X-Remote-User", hash_secret("s"), ("127.0.0.1", "::1"))

    def told(*names, client="127.0.0.1", secrets=(b"s",)):
        raw = [(b"x-remote-user", name.encode()) for name in names]
        raw += [(b"x-zenturio-proxy", secret) for secret in secrets]
        return people.proxy_user({"client": (client, 1)}, Headers(raw=raw))

    assert told("alice").name == "alice"
    assert told("alice", client="::ffff:127.0.0.1").name == "alice"
    assert isinstance(told("alice", "bob"), str)
    assert isinstance(told("alice", client="::2"), str)
    assert isinstance(told("alice", client="unix"), str)
    for secrets in ((), (b"t",), (b"s", b"s"), (b"s", b"t")):
        assert isinstance(told("alice", secrets=secrets), str)
    assert told() is None
    assert UserDirectory(USERS).proxy_user({"client": ("127.0.0.1", 1)}, Headers()) is None


def test_beyond_this_machine_a_service_wants_to_know_who_comes(lab):
    settings = PortalSettings(str(lab / ".zenturio" / "zenturio.db"), lab, serves=True)
    with pytest.raises(SafetyError, match=r"\[serve.users\]"):
        PortalServer(settings, "0.0.0.0")
    with pytest.raises(SafetyError):
        PortalServer(settings, "0.0.0.0", users=UserDirectory({"carol": USERS["carol"]}))
    with pytest.raises(SafetyError):
        PortalServer(
            settings, "0.0.0.0", users=UserDirectory({}, "X-Remote-User", hash_secret("s"))
        )
    with opened(lab, UserDirectory(USERS), host="0.0.0.0") as portal:
        assert portal.known is not None


def test_what_is_asked_of_the_queue_is_looked_at(lab):
    with opened(lab) as portal:
        for path in ("../one.sh", "/etc/passwd", "", ".zenturio/zenturio.db"):
            answer = post(portal.known, portal, "/queue/submit", path=path)
            assert answer.status_code == 400
            assert "is not an annotated file of this project" in answer.text
        assert (
            post(portal.known, portal, "/queue/submit", path="one.sh", limit="x").status_code == 400
        )
        assert post(portal.known, portal, "/queue/cancel", number="x").status_code == 400
        assert post(portal.known, portal, "/queue/cancel", number="77").status_code == 404
        assert post(portal.known, portal, "/queue/submit", path="one.sh").status_code == 200
        again = post(portal.known, portal, "/queue/submit", path="one.sh", limit="1")
        assert again.status_code == 409


def test_names_in_the_queue_are_inert(lab):
    repository = open_repository(lab / ".zenturio" / "zenturio.db")
    repository.submit("t", "<script>alert(1)</script>", "<img src=x>", {})
    repository.update_submission(1, "failed", "<b>no</b>")
    repository.close()
    with opened(lab) as portal:
        text = portal.page("/queue")
        assert "<script>alert" not in text
        assert "<img src=x>" not in text
        assert "<b>no</b>" not in text
        assert "&lt;script&gt;alert(1)" in text


def test_a_portal_without_a_service_has_no_queue(lab):
    settings = PortalSettings(str(lab / ".zenturio" / "zenturio.db"), lab)
    with served(settings) as portal:
        assert portal.get("/queue").status_code == 403
        assert "/queue" not in portal.page("/")


def test_an_address_behind_the_proxy_is_told_by_the_proxy_alone():
    people = UserDirectory(USERS, "X-Remote-User", hash_secret("s"))

    def client(**more):
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
        return people.client({"client": ("127.0.0.1", 1)}, Headers(raw=raw))

    forwarded = {"x_forwarded_for": "10.9.9.9, 10.0.0.7"}
    assert client(**forwarded, x_zenturio_proxy="s") == "10.0.0.7"
    assert client(**forwarded, x_zenturio_proxy="t") == "127.0.0.1"
    assert client(**forwarded) == client(x_zenturio_proxy="s") == "127.0.0.1"


# Sessions.


def test_who_logs_out_has_to_come_in_again(lab):
    with opened(lab, UserDirectory(USERS)) as portal:
        alice, other = (entered(portal, "alice", "wonder land") for _ in range(2))
        queue = f"{portal.address}/queue"
        assert "Log out alice" in alice.get(queue).text
        kept = dict(alice.cookies)
        assert post(alice, portal, "/logout").url.endswith("/login")
        assert not alice.cookies
        for browser, known in ((alice, {}), (requests, {"cookies": kept}), (other, {})):
            answer = browser.get(queue, allow_redirects=False, **known)
            assert answer.status_code == (200 if browser is other else 303)
        alice.close()
        other.close()


def test_only_a_page_of_ours_logs_somebody_out(lab):
    with opened(lab, UserDirectory(USERS)) as portal:
        bob = entered(portal, "bob", "builder")
        origin = {"Origin": "https://evil.example"}
        assert bob.post(f"{portal.address}/logout", headers=origin).status_code == 403
        assert bob.get(f"{portal.address}/logout").status_code == 405
        assert bob.get(f"{portal.address}/queue").status_code == 200
        bob.close()


def test_the_owner_logs_out_and_comes_again_by_another_link(lab):
    with opened(lab) as portal:
        assert "a link to open it again" in post(portal.known, portal, "/logout").text
        assert portal.get("/").status_code == 401
        assert portal.known.get(portal.link()).status_code == 200


def test_a_session_ends_when_it_is_old_or_was_not_used_for_long():
    now = [0.0]
    keys = SessionStore(clock=lambda: now[0])
    idle, busy = (f"{keys.cookie}={keys.new_session()}" for _ in range(2))
    while now[0] < SESSION_SECONDS - IDLE_SECONDS:
        now[0] += IDLE_SECONDS - 1
        assert keys.user(busy) is not None
    assert keys.user(idle) is None
    now[0] = SESSION_SECONDS + 1
    assert keys.user(busy) is None
    assert not keys._sessions


def test_the_cookie_is_kept_from_plain_connections_where_browsers_come_by_tls(lab):
    form = {"name": "alice", "password": "wonder land"}
    with opened(lab, UserDirectory(USERS), names=["lab.example.org"]) as portal:

        def cookie(**headers):
            answer = requests.post(
                f"{portal.address}/login", form, allow_redirects=False,
                headers={"Host": "lab.example.org"} | headers,
            )  # fmt: skip
            return answer.headers["Set-Cookie"]

        plain, tls = ({"Origin": f"{kind}://lab.example.org"} for kind in ("http", "https"))
        assert "; Secure" in cookie(**tls)
        assert "; Secure" in cookie(**plain, **{"X-Forwarded-Proto": "https"})
        assert "Secure" not in cookie(**plain)
        link = requests.get(
            portal.link(), headers={"X-Forwarded-Proto": "https"}, allow_redirects=False
        )
        assert "; Secure" in link.headers["Set-Cookie"]


# Passwords as the file keeps them.


def test_a_hashed_password_is_known_again():
    kept = PasswordHash.of("wonder land").text
    assert kept.startswith("scrypt:")
    assert "wonder" not in kept
    assert PasswordHash.parse(kept).matches("wonder land")
    assert not PasswordHash.parse(kept).matches("wonderland")
    assert PasswordHash.of("wonder land").text != kept


@pytest.mark.parametrize(
    "text", ["", "scrypt:", "scrypt:a:b", "md5:YQ==:YQ==", "scrypt:YQ==:YQ==:YQ=="]
)
def test_what_is_no_hashed_password_is_refused(text):
    with pytest.raises(InputError, match="not a hashed password"):
        PasswordHash.parse(text)


# What zenturio.toml says.


def written(folder, text):
    (folder / "zenturio.toml").write_text(text)
    return ServiceConfig.of(folder)


def test_the_file_says_how_the_service_is_to_be(tmp_path):
    kept = USERS["alice"].password
    found = written(
        tmp_path,
        f"""[serve]
policy = "srpt"
places = ["local", "cluster"]
host = "0.0.0.0"
port = 8700
header = "X-Remote-User"
proxy_secret = "{hash_secret("s")}"
proxies = ["10.0.0.7"]
names = ["lab.example.org"]
[serve.users]
alice = {{ role = "run", password = "{kept}" }}
bob = {{}}
""",
    )
    assert found == ServiceConfig(
        "srpt", ("local", "cluster"), "0.0.0.0", 8700, None, "", "X-Remote-User", hash_secret("s"),
        ("10.0.0.7",), ("lab.example.org",), {"alice": USERS["alice"], "bob": ServiceUser("bob")},
    )  # fmt: skip


def test_the_file_names_a_socket_for_a_proxy_without_a_secret(tmp_path):
    lines = '[serve]\nsocket = "zen.sock"\nproxy_user = "www-data"\nheader = "X-Remote-User"\n'
    assert written(tmp_path, lines) == ServiceConfig(
        socket=tmp_path / "zen.sock", proxy_user="www-data", header="X-Remote-User"
    )
    with pytest.raises(InputError) as refusal:
        written(tmp_path, f'{lines}host = "localhost"\nport = 80\nproxies = ["10.0.0.7"]\n')
    assert [each.place.line for each in refusal.value.diagnostics] == [5, 6, 7]
    with pytest.raises(InputError, match="proxy_user needs a socket"):
        written(tmp_path, '[serve]\nproxy_user = "www-data"\n')


def test_a_header_without_a_secret_counts_at_the_socket_alone():
    users = UserDirectory(USERS, "X-Remote-User", at_socket=True)
    headers = Headers({"x-remote-user": "alice"})
    assert users.proxy_user({"client": ("user:33", 0)}, headers).name == "alice"
    for client in ("127.0.0.1", "::1", "10.0.0.7"):
        refused = users.proxy_user({"client": (client, 5)}, headers)
        assert refused == "only the proxy may send X-Remote-User, with its secret"
    users = UserDirectory(USERS, "X-Remote-User", hash_secret("s"), at_socket=True)
    assert isinstance(users.proxy_user({"client": ("user:33", 0)}, headers), str)


def test_a_header_without_a_secret_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"every user of this machine(.|\n)*--proxy-secret"):
        written(tmp_path, '[serve]\nheader = "X-Remote-User"\n')
    with pytest.raises(InputError, match="any process on this machine"):
        UserDirectory(USERS, "X-Remote-User")


def test_without_a_file_or_a_table_it_is_as_usual(tmp_path):
    assert ServiceConfig.of(tmp_path) == ServiceConfig()
    assert written(tmp_path, '[places.a]\nkind = "local"\n') == ServiceConfig()


def test_all_that_is_wrong_is_told_with_its_line(tmp_path):
    with pytest.raises(InputError) as raised:
        written(
            tmp_path,
            """[serve]
policy = "srtp"
places = []
port = 99999
hots = "x"
proxy_secret = "what they share"
proxies = ["here"]
users = { a = { role = "king" }, b = { password = "plain" }, c = 1 }
""",
        )
    told = [(each.place.line, each.message) for each in raised.value.diagnostics]
    assert [line for line, _ in told] == [2, 3, 4, 5, 6, 7, 8, 8, 8]
    assert "what they share" not in str(raised.value)
    assert "no setting 'hots'" in told[3][1]
    assert "plain" not in str(raised.value)


@pytest.mark.parametrize("value", ["[]", "[1]", '[""]', '["local", "local"]', '"local"'])
def test_places_are_distinct_names_in_a_list(tmp_path, value):
    with pytest.raises(InputError, match=r"places = .* is not possible") as raised:
        written(tmp_path, f"[serve]\nplaces = {value}\n")
    assert raised.value.diagnostics[0].hint == 'write places = ["local"], each once'


@pytest.mark.parametrize(
    "password", ["scrypt:", "scrypt:AAAA", "scrypt:A:B:C", "scrypt:ä:AAAA", "x"]
)
def test_a_password_that_could_never_be_right_is_told_at_the_start(password):
    with pytest.raises(InputError, match="password of 'alice': this is not a hashed password"):
        UserDirectory({"alice": ServiceUser("alice", "run", password)})
