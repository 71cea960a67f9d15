"""A job over the routes of agents, from its claim to its end, and what is refused on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from agent_calls import LINES, AgentCalls
from agent_jobs import AGENT, EXIT, LEASE, RESULT_EVENT, digest
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from fastapi.testclient import TestClient

from potato_ray.agent.protocol import CLAIM
from potato_ray.config import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

KEY = "the-admin-key-of-the-tests"


class Served:
    """A project with agent backends, and an agent that has a run in hand."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.link = AgentLink(config)
        self.reader = RegistryReader(config.registry_path)
        self.app = create_app(ServerContext(config, self.reader, self.link, admin_key=KEY))
        self.client = TestClient(self.app, raise_server_exceptions=False)
        self.calls = AgentCalls(self.client, self.link.token())

    def take(self) -> AgentCalls:
        """The agent, once it has claimed a run that runs."""
        self.link.offer()
        with self.client:
            assert self.calls.claim().status_code == 200
        self.link.move(self.calls.run_id, State.RUNNING)
        return self.calls


@pytest.fixture
def served(make_config: Callable[..., ProjectConfig]) -> Iterator[Served]:
    made = Served(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9))
    yield made
    made.link.close()


@pytest.fixture
def agent(served: Served) -> AgentCalls:
    return served.take()


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


def test_a_whole_job_goes_through_the_routes(served) -> None:
    run_id = served.link.offer()
    job = served.calls.claim().json()
    assert (job["run_id"], job["attempt"], job["backend"]) == (run_id, 1, NAME)
    bundle = served.calls.bundle()
    assert sha256(bundle.content).hexdigest() == job["bundle"]["sha256"]
    served.link.move(run_id, State.RUNNING)
    said = served.calls.progress(0, [RESULT_EVENT], alive=True)
    assert said.json() == {"cancel": False, "grace_seconds": 20.0, "next_seq": 1}
    assert served.calls.predictions().json() == {"bytes": len(LINES)}
    assert served.calls.result(1, artifact_uri="agent-host:/a").json() == {"next_seq": 1}
    folder = served.link.folder(run_id)
    assert folder.predictions.read_bytes() == LINES
    assert json.loads(folder.events.read_text()) == RESULT_EVENT
    end = folder.read_exit()
    assert end is not None
    assert (end.code, end.peak_rss_mb) == (0, 99.5)


def test_a_claim_for_another_backend_than_the_tokens_is_refused_and_gets_no_run(served) -> None:
    served.link.offer()
    refused = served.calls.claim(backend="laptop")
    assert code(refused) == (409, "other_backend")
    assert "backend workstation" in refused.json()["error"]
    assert "laptop" in refused.json()["error"]
    assert "--backend workstation" in refused.json()["next_step"]
    assert "claim" not in served.link.commands
    assert served.calls.claim(backend=NAME).status_code == 200


def test_below_a_prefix_that_the_server_does_not_have_an_agent_is_told_that_nothing_is_there(served) -> None:
    headers = {**served.calls.headers, "Accept": "application/json, application/problem+json"}
    assert code(served.client.post("/wrong-prefix/api/training/jobs/claim", headers=headers)) == (
        404,
        "not_found",
    )


def test_a_claim_whose_backend_is_no_text_is_malformed(served) -> None:
    assert code(served.calls.claim(backend=["laptop"])) == (400, "malformed_request")


def test_code_and_agent_are_there_to_fetch(served, agent) -> None:
    job = served.link.folder(agent.run_id).read_job(1)
    assert job is not None
    digest_of_code = job["code"]["sha256"]
    code_answer = served.client.get(f"/api/training/code/{digest_of_code}", headers=agent.headers)
    assert sha256(code_answer.content).hexdigest() == digest_of_code
    assert code_answer.headers["etag"] == f'"{digest_of_code}"'
    unknown = served.client.get(f"/api/training/code/{'0' * 64}", headers=agent.headers)
    assert code(unknown) == (404, "unknown_code")
    pyz = served.client.get("/api/training/agent.pyz", headers={"Authorization": f"Bearer {agent.token}"})
    assert pyz.content.startswith(b"#!")
    again = served.client.get(
        "/api/training/agent.pyz", headers={**agent.headers, "If-None-Match": pyz.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_bundle_that_broke_off_is_fetched_on_from_there(served, agent) -> None:
    whole = agent.bundle()
    etag = whole.headers["etag"]
    assert etag == f'"{sha256(whole.content).hexdigest()}"'
    parts = [agent.bundle(Range=f"bytes={a}-{b}") for a, b in ((0, 99), (100, 149))]
    rest = agent.bundle(Range="bytes=150-", **{"If-Range": etag})
    assert [each.status_code for each in (*parts, rest)] == [206] * 3
    assert b"".join(each.content for each in (*parts, rest)) == whole.content
    assert rest.headers["content-range"] == f"bytes 150-{len(whole.content) - 1}/{len(whole.content)}"


def test_a_range_of_another_bundle_is_answered_with_the_whole_of_this_one(served, agent) -> None:
    answer = agent.bundle(Range="bytes=100-", **{"If-Range": f'"{"0" * 64}"'})
    assert answer.status_code == 200
    assert code(agent.bundle(Range="bytes=99999999-")) == (416, "unsatisfiable_range")
    head = agent.bundle("HEAD")
    assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))


def test_a_bundle_that_is_gone_is_not_found(served, agent) -> None:
    served.link.folder(agent.run_id).bundle_archive.unlink()
    assert code(agent.bundle()) == (404, "unknown_bundle")


def test_events_come_once_and_a_gap_says_from_where(served, agent) -> None:
    assert agent.progress(0, [RESULT_EVENT]).json()["next_seq"] == 1
    assert agent.progress(0, [RESULT_EVENT, RESULT_EVENT]).json()["next_seq"] == 2
    gap = agent.progress(5, [RESULT_EVENT])
    assert (*code(gap), gap.json()["next_seq"]) == (409, "events_missing", 2)
    assert len(served.link.folder(agent.run_id).events.read_text().splitlines()) == 2


def test_a_result_is_taken_once_all_of_it_is_there_and_again_after_the_end(served, agent) -> None:
    early = agent.result(1)
    assert (*code(early), early.json()["next_seq"]) == (409, "events_missing", 0)
    agent.progress(0, [RESULT_EVENT])
    assert code(agent.result(1)) == (409, "predictions_missing")
    agent.predictions()
    assert agent.result(1).status_code == 200
    served.link.move(agent.run_id, State.EVALUATING, State.FINISHING, State.SUCCESS)
    assert agent.result(1).status_code == 200
    assert code(agent.result(1, exit={**EXIT, "code": 1})) == (409, "stale_attempt")


def test_what_comes_behind_the_result_changes_nothing(served, agent) -> None:
    agent.finish()
    assert code(agent.progress(1, [RESULT_EVENT])) == (409, "stale_attempt")
    assert code(agent.predictions(b"x")) == (409, "stale_attempt")
    assert served.link.folder(agent.run_id).predictions.read_bytes() == LINES


def test_a_cancel_is_told_with_the_next_report(served, agent) -> None:
    served.link.write(served.link.registry.request_cancel, agent.run_id)
    assert agent.progress().json()["cancel"] is True


def test_a_request_to_stop_in_the_folder_is_told_too(served, agent) -> None:
    served.link.folder(agent.run_id).request_cancel("wall_clock", 20.0)
    assert agent.progress().json()["cancel"] is True


@pytest.mark.parametrize("state", [State.ERROR, State.CANCELLED, State.INTERRUPTED])
def test_an_agent_that_comes_back_to_a_run_that_has_ended_is_told_so(served, agent, state: State) -> None:
    served.link.move(agent.run_id, state)
    before = sorted(each.name for each in served.link.folder(agent.run_id).path.iterdir())
    answers = [
        agent.progress(0, [RESULT_EVENT]),
        agent.predictions(),
        agent.result(0, exit=None),
        agent.bundle(),
    ]
    assert {code(each) for each in answers} == {(409, "stale_attempt")}
    assert sorted(each.name for each in served.link.folder(agent.run_id).path.iterdir()) == before


@pytest.mark.parametrize("changed", [{"lease": "f" * 32}, {"attempt": 2}, {"attempt": 0}])
def test_another_lease_or_attempt_changes_nothing(served, agent, changed: dict[str, Any]) -> None:
    vars(agent).update(changed)
    for answer in (agent.progress(0, [RESULT_EVENT]), agent.predictions(), agent.result(), agent.bundle()):
        assert code(answer) == (409, "stale_attempt")
    assert not served.link.folder(agent.run_id).events.exists()


def test_an_unknown_run_is_not_found(agent) -> None:
    agent.run_id = "20260301T093000-000000"
    assert code(agent.progress()) == (404, "unknown_run")
    agent.run_id = "..%2f..%2fetc"
    assert agent.progress().status_code == 404


@pytest.mark.parametrize("name", ["Potato-Ray-Attempt", "Potato-Ray-Lease", "Potato-Ray-Sha256"])
def test_a_header_that_is_missing_or_of_another_form_is_named_and_not_repeated(agent, name: str) -> None:
    for value in ("", "prt_a-secret-in-the-wrong-place"):
        answer = agent.predictions(**{name: value})
        assert code(answer) == (400, "malformed_request")
        assert name in answer.json()["error"]
        assert "secret" not in answer.text


def test_predictions_past_the_limit_are_refused_before_they_are_read(served, agent) -> None:
    answer = agent.predictions(b"x", **{"Content-Length": str(600 * 2**20)})
    assert code(answer) == (413, "predictions_too_large")
    assert "600.0 MB" in answer.json()["evidence"]
    folder = served.link.folder(agent.run_id)
    assert not folder.predictions.exists()
    assert list(folder.path.rglob("*.part")) == []


def test_predictions_of_another_digest_are_refused_and_removed(served, agent) -> None:
    assert code(agent.predictions(**{"Potato-Ray-Sha256": "0" * 64})) == (400, "digest_mismatch")
    assert list(served.link.folder(agent.run_id).path.rglob("*predictions*")) == []


def test_predictions_without_a_length_are_refused(agent) -> None:
    sent = {**agent.job_headers, "Potato-Ray-Sha256": "0" * 64}
    path = f"/api/training/jobs/{agent.run_id}/predictions"
    answer = agent.client.put(path, content=iter([b"x"]), headers=sent)
    assert code(answer) == (411, "length_required")


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"\xff", b"{", b"[" * 100_000, b'{"first_seq": -1}', b'{"first_seq": 0, "events": 1}']
)
def test_a_body_that_is_no_report_is_refused_with_a_reason(agent, raw: bytes) -> None:
    answer = agent.send("progress", raw)
    assert code(answer) == (400, "malformed_request")
    assert answer.json()["error"]


def test_a_report_that_is_too_large_is_refused(agent) -> None:
    answer = agent.send("progress", b"x" * (4 * 2**20 + 1))
    assert code(answer) == (413, "body_too_large")


def test_each_report_is_a_heartbeat(served, agent) -> None:
    heartbeat = served.link.folder(agent.run_id).heartbeat
    agent.progress()
    first = heartbeat.stat().st_mtime_ns
    agent.progress(alive=True)
    assert heartbeat.stat().st_mtime_ns > first
    assert heartbeat.read_text() == "working"


def test_secrets_that_an_agent_logs_are_not_kept(served, agent) -> None:
    said = f"Authorization: Bearer {agent.token}, lease {agent.lease}"
    agent.progress(0, [{"event": "log", "message": said}], notes=[{"kind": "step", "step": said}])
    failed = {"code": "broken", "message": said}
    assert agent.result(1, exit=None, failure=failed, stderr_tail=said, agent_log=said).status_code == 200
    files = served.link.folder(agent.run_id).path.glob("*[lng]")
    texts = [path.read_bytes().decode("utf-8", "replace") for path in files if path.is_file()]
    assert not any(agent.token in text or agent.lease in text for text in texts)
    assert any("[hidden]" in text for text in texts)


def test_a_claim_leaves_the_digest_of_its_lease_alone(served, agent) -> None:
    claim = json.loads(served.link.folder(agent.run_id).claim.read_text())
    assert claim["lease_sha256"] == digest(agent.lease)
    assert claim["agent"]["host"] == AGENT["host"]


# --- whether an agent is still there ------------------------------------------------------------------


class Heard:
    """What is noted of agents, in place of the sightings of a door."""

    def __init__(self, served: Served) -> None:
        self.noted: list[str] = []
        self.n_leaving = 0
        served.app.state.agent_door.sightings = self

    def note(self, backend: str, said: Any, run_id: str = "") -> None:
        self.noted.append(run_id)

    def may_leave(self, backend: str, said: Any) -> None:
        self.n_leaving += 1


def test_a_report_behind_the_result_does_not_put_the_run_into_the_agents_hand_again(served, agent) -> None:
    heard = Heard(served)
    agent.progress()
    agent.finish()
    agent.progress(1)
    assert (heard.noted[0], heard.noted[-2:]) == (agent.run_id, ["", ""])
    assert heard.n_leaving == 2


def test_an_agent_that_hangs_up_while_it_waits_may_leave(served) -> None:
    heard = Heard(served)
    assert asyncio.run(hung_up(served)) == 204
    assert (heard.noted, heard.n_leaving) == ([""], 1)


async def hung_up(served: Served) -> int:
    """The status of the answer to a claim whose client hangs up behind its body."""
    body = json.dumps({"lease": LEASE, "wait_s": 20, "agent": AGENT}).encode()
    headers = {**served.calls.headers, "Content-Length": str(len(body)), "Host": "testserver"}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": CLAIM, "headers": raw, "query_string": b""}
    left = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(0)
        return left.pop(0) if len(left) > 1 else left[0]

    async def send(message: Any) -> None:
        sent.append(message)

    wire = {"scheme": "http", "http_version": "1.1", "server": ("testserver", 80), "client": ("10.1.2.3", 5)}
    await asyncio.wait_for(served.app({**scope, **wire}, receive, send), 10)
    return int(sent[0]["status"])
