"""Access control of Studio: tokens, sessions, hosts, CSRF and response headers."""

from __future__ import annotations

import asyncio
import hashlib
from unittest.mock import MagicMock

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import server
from langchain_agentmem.studio.application import application, form_route, redirect
from langchain_agentmem.studio.guard import Guard

HOST = "127.0.0.1:8642"
HERE = {"Origin": f"http://{HOST}"}


@pytest.fixture
def memory():
    with AgentMemory() as memory:
        yield memory


def client_of(app, host=HOST) -> TestClient:
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False)


@pytest.fixture
def studio(memory):
    return application(memory, user="ada", token="secret", hosts={HOST})


class TestToken:
    def test_token_opens_a_session_and_leaves_the_url(self, studio):
        client = client_of(studio)
        answer = client.get("/threads", params={"token": "secret", "q": "a b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/threads?q=a+b")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "secret" not in cookie
        assert client.get("/").status_code == 200

    def test_wrong_token_or_head_request_keeps_token_valid(self, studio):
        for wrong in ("", "secre", "secrets", "%00", "\u00e9"):
            assert client_of(studio).get("/", params={"token": wrong}).status_code == 403, wrong
        assert client_of(studio).head("/?token=secret").status_code == 403
        assert client_of(studio).get("/?token=secret").status_code == 303

    def test_redirect_never_leaves_the_host(self, studio):
        async def ask(path):
            sent = []

            async def send(message):
                sent.append(message)

            scope = {
                "type": "http", "method": "GET", "path": path, "query_string": b"token=secret", "scheme": "http",
                "headers": [(b"host", HOST.encode())], "root_path": "",
            }  # fmt: skip
            await studio(scope, None, send)
            return dict(sent[0]["headers"])[b"location"]

        assert asyncio.run(ask("//evil.example/x")) == b"/evil.example/x"

    def test_forged_session_cookie_is_refused(self, studio):
        client = client_of(studio)
        client.get("/?token=secret")
        [name] = [each.name for each in client.cookies.jar]
        other = client_of(studio)
        for made_up in ("", "x", '"', "\\", "a" * 10_000):
            other.cookies.clear()
            other.cookies.set(name, made_up)
            assert other.get("/").status_code == 403

    def test_foreign_cookies_do_not_hide_the_session(self, studio):
        client = client_of(studio)
        cookie = client.get("/?token=secret").headers["set-cookie"].split(";")[0]
        client.cookies.clear()
        assert client.get("/", headers={"Cookie": f'theirs={{"a": "b, c"}}; {cookie}'}).status_code == 200

    def test_studios_on_different_ports_have_separate_sessions(self, memory, studio):
        first = client_of(studio)
        second = client_of(application(memory, user="ada", token="other", hosts={HOST}))
        first.get("/?token=secret")
        second.cookies.jar = first.cookies.jar  # as a browser has one for all ports of a host
        assert second.get("/").status_code == 403
        assert second.get("/?token=other").status_code == 303
        assert [each.get("/").status_code for each in (first, second)] == [200, 200]


class TestHost:
    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:8642.evil.example", ""])
    def test_unknown_host_is_refused(self, studio, host):
        client = client_of(studio)
        client.get("/?token=secret")
        assert client.get("/", headers={"Host": host}).status_code == 421

    @pytest.mark.parametrize(
        ("host", "port", "known"),
        [("localhost", 80, "localhost"), ("::1", 8642, "[::1]:8642"), ("fd00::1", 80, "[fd00::1]")],
    )
    def test_host_matches_the_address_in_browsers(self, memory, monkeypatch, host, port, known):
        served = []
        listening = MagicMock()
        listening.getsockname.return_value = (host, port)
        monkeypatch.setattr(server, "_open_listener", lambda *_: listening)
        monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: served.append(self.config.app))
        server.serve(memory, host=host, port=port, user="ada", announce=lambda _: None)
        assert client_of(served[0]).get("/", headers={"Host": known}).status_code == 403
        assert client_of(served[0]).get("/", headers={"Host": "evil.example"}).status_code == 421


def changeable(memory, **options):
    async def change(request: Request, fields):
        request.app.state.changed = dict(fields)
        return redirect(request, "/", done=fields["to"])

    guard = application(memory, user="ada", **options)
    guard._app.router.routes.append(form_route("/change", change))
    return guard


class TestWriteRequests:
    @pytest.fixture
    def client(self, memory):
        client = client_of(changeable(memory))
        client.get("/")
        return client

    def csrf(self, client):
        [cookie] = [each.value for each in client.cookies.jar]
        return hashlib.sha256(cookie.encode()).hexdigest()

    def test_form_with_csrf_token_is_accepted(self, client):
        answer = client.post("/change", data={"csrf": self.csrf(client), "to": "a b"}, headers=HERE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/?done=a+b")

    @pytest.mark.parametrize("csrf", [None, "", "x", "0" * 64, "\u00e9"])
    def test_form_without_csrf_token_is_refused(self, client, csrf):
        fields = {"to": "x"} if csrf is None else {"to": "x", "csrf": csrf}
        assert client.post("/change", data=fields, headers=HERE).status_code == 403

    def test_cross_site_form_is_refused(self, client):
        others = [{"Origin": origin} for origin in ("null", "http://evil.example", "http://127.0.0.1:9")]
        sites = [{**HERE, "Sec-Fetch-Site": site} for site in ("cross-site", "same-site")]
        fields = {"csrf": self.csrf(client), "to": "x"}
        for headers in ({}, *others, *sites):
            assert client.post("/change", data=fields, headers=headers).status_code == 403, headers

    def test_csrf_token_of_another_session_is_refused(self, memory, client):
        other = client_of(changeable(memory))
        other.get("/")
        assert other.post("/change", data={"csrf": self.csrf(client), "to": "x"}, headers=HERE).status_code == 403

    def test_undecodable_form_value_is_refused(self, client):
        body = b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n+2AA-\r\n--x--\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=x; charset=utf-7"}
        assert client.post("/change", content=body, headers={**HERE, **kind}).status_code == 403

    def test_read_only_memory_refuses_changes(self, tmp_path):
        AgentMemory(tmp_path / "a.db").close()
        with AgentMemory(tmp_path / "a.db", read_only=True) as memory:
            client = client_of(changeable(memory))
            assert "read-only" in client.get("/").text
            answer = client.post("/change", data={"csrf": self.csrf(client), "to": "x"}, headers=HERE)
            assert (answer.status_code, "nothing can be changed" in answer.text) == (403, True)


class TestResponseHeaders:
    def test_responses_have_strict_policy_and_are_not_cached(self, memory):
        client = client_of(application(memory, user="ada"))
        for path in ("/", "/nowhere", "/static/style.css", "/static/nothing.css", "/?token=wrong"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
        assert client.get("/").headers["cache-control"] == "no-store"

    def test_static_paths_cannot_reach_other_files(self, memory):
        client = client_of(application(memory, user="ada"))
        for name in ("..%2fapplication.py", "%2e%2e%2fguard.py", "/etc/passwd", "htmx.LICENSE.txt"):
            assert client.get(f"/static/{name}").status_code == 404, name


class TestMount:
    def test_links_and_cookies_include_the_mount_path(self, memory):
        outer = Starlette(routes=[Mount("/memory", memory.studio(user="ada"))])
        client = client_of(outer)
        answer = client.get("/memory/")
        assert 'href="/memory/threads"' in answer.text
        assert "Path=/memory" in answer.headers["set-cookie"]
        assert client.get("/memory/static/style.css").status_code == 200

    def test_mount_path_may_have_any_characters(self, memory):
        client = client_of(Starlette(routes=[Mount("/{who}", memory.studio(user="ada"))]))
        answer = client.get("/%C3%A4%20b%3Fc/")
        assert 'href="/%C3%A4%20b%3Fc/threads"' in answer.text
        assert "Path=/%C3%A4%20b%3Fc;" in answer.headers["set-cookie"]

    def test_user_comes_from_the_host_application(self, memory):
        studio = memory.studio(user=lambda scope: scope["user_name"])

        async def known(scope, receive, send):
            await studio({**scope, "user_name": "<Ada>"}, receive, send)

        assert "&lt;Ada&gt;" in client_of(known).get("/").text

    def test_non_http_scopes_are_passed_on(self):
        seen = []

        async def app(scope, receive, send):
            seen.append(scope["type"])

        for kind in ("lifespan", "websocket"):
            asyncio.run(Guard(app)({"type": kind}, None, None))
        assert seen == ["lifespan", "websocket"]


def test_unknown_page_is_not_found(memory):
    answer = client_of(application(memory, user="ada")).get("/nowhere")
    assert (answer.status_code, "<h1>" in answer.text) == (404, True)


def test_user_without_name_is_shown_as_somebody(memory, monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert "somebody" in client_of(application(memory)).get("/").text
