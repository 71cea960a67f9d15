"""What a run said and predicted: events page by page, predictions line by line, the log."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import httpx
import pytest
from answering import Replies, Routes, lines, problem
from client_time import client_of
from fake_pandas import FakePandas
from served_project import ServedProject

from potato_ray.client import (
    Client,
    ClientError,
    Event,
    ProtocolError,
    Run,
    RunRecord,
    ServerUnavailable,
)
from potato_ray.registry.states import State

ROWS = [
    {"instance_id": f"i-{number:04}", "schema_name": "sentiment", "payload": {"label": "positive"}}
    for number in range(2500)
]


def run_of(client: Client, run_id: str = "r") -> Run:
    return Run(client._driver, client._patience, RunRecord(run_id))


@pytest.fixture
def run(project: ServedProject, client: Client) -> Run:
    """A run that said 450 things, predicted ROWS, and succeeded."""
    run = client.train("sklearn-text", "sentiment")
    project.write("begin", run.id, None, 1)
    project.write("transition", run.id, 1, State.RUNNING)
    said = [{"event": "log", "level": "info", "message": f"line {number}"} for number in range(450)]
    project.write("record_events", run.id, 1, 0, said)
    project.write("store_predictions", run.id, 1, [{**row, "confidence": 0.5} for row in ROWS])
    for state in (State.EVALUATING, State.FINISHING, State.SUCCESS):
        project.write("transition", run.id, 1, state)
    return run


def messages(events: Iterable[Event]) -> list[str]:
    return [event["message"] for event in events if "message" in event.more]


def test_events_come_in_order_over_all_pages(run: Run) -> None:
    assert messages(run.events()) == [f"line {number}" for number in range(450)]


def test_events_begin_behind_the_one_that_is_named(run: Run) -> None:
    first = next(iter(run.events()))
    assert len(messages(run.events(after=first.id))) == 449
    assert first.source == "worker"


def test_following_events_ends_with_the_run(run: Run) -> None:
    assert len(messages(run.events(follow=True))) == 450


def test_events_of_a_run_under_way_come_once_each_across_a_lost_connection() -> None:
    def page(*ids: int) -> httpx.Response:
        return httpx.Response(200, json={"events": [{"id": n, "event": "log"} for n in ids]})

    def state(status: str) -> httpx.Response:
        return httpx.Response(200, json={"run_id": "r", "status": status})

    lost = httpx.ReadError("reset")
    replies = Replies(
        *(state("running"), page(1, 2), page(), state("running"), lost, page(3), page()),
        *(state("success"), page(4), page()),
    )
    with client_of(replies) as client:
        assert [event.id for event in run_of(client).events(follow=True)] == [1, 2, 3, 4]


def test_a_server_that_repeats_its_page_for_ever_is_no_endless_loop() -> None:
    same = {"events": [{"id": 1, "event": "log"}]}
    with client_of(Routes(events=same)) as client:
        assert [event.id for event in run_of(client).events()] == [1]


def test_the_log_is_text(run: Run) -> None:
    log = run.log().splitlines()
    assert len(log) == 450
    assert log[0].endswith("line 0")


def test_predictions_are_read_one_by_one(run: Run) -> None:
    predictions = run.predictions()
    assert [each.instance_id for each in predictions] == [row["instance_id"] for row in ROWS]
    assert next(iter(predictions)).payload == {"label": "positive"}


def test_predictions_are_gone_once_they_are_withdrawn(run: Run) -> None:
    assert run.withdraw_predictions() >= 0
    assert list(run.predictions()) == []


def test_predictions_that_break_off_are_not_taken_for_all() -> None:
    with client_of(Replies(lines(*ROWS[:3], cut=True))) as client:
        iterator = iter(run_of(client).predictions())
        assert [next(iterator).instance_id for _ in range(2)] == ["i-0000", "i-0001"]
        with pytest.raises(ServerUnavailable, match="broke off after 2 of them") as cut:
            next(iterator)
    assert cut.value.code == "connection_lost"


def test_a_line_that_is_no_prediction_is_said() -> None:
    with client_of(Replies(lines({"instance_id": "a"}))) as client, pytest.raises(ProtocolError):
        list(run_of(client).predictions())


def test_a_last_line_without_its_end_is_read() -> None:
    body = b'{"instance_id": "a", "schema_name": "s", "payload": {}}'
    answer = httpx.Response(200, content=body, headers={"content-type": "application/x-ndjson"})
    with client_of(Replies(answer)) as client:
        assert [each.instance_id for each in run_of(client).predictions()] == ["a"]


def test_leaving_an_iteration_early_closes_its_connection() -> None:
    answer = lines(*ROWS)
    with client_of(Replies(answer)) as client:
        iterator = iter(run_of(client).predictions())
        next(iterator)
        iterator.close()  # type: ignore[attr-defined]
        assert answer.is_closed


def test_predictions_become_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())
    with client_of(Replies(lines(*ROWS[:2]), lines())) as client:
        table = run_of(client).predictions().to_pandas()
        empty = run_of(client).predictions().to_pandas()
    assert table["rows"][1] == {
        "instance_id": "i-0001",
        "schema_name": "sentiment",
        "label": "positive",
        "confidence": None,
    }
    assert empty["columns"] == ["instance_id", "schema_name", "confidence"]


def test_without_pandas_that_is_said_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with client_of(Replies()) as client, pytest.raises(ClientError, match="needs pandas") as missing:
        run_of(client).predictions().to_pandas()
    assert missing.value.code == "missing_dependency"
    assert missing.value.next_step.startswith(f"{sys.executable} -m pip install pandas, or")


def test_what_a_newer_server_says_besides_is_kept() -> None:
    body = {"run_id": "r", "status": "running", "carbon_g": 12}
    with client_of(Routes(r=body)) as client:
        record = client.run("r").record
    assert record.more == {"carbon_g": 12}
    assert record.status == "running"


def test_a_run_without_its_id_is_no_run() -> None:
    with client_of(Routes(r={"status": "running"})) as client, pytest.raises(ProtocolError):
        client.run("r")


def test_what_can_be_trained_is_told(client: Client) -> None:
    trainer = next(each for each in client.trainers() if each.name == "sklearn-text")
    scheme = next(each for each in client.schemas() if each.name == "sentiment")
    assert scheme.kind in trainer.kinds
    assert "sklearn-text" in scheme.trainers
    assert [each.name for each in client.backends() if each.default] == ["local"]
    assert client.check("local").backend == "local"
    assert client.status()["queue"] == []
    assert client.health()["controller"] == "ready"


def test_a_check_of_a_backend_that_is_not_there_is_refused(client: Client) -> None:
    with pytest.raises(ClientError) as missing:
        client.check("cluster")
    assert missing.value.status == 404


def test_runs_are_listed_newest_first_and_filtered(client: Client) -> None:
    ids = [client.train("sklearn-text", "sentiment").id for _ in range(3)]
    assert [run.id for run in client.runs()] == ids[::-1]
    assert [run.id for run in client.runs(limit=1)] == ids[-1:]
    assert client.runs(status="success") == []


def test_a_run_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(ClientError) as missing:
        client.run("../../health")
    assert missing.value.status == 404


def test_cancelling_what_has_ended_is_a_conflict() -> None:
    replies = Replies(problem(409, "already_ended"))
    with client_of(replies) as client, pytest.raises(ClientError) as refused:
        run_of(client).cancel()
    assert (refused.value.code, refused.value.status) == ("already_ended", 409)


def test_a_cancel_whose_answer_was_lost_is_not_repeated() -> None:
    replies = Replies(httpx.ReadError("reset"))
    with client_of(replies) as client, pytest.raises(ServerUnavailable):
        run_of(client).cancel()
