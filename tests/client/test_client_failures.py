"""Servers that are not there, are something else, or do not answer; and the key, which nobody sees."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import warnings

import httpx
import pytest
from answering import Replies, problem
from client_time import KEY, Time, client_of
from served_project import ServedProject
from serving import ScriptedServer, http_answer

from potato_ray import errors
from potato_ray.client import (
    AccessRefused,
    BadRequest,
    Client,
    ClientError,
    Conflict,
    KeyInTheClear,
    NotFound,
    ProtocolError,
    Run,
    RunRecord,
    ServerError,
    ServerUnavailable,
    StartRefused,
    TooManyRequests,
    flows,
)
from potato_ray.client.calls import CONTROLLER_S, Call
from potato_ray.client.server_events import ServerEvent

SECRET = "s3cret-key-that-nobody-sees"


def status_error(answer: httpx.Response, patience_s: float = 0) -> ClientError:
    with client_of(Replies(answer), patience_s=patience_s) as client, pytest.raises(ClientError) as failure:
        client.status()
    return failure.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, AccessRefused),
        (403, AccessRefused),
        (404, NotFound),
        (409, Conflict),
        (413, BadRequest),
        (429, TooManyRequests),
        (500, ServerError),
        (503, ServerUnavailable),
    ],
)
def test_each_problem_has_a_class_and_keeps_its_words(status: int, kind: type[ClientError]) -> None:
    answer = problem(status, "some_code", {"retry-after": "7"}, evidence="Seen.", next_step="Do it.")
    failure = status_error(answer)
    assert type(failure) is kind
    assert (failure.status, failure.code, failure.retry_after_s) == (status, "some_code", 7)
    assert (failure.message, failure.evidence) == ("It says some_code.", "Seen.")
    assert failure.next_step == "Do it."


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "admin_key_wrong", AccessRefused),
        (429, "too_many_guesses", TooManyRequests),
        (413, "body_too_large", BadRequest),
        (429, "queue_full", StartRefused),
    ],
)
def test_not_all_that_keeps_a_start_from_being_made_is_a_refused_start(
    status: int, code: str, kind: type[ClientError]
) -> None:
    assert type(status_error(problem(status, code, started=False))) is kind


def test_the_classes_are_those_of_the_server_too() -> None:
    assert issubclass(NotFound, errors.NotFound)
    assert issubclass(Conflict, errors.Conflict)


def test_an_error_survives_pickling() -> None:
    failure = status_error(problem(429, "slow_down", {"retry-after": "7"}))
    again = pickle.loads(pickle.dumps(failure))  # noqa: S301 - our own bytes
    assert (type(again), again.status, again.retry_after_s) == (TooManyRequests, 429, 7)
    assert str(again) == str(failure)


@pytest.mark.parametrize("value", ["soon", "-1", "", "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_a_retry_after_of_any_form_is_no_trouble(value: str) -> None:
    failure = status_error(problem(503, "x", {"retry-after": value}))
    assert failure.retry_after_s in (None, 0)


@pytest.mark.parametrize("status", [200, 401, 502])
def test_a_page_of_html_is_no_answer_of_ours(status: int) -> None:
    page = httpx.Response(status, html="<html><h1>Welcome to the proxy</h1></html>")
    failure = status_error(page)
    assert "Welcome to the proxy" in failure.evidence
    assert failure.status == status
    assert failure.next_step


def test_json_of_another_program_is_no_answer_of_ours() -> None:
    with client_of(Replies(httpx.Response(200, json=["a"]))) as client, pytest.raises(ProtocolError):
        client.status()
    with client_of(Replies(httpx.Response(200, json={"runs": {}}))) as client, pytest.raises(ProtocolError):
        client.runs()


def test_a_redirect_is_not_followed() -> None:
    away = httpx.Response(307, headers={"location": "https://evil.example/"})
    replies = Replies(away)
    with client_of(replies) as client, pytest.raises(ProtocolError, match="redirects are not followed"):
        client.status()
    assert len(replies.requests) == 1


def test_a_refused_connection_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", patience_s=0.1) as client, pytest.raises(ServerUnavailable) as no:
        client.status()
    assert no.value.code == "server_unreachable"
    assert f"http://127.0.0.1:{port}" in no.value.message


def test_a_server_that_says_nothing_is_given_up() -> None:
    with (
        ScriptedServer([None]) as server,
        Client(server.url, timeout_s=0.2, patience_s=0) as client,
        pytest.raises(ServerUnavailable, match=r"did not answer within 0\.2 s") as slow,
    ):
        client.status()
    assert slow.value.code == "server_timeout"


def test_an_answer_that_is_cut_is_said() -> None:
    cut = http_answer(b'{"state": "id', content_length="400")
    with (
        ScriptedServer([cut]) as server,
        Client(server.url, patience_s=0) as client,
        pytest.raises(ServerUnavailable) as lost,
    ):
        client.status()
    assert lost.value.code == "connection_lost"


def test_what_only_reads_is_tried_again() -> None:
    time = Time()
    replies = Replies(
        httpx.ReadError("reset"), problem(503, "x"), httpx.Response(200, json={"state": "idle"})
    )
    with client_of(replies, time) as client:
        assert client.status() == {"state": "idle"}
    assert time.slept == [0.25, 0.5]


def test_a_command_gets_the_time_that_it_needs() -> None:
    with client_of(Replies(), timeout_s=5) as client:
        wire = client._driver.wire
        from potato_ray.client import calls

        assert wire.request(calls.cancel("r")).extensions["timeout"]["read"] == CONTROLLER_S
        assert wire.request(calls.status()).extensions["timeout"] == {
            "connect": 5,
            "read": 5,
            "write": 5,
            "pool": 5,
        }


def test_without_the_key_access_is_refused(project: ServedProject) -> None:
    for key in (None, "wrong"):
        with Client(project.url, key) as client, pytest.raises(AccessRefused) as refused:
            client.status()
        assert refused.value.status in (401, 403)
        assert refused.value.next_step


def test_a_program_without_the_key_is_told_how_to_give_it(project: ServedProject) -> None:
    with Client(project.url, None) as client, pytest.raises(AccessRefused) as refused:
        client.status()
    assert refused.value.code == "admin_key_required"
    assert refused.value.next_step.startswith("Give the admin key: api_key=... or POTATO_ADMIN_API_KEY.")
    assert "/admin/login" not in refused.value.next_step


def test_the_environments_key_is_used(project: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTATO_ADMIN_API_KEY", KEY)
    with Client(project.url) as client:
        assert client.runs() == []


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://h", "http://", "http://h:port", "unix:/tmp/x", "http://h:99999"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ClientError) as refused:
        Client(url)
    assert refused.value.code == "bad_url"


@pytest.mark.parametrize("key", ["two\nlines", "a\0b", "a\x7fb", "half \ud800 of one"])
def test_a_key_that_no_header_carries_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ClientError) as refused:
        Client("http://127.0.0.1:1", key)
    assert refused.value.code == "key_unusable"
    assert key not in str(refused.value)


def test_a_key_beyond_ascii_is_sent_in_utf_8(project: ServedProject) -> None:
    project.app.state.keeper._key = "schlüssel 鍵".encode()
    with Client(project.url, "schlüssel 鍵") as client:
        assert client.runs() == []


def test_a_key_of_the_environment_that_is_no_utf_8_is_sent_as_it_is(
    project: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"POTATO_ADMIN_API_KEY", b"schl\xfcssel")
    project.app.state.keeper._key = b"schl\xfcssel"
    with Client(project.url) as client:
        assert client.runs() == []


def test_what_no_request_can_hold_is_no_lost_connection(project: ServedProject) -> None:
    with Client(project.url, KEY) as client:
        sent = Call("GET", "/health", headers={"X-Odd": "two\nlines"})
        with pytest.raises(BadRequest, match="cannot be sent as it is"):
            client._driver.run(flows.plain(sent, client._patience))


DEEP = "[" * 100_000


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_that_is_nested_too_deeply_is_no_answer_of_ours(status: int) -> None:
    failure = status_error(httpx.Response(status, content=DEEP))
    assert failure.status == status
    assert "begins with: [[" in failure.evidence


def test_a_prediction_that_is_nested_too_deeply_is_said() -> None:
    headers = {"content-type": "application/x-ndjson"}
    answer = httpx.Response(200, content=DEEP + "\n", headers=headers)
    with client_of(Replies(answer)) as client, pytest.raises(ProtocolError, match="is no JSON"):
        list(Run(client._driver, client._patience, RunRecord("r")).predictions())


def test_an_event_that_is_nested_too_deeply_holds_nothing() -> None:
    assert ServerEvent("status", DEEP, "1").json() is None


def test_a_servers_address_may_have_a_path() -> None:
    replies = Replies(httpx.Response(200, json={}))
    with Client("https://h.example/potato/", "k", transport=httpx.MockTransport(replies)) as client:
        client.status()
    assert str(replies.requests[0].url) == "https://h.example/potato/admin/training/api/status"


@pytest.mark.parametrize("url", ["http://gpu.example.org:8000", "http://10.0.0.7"])
def test_a_key_in_the_clear_is_warned_of_once(url: str) -> None:
    replies = Replies(*[httpx.Response(200, json={}) for _ in range(2)])
    with pytest.warns(KeyInTheClear, match="plain http") as warned:
        client = Client(url, SECRET, transport=httpx.MockTransport(replies))
    with client:
        client.status()
        client.status()
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert SECRET not in str(warned[0].message)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000", "https://gpu.example.org"]
)
def test_a_key_that_nobody_can_read_is_not_warned_of(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client(url, SECRET).close()


def test_the_key_is_in_no_repr_error_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [http_answer(b"<html>", "text/html", "404 Not Found"), b"nonsense\r\n\r\n"]
    seen = []
    with ScriptedServer(answers) as server:
        url = server.url.replace("http://", "http://user:pass@")
        with Client(url, SECRET, patience_s=0) as client:
            for _ in range(2):
                with pytest.raises(ClientError) as failure:
                    client.status()
                seen += [str(failure.value), repr(failure.value), repr(vars(failure.value))]
            seen += [repr(client), repr(client._driver.wire), client.url]
    text = " ".join([*seen, caplog.text])
    assert SECRET not in text
    assert "pass@" not in text
    assert all(f"x-api-key: {SECRET}".encode() in request.lower() for request in server.requests)


def test_the_key_goes_to_no_proxy_on_the_way_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ScriptedServer([http_answer(b'{"state": "proxied"}')]) as proxy,
        ScriptedServer([http_answer(b'{"state": "here"}')]) as server,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with Client(server.url, SECRET) as client:
            assert client.status() == {"state": "here"}
    assert proxy.requests == []
