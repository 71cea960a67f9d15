"""The agent's requests: what they carry, what becomes of every kind of answer, and of none."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import NamedTuple

import pytest
import wire_server as wire
from private_authority import PrivateAuthority
from wire_server import WireServer

from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.errors import (
    AgentError,
    AgentMisconfigured,
    Misdirected,
    ProtocolMismatch,
    Refused,
    ServerUnreachable,
    Stopped,
    WrongToken,
)
from potato_ray.agent.line import open_line

TOKEN = "prt_planted-token"


class Job(NamedTuple):
    run_id: str = "run-1"
    attempt: int = 3
    lease: str = "planted-lease"


JOB = Job()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


OPENED = []


@pytest.fixture(autouse=True)
def close_all():
    yield
    while OPENED:
        OPENED.pop().close()


def connect(server, **options):
    options = {"timeout_s": 5.0, "connect_s": 5.0, "pace_s": 5.0, **options}
    OPENED.append(ServerConnection(getattr(server, "url", server), TOKEN, **options))
    return OPENED[-1]


def beat(connection):
    return connection.progress(JOB, 0, [], [], True)


def failure_of(*answers, **options):
    """The error that a progress request raises when it is answered like this."""
    with WireServer(*answers) as server, pytest.raises(AgentError) as raised:
        beat(connect(server, **options))
    assert TOKEN not in str(raised.value)
    assert JOB.lease not in str(raised.value)
    return raised.value


def test_a_request_carries_version_token_attempt_and_lease():
    with WireServer(wire.json_of({"cancel": False, "next_seq": 1})) as server:
        answer = connect(server).progress(JOB, 0, [{"event": "log"}], [], True)
    seen = server.seen[0]
    assert answer == {"cancel": False, "next_seq": 1}
    assert (seen.method, seen.target) == ("POST", "/api/training/jobs/run-1/progress")
    assert seen.body == {"first_seq": 0, "events": [{"event": "log"}], "notes": [], "alive": True}
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["potato-ray-protocol"] == "1"
    assert seen.headers["potato-ray-attempt"] == "3"
    assert seen.headers["potato-ray-lease"] == "planted-lease"
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"


def test_a_claim_gives_a_job_or_none():
    with WireServer(wire.giving(204), wire.json_of({"run_id": "run-1"})) as server:
        connection = connect(server)
        assert connection.claim("11", 0, {"host": "gpu1"}) is None
        assert connection.claim("11", 0, {"host": "gpu1"}) == {"run_id": "run-1"}
    assert server.seen[0].body == {"lease": "11", "wait_s": 0, "agent": {"host": "gpu1"}}


def test_a_result_is_told():
    with WireServer(wire.giving(204)) as server:
        connect(server).result(JOB, {"exit": None})
    assert server.seen[0].target == "/api/training/jobs/run-1/result"
    assert server.seen[0].body == {"exit": None}


def test_numbers_that_are_no_json_are_sent_as_null():
    with WireServer(wire.json_of({})) as server:
        connect(server).progress(JOB, 0, [{"loss": float("nan")}], [], True)
    assert server.seen[0].body["events"] == [{"loss": None}]


def test_the_server_may_lie_under_a_path():
    with WireServer(wire.json_of({})) as server:
        beat(connect(server.url + "/potato/"))
    assert server.seen[0].target == "/potato/api/training/jobs/run-1/progress"


def test_a_server_on_ipv6_is_reached():
    with WireServer(wire.json_of({}), host="::1") as server:
        beat(connect(server))
    assert server.seen[0].headers["host"] == f"[::1]:{server.port}"


def test_requests_one_after_the_other_share_a_connection():
    with WireServer(wire.json_of({})) as server:
        connection = connect(server)
        for _ in range(3):
            beat(connection)
        connection.close()
    assert len({seen.connection for seen in server.seen}) == 1


def test_a_kept_connection_that_the_server_has_ended_is_replaced():
    with WireServer(wire.json_of({}), wire.hang_up, wire.json_of({"cancel": True})) as server:
        connection = connect(server)
        beat(connection)
        assert beat(connection) == {"cancel": True}
    assert len({seen.connection for seen in server.seen}) == 2


def test_a_connection_that_was_idle_for_long_is_not_used_again():
    now = [0.0]
    with WireServer(wire.json_of({})) as server:
        connection = connect(server, clock=lambda: now[0])
        beat(connection)
        now[0] = 60.0
        beat(connection)
    assert len({seen.connection for seen in server.seen}) == 2


def test_progress_goes_on_while_a_long_poll_waits():
    with WireServer(wire.hang, wire.json_of({"cancel": False})) as server:
        connection = connect(server)
        stop = threading.Event()
        ended = []
        poll = threading.Thread(target=lambda: ended.append(_error(connection.claim, "1", 50, {}, stop)))
        poll.start()
        _wait_for(lambda: server.seen)
        assert beat(connection) == {"cancel": False}
        stop.set()
        poll.join(5.0)
    assert isinstance(ended[0], Stopped)


def _error(do, *arguments):
    try:
        do(*arguments)
    except AgentError as failure:
        return failure


def _wait_for(condition):
    deadline = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (wire.hang, "server_too_slow"),
        (wire.drip, "server_too_slow"),
        (wire.endless, "answer_too_long"),
        (wire.hang_up, "server_unreachable"),
        (wire.raw(b"\xff\xfe nonsense\r\n\r\n"), "not_our_server"),
        (wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), "answer_torn"),
        (wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), "answer_torn"),
        (wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{"), "answer_too_long"),
        (wire.raw(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"), "not_our_server"),
        (wire.giving(200, b"\xff\xfe{}"), "unreadable_answer"),
        (wire.giving(200, b'{"next_seq": NaN}'), "unreadable_answer"),
        (wire.giving(200, b"[" * 100_000), "unreadable_answer"),
        (wire.giving(200, b"<html>Log in to the hotel's network</html>"), "unreadable_answer"),
        (wire.giving(502, b"<html>Bad gateway</html>"), "server_trouble"),
        (wire.problem(507, "disk_full"), "disk_full"),
        (wire.problem(429, "too_many"), "too_many"),
        (wire.giving(404, b"<html>Not here</html>"), "not_our_server"),
        (wire.giving(403, b""), "not_our_server"),
    ],
)
def test_what_may_be_over_later_is_an_unreachable_server(answer, code):
    failure = failure_of(answer, timeout_s=0.5)
    assert isinstance(failure, ServerUnreachable)
    assert failure.code == code


def test_a_server_that_is_not_there_is_named():
    with WireServer(wire.hang) as server:
        url = server.url
    with pytest.raises(ServerUnreachable, match=f"{url} cannot be reached: Connection refused"):
        beat(connect(url))


def test_a_host_that_nobody_knows_is_named():
    with pytest.raises(ServerUnreachable, match=r"http://no\.such\.invalid cannot be looked up"):
        beat(connect("http://no.such.invalid"))


def test_a_server_in_trouble_says_when_to_come_back():
    failure = failure_of(wire.giving(503, b"", Retry_After="7"))
    assert failure.retry_after_s == 7.0


def test_a_redirect_is_not_followed():
    with WireServer(wire.json_of({})) as other:
        failure = failure_of(wire.giving(302, b"", Location=other.url))
        assert isinstance(failure, Misdirected)
        assert failure.code == "redirected"
        assert other.url in failure.evidence
        assert other.seen == []


def test_a_refusal_is_told_with_all_that_it_says():
    failure = failure_of(wire.problem(409, "events_missing", next_step="Send them.", next_seq=4))
    assert isinstance(failure, Refused)
    assert (failure.status, failure.code, failure.next_step) == (409, "events_missing", "Send them.")
    assert failure.body["next_seq"] == 4


def test_an_address_at_which_the_server_has_nothing_says_to_check_the_prefix():
    misplaced = failure_of(wire.problem(404, "not_found"))
    assert isinstance(misplaced, Misdirected)
    assert "Check --server and its prefix." in str(misplaced)


def test_a_limit_of_a_proxy_is_told_with_the_name_that_the_proxy_gives_itself():
    failure = failure_of(wire.unread(wire.giving(413, b"<html>Too large</html>")))
    assert isinstance(failure, Refused)
    assert (failure.status, failure.code) == (413, "refused")
    assert "not as a potato_ray server" in failure.message
    assert "It calls itself BaseHTTP" in failure.evidence


def test_a_wrong_token_is_told_apart():
    refused = failure_of(wire.problem(401, "unauthorized"))
    assert isinstance(refused, WrongToken)
    assert str(refused).startswith("The server refused the token: it is unknown there")
    assert isinstance(failure_of(wire.giving(401, b"")), WrongToken)


def knowing(token):
    """Lets nobody in without this token."""

    def give(handler):
        known = handler.headers.get("Authorization") == f"Bearer {token}"
        (wire.json_of({"next_seq": 0}) if known else wire.problem(401, "agent_token_refused"))(handler)

    return give


def token_file(folder, text, mode=0o600):
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_that_was_replaced_in_its_file_is_taken_up(tmp_path):
    with WireServer(knowing("prt_new")) as server:
        connection = connect(server, token_file=token_file(tmp_path, TOKEN + "\n"))
        with pytest.raises(WrongToken):
            beat(connection)
        token_file(tmp_path, "prt_new\n")
        for _ in range(2):
            assert beat(connection) == {"next_seq": 0}
    assert [seen.headers["authorization"][-4:] for seen in server.seen] == ["oken", "oken", "_new", "_new"]


def test_predictions_and_files_go_with_the_token_that_was_replaced_too(tmp_path):
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_bytes(b"x" * 200_000)
    path = token_file(tmp_path, "prt_new")
    with WireServer(knowing("prt_new")) as server:
        connect(server, token_file=path).put_predictions(JOB, predictions)
        connect(server, token_file=path).fetch("/file").close()
    assert server.seen[1].raw == predictions.read_bytes()


@pytest.mark.parametrize(
    ("text", "mode", "why"), [("prt_new", 0o644, "mode is 0644"), ("", 0o600, "is empty")]
)
def test_a_new_token_that_cannot_be_used_is_said_with_the_refusal(tmp_path, text, mode, why):
    failure = failure_of(knowing("prt_new"), token_file=token_file(tmp_path, text, mode))
    assert isinstance(failure, WrongToken)
    assert why in failure.evidence


def test_a_token_file_that_is_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert isinstance(failure_of(knowing("prt_new"), token_file=pipe), WrongToken)


def test_a_server_of_another_version_is_named_with_both_versions():
    answers = wire.json_of({"error_code": "unknown_protocol"}, 400, Potato_Ray_Protocol="2")
    failure = failure_of(answers)
    assert isinstance(failure, ProtocolMismatch)
    assert "version 1 " in failure.message
    assert "version 2" in failure.message


def test_a_good_answer_in_another_version_is_not_believed():
    assert isinstance(failure_of(wire.json_of({}, Potato_Ray_Protocol="2")), ProtocolMismatch)


def test_secrets_that_a_server_repeats_get_into_no_message():
    failure = failure_of(wire.giving(404, f"{TOKEN} {JOB.lease}".encode()))
    assert failure.evidence == "It begins with: … …"
    failure_of(wire.problem(409, TOKEN, evidence=f"{TOKEN}\n{JOB.lease}"))
    failure_of(wire.giving(302, b"", Location=f"http://other/?token={TOKEN}"))


def test_predictions_are_sent_with_length_and_digest(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"x" * 200_000)
    heard = []
    with WireServer(wire.json_of({})) as server:
        connect(server).put_predictions(JOB, path, on_sent=lambda *sizes: heard.append(sizes))
    seen = server.seen[0]
    assert (seen.method, seen.raw) == ("PUT", path.read_bytes())
    assert seen.headers["content-length"] == "200000"
    assert seen.headers["potato-ray-sha256"] == wire.File(path.read_bytes()).sha256
    assert heard[-1] == (200_000, 200_000)


def test_predictions_that_are_refused_early_are_not_sent_to_their_end(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"x" * 50_000_000)
    sent = []
    answer = wire.unread(wire.problem(413, "predictions_too_large"))
    with WireServer(answer) as server, pytest.raises(Refused) as refused:
        connect(server).put_predictions(JOB, path, on_sent=lambda done, _: sent.append(done))
    assert refused.value.code == "predictions_too_large"
    assert max(sent, default=0) < 50_000_000


def test_an_upload_that_is_answered_before_its_end_has_not_succeeded(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"x" * 50_000_000)
    with WireServer(wire.unread(wire.json_of({}))) as server, pytest.raises(ServerUnreachable):
        connect(server).put_predictions(JOB, path)


def test_a_server_that_takes_nothing_ends_an_upload(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"x" * 50_000_000)
    with WireServer(wire.unread(wire.hang)) as server, pytest.raises(ServerUnreachable) as failure:
        connect(server, pace_s=0.3).put_predictions(JOB, path)
    assert failure.value.code == "server_too_slow"


@pytest.fixture
def little_room(monkeypatch):
    """Sockets that take little more than what the other side reads."""
    monkeypatch.setattr("potato_ray.agent.connection.open_line", _with_little_room)


def _with_little_room(*arguments):
    line = open_line(*arguments)
    line._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    return line


@pytest.mark.usefixtures("little_room")
def test_a_body_takes_the_time_that_its_size_calls_for_on_a_slow_line():
    events = [{"event": "log", "message": "x" * 1000}] * 700
    with WireServer(
        wire.slowly(300_000, wire.json_of({"next_seq": 700})), received_bytes=16 * 1024
    ) as server:
        answer = connect(server, timeout_s=0.8).progress(JOB, 0, events, [], True)
    assert answer == {"next_seq": 700}


@pytest.mark.usefixtures("little_room")
def test_a_server_that_takes_nothing_of_a_body_ends_the_request():
    events = [{"event": "log", "message": "x" * 1000}] * 700
    with WireServer(wire.unread(wire.hang), received_bytes=16 * 1024) as server:
        began_at = time.monotonic()
        failure = _error(connect(server, timeout_s=0.3).progress, JOB, 0, events, [], True)
    assert failure.code == "server_too_slow"
    assert time.monotonic() - began_at < 3.0


def test_a_body_that_a_server_gives_up_waiting_for_is_told_apart():
    assert failure_of(wire.giving(408, b"")).code == "body_too_slow"


def test_a_private_authority_is_believed_when_it_is_named(tmp_path):
    authority = PrivateAuthority(tmp_path)
    with WireServer(wire.json_of({"cancel": False}), tls=authority.context) as server:
        connection = connect(server, ca_file=authority.ca_file)
        assert beat(connection) == beat(connection) == {"cancel": False}
        connection.close()
        with pytest.raises(ServerUnreachable) as failure:
            beat(connect(server))
    assert failure.value.code == "certificate_refused"
    assert "--ca-file" in failure.value.next_step
    assert len({seen.connection for seen in server.seen}) == 1


def test_predictions_go_through_tls(tmp_path):
    authority = PrivateAuthority(tmp_path)
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"x" * 3_000_000)
    with WireServer(wire.json_of({}), tls=authority.context) as server:
        connect(server, ca_file=authority.ca_file).put_predictions(JOB, path)
    assert server.seen[0].raw == path.read_bytes()


def test_http_to_a_tls_server_and_tls_to_an_http_server_are_told(tmp_path):
    authority = PrivateAuthority(tmp_path)
    with WireServer(wire.json_of({}), tls=authority.context) as server, pytest.raises(ServerUnreachable):
        beat(connect(server.url.replace("https", "http")))
    with WireServer(wire.json_of({})) as server, pytest.raises(ServerUnreachable) as failure:
        beat(connect(server.url.replace("http", "https")))
    assert failure.value.code == "tls_failed"


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_cannot_be_used_is_refused_at_the_start(tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AgentMisconfigured) as refused:
        ServerConnection("https://server", TOKEN, ca_file=path)
    assert refused.value.code == "bad_ca_file"


def test_a_proxy_is_used_for_http(monkeypatch):
    with WireServer(wire.forward) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:secret@"))
        answer = beat(connect("http://server.example/prefix"))
    assert answer == {"through": "http://server.example/prefix/api/training/jobs/run-1/progress"}
    assert proxy.seen[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


def test_a_proxy_tunnels_tls_and_sees_no_token(monkeypatch, tmp_path):
    authority = PrivateAuthority(tmp_path)
    monkeypatch.setattr("potato_ray.agent.address.is_loopback", lambda host: False)
    with WireServer(wire.json_of({}), tls=authority.context) as server, WireServer(wire.forward) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        connection = connect(server, ca_file=authority.ca_file)
        beat(connection)
        connection.close()
    assert [(seen.method, seen.target) for seen in proxy.seen] == [("CONNECT", f"127.0.0.1:{server.port}")]
    assert "authorization" not in proxy.seen[0].headers
    assert len(server.seen) == 1


def test_a_proxy_that_refuses_is_named_without_its_password(monkeypatch):
    with WireServer(wire.giving(407)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("//", "//me:secret@"))
        with pytest.raises(ServerUnreachable) as failure:
            beat(connect("https://server.example"))
    assert failure.value.code == "proxy_refused"
    assert f"through the proxy 127.0.0.1:{proxy.port}" in failure.value.message
    assert "secret" not in str(failure.value)


def test_this_machine_and_the_hosts_of_no_proxy_are_asked_directly(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with WireServer(wire.json_of({})) as server:
        beat(connect(server))
    monkeypatch.setenv("no_proxy", "lab.example")
    assert "proxy" not in connect("http://gpu.lab.example:8000").shown
    assert "proxy" in connect("http://gpu.other.example:8000").shown


@pytest.mark.parametrize(
    "url",
    [
        "server:8000",
        "ftp://server",
        "http://",
        "http://server:99999",
        "http://server:0",
        "http://me:secret@server",
        "http://server/?secret",
        "http://ser ver/",
        "http://server/a\r\nX: secret",
        "http://server/../x",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_at_the_start(url):
    with pytest.raises(AgentMisconfigured) as refused:
        ServerConnection(url, TOKEN)
    assert refused.value.code == "bad_address"
    assert "secret" not in str(refused.value)


def test_a_proxy_of_another_kind_is_refused_at_the_start(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://me:secret@proxy:1080")
    with pytest.raises(AgentMisconfigured) as refused:
        ServerConnection("http://server", TOKEN)
    assert "secret" not in str(refused.value)


def test_a_stop_ends_a_request_that_waits():
    stop = threading.Event()
    stop.set()
    with WireServer(wire.hang) as server, pytest.raises(Stopped):
        connect(server).progress(JOB, 0, [], [], True, stop=stop)
