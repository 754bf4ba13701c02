"""The web page: what it sends, and how it works in a real browser, by keyboard alone."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import browser
import pytest
import small_corpus
from gnomon.corpus.api import Corpus

pytest.importorskip("starlette", reason="the extra 'mcp' is not installed: no starlette")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page over the small corpus as scope "docs" sees it, with one session."""
    folder = tmp_path_factory.mktemp("web")
    index, store = small_corpus.make(folder / "small.corpus"), folder / "sessions.sqlite"
    corpus = Corpus.open(index, scopes=["docs"])
    session = corpus.session(store=store)
    session.hybrid_search("max_allowed_packet")
    session.read("server/variables.md")
    other = Corpus.open(index, "somebody else").session(store=store)
    other.read("secret/plan.md")
    command = [sys.executable, "-m", "gnomon", "serve", str(index), "--web", "--port", "0"]
    command += ["--scope", "docs", "--sessions", str(store)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        yield line.split()[-1]
        server.terminate()
        server.stderr.read()


def get(url: str, **headers: str) -> tuple[int, Any, bytes]:
    """Status, headers and body; waits for a server that is still starting."""
    request = urllib.request.Request(
        url, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    for _ in range(200):
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the server did not come up")


def test_the_page_comes_with_a_policy_under_which_nothing_foreign_runs(page: str) -> None:
    for name, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        status, headers, body = get(page + name)
        assert status == 200
        assert headers["Content-Type"].startswith(kind)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        text = body.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert "innerHTML" not in text
        assert "style=" not in text


def test_the_interface_answers_in_json_and_says_what_was_wrong(page: str) -> None:
    status, headers, body = get(page + "api/search?q=zebra_option")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["items"][0]["path"] == "hostile.md"
    for wrong, said in (
        ("search", "q is missing"),
        ("search?q=x&mode=psychic", "mode must be"),
        ("read?target=a&around=-1", "around must be"),
        ("session?id=nobody", "no session"),
        ("search?q=" + "x" * 20_000, "at most"),
    ):
        status, _, body = get(f"{page}api/{wrong}")
        assert status == 400, wrong
        assert said in json.loads(body)["message"]


def test_a_name_that_was_rebound_to_this_machine_gets_no_mcp(page: str) -> None:
    status, _, _ = get(page + "mcp", Host="evil.example")
    assert status in (400, 403, 421)


def test_the_page_shows_only_what_its_scope_and_principal_may_see(page: str) -> None:
    _, _, body = get(page + "api/search?q=swordfish_option")
    answer = json.loads(body)
    assert answer["report"]["terms"] == [{"term": "swordfish_option", "df": 0}]
    assert "secret" not in json.dumps(answer.get("items", []))
    _, _, body = get(page + "api/sessions")
    sessions = json.loads(body)["sessions"]
    assert [one["calls"] for one in sessions] == [2]
    _, _, body = get(f"{page}api/session?id={sessions[0]['id']}")
    calls = json.loads(body)["calls"]
    assert [call["tool"] for call in calls] == ["hybrid_search", "read"]
    assert all(call["same"] for call in calls)


@pytest.fixture(scope="module")
def window(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    if browser.PROGRAM is None:
        pytest.skip("no Chromium is installed (chromium, chromium-browser or google-chrome)")
    get(page)
    opened = browser.Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


def test_a_search_by_keyboard_alone(window: browser.Browser, page: str) -> None:
    window.go(page)
    window.wait("document.activeElement?.id === 'query'")
    window.write("max_allowed_packet")
    window.key("Enter")
    window.wait("document.querySelectorAll('#results > li').length > 1")
    assert window.run(
        "[...document.querySelectorAll('mark')].some(m => m.textContent.includes('max'))"
    )
    assert "shown" in window.run("document.getElementById('status').textContent")
    window.run("document.activeElement.blur()")
    window.key("j")  # the first result
    window.key("j")
    window.key("k")
    focused = "document.activeElement.closest('li')?.getAttribute('aria-current')"
    assert window.run(focused) == "true"
    window.key("Enter")  # reads it
    window.wait("document.querySelector('#text article pre')?.textContent.length > 20")
    window.key("o")
    window.wait("document.querySelectorAll('#outline li').length > 1")
    window.key("g")
    window.wait("document.querySelectorAll('#graph svg [role=button]').length > 1")
    window.run("document.querySelector('#graph svg [role=button][data-node]').focus()")
    window.key("s")
    window.wait("document.querySelectorAll('#sessions li').length === 1")
    window.run("document.querySelector('#sessions li button').focus()")
    window.key("Enter")
    window.wait("document.querySelector('#sessions h3')?.textContent.startsWith('1 of 2')")
    window.key("/")
    assert window.run("document.activeElement.id") == "query"
    assert window.errors == []
    assert window.hosts == {page.split("/")[2]}


def test_what_the_corpus_holds_is_shown_as_text_and_never_runs(
    window: browser.Browser, page: str
) -> None:
    window.go(page + "?hostile#q=zebra_option&mode=sparse")
    window.wait("document.querySelectorAll('#results > li').length > 0")
    window.run("document.querySelector('#results button').click()")
    window.wait("document.querySelector('#text article')?.textContent.includes('hacked')")
    assert window.run("window.hacked") is None
    assert window.run("document.querySelectorAll('main script, main img').length") == 0
    # Marks count characters: an emoji of several code points before the word does not move them.
    marked = window.run("[...document.querySelectorAll('#results mark')].map(m => m.textContent)")
    assert set(marked) == {"zebra_option"}
    assert window.errors == []


def test_a_search_that_finds_nothing_says_why(window: browser.Browser, page: str) -> None:
    window.go(page + "?again#q=max_alowed_packet&mode=exact")
    window.wait("document.getElementById('report').textContent.includes('nothing because')")
    assert "max_allowed_packet" in window.run("document.getElementById('report').textContent")
    assert window.run("document.querySelector('#results li.relaxed') !== null")


def test_everything_that_can_be_used_has_a_name(window: browser.Browser, page: str) -> None:
    window.go(page + "?names#q=connection&mode=auto")
    window.wait("document.querySelectorAll('#results > li').length > 0")
    nameless = window.run(
        "[...document.querySelectorAll('button, input, select, [role=button], [role=tabpanel]')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label')"
        " || e.getAttribute('aria-labelledby') || e.labels?.length)).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert window.run("document.documentElement.lang") == "en"


def raw(page: str, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of a request whose path is sent as it stands."""
    address = urllib.parse.urlsplit(page)
    connection = http.client.HTTPConnection(address.netloc, timeout=20)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/search?q=pool", "/api/sessions", "/mcp"])
def test_a_site_that_rebinds_its_name_gets_nothing(page: str, path: str) -> None:
    get(page)
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1", ""):
        status, body = raw(page, "GET", path, Host=host)
        assert (status, body) == (421, b"this server answers to this machine's names\n")
    for origin in ("http://evil.example", "null", "http://localhost.evil.example"):
        status, body = raw(page, "GET", path, Origin=origin)
        assert status == 403
        assert b"pool" not in body
    own = page.rstrip("/")
    if path != "/mcp":
        assert raw(page, "GET", path, Origin=own)[0] == 200
        assert raw(page, "GET", path, Host="localhost:1")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/page.js/../../x"),
        *("/web/page.js", "/%2e%2e/mcp_server.py", "/page.js%00.css", "/api/../page.py"),
    ],
)
def test_no_path_leads_out_of_the_page(page: str, path: str) -> None:
    get(page)
    assert raw(page, "GET", path)[0] == 404


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../../etc/passwd", "secret/plan.md", "file:///etc/passwd", "\x00", "doc:"],
)
def test_reading_reaches_documents_of_the_scope_only(page: str, target: str) -> None:
    status, _, body = get(page + "api/read?" + urllib.parse.urlencode({"target": target}))
    answer = json.loads(body)
    assert (status, answer.get("items", [])) == (200, [])
    assert b"root:" not in body
    assert b"swordfish" not in body


def test_requests_that_would_change_or_overload_are_refused(page: str) -> None:
    get(page)
    for method in ("POST", "PUT", "DELETE"):
        assert raw(page, method, "/api/search?q=pool")[0] == 405
    assert get(page + "api/search?q=" + "a" * 10_001)[0] == 400
    forged = "2-999999999999999-" + "0" * 16
    body = json.loads(get(page + f"api/search?q=pool&cursor={forged}")[2])
    assert body["report"]["problem"]["code"] == "cursor_invalid"
    shown = get(page + "api/search?q=%00%1b%5d0%3bx%07")[2]
    assert b"\x1b" not in shown
    assert b"\x00" not in shown
