"""Starting runs: what is refused, and that a start whose answer was lost is made once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from answering import Replies, problem
from client_time import Time, client_of
from served_project import ServedProject

from potato_ray import errors
from potato_ray.client import BadRequest, Client, Run, RunRecord, ServerUnavailable, StartRefused

STARTED = {"started": True, "run_id": "r-1", "queued": False, "position": 0}


def started() -> httpx.Response:
    return httpx.Response(200, json=STARTED)


def keys(replies: Replies) -> list[str]:
    return [request.headers["idempotency-key"] for request in replies.requests]


def test_a_run_is_started_and_the_next_one_waits(project: ServedProject, client: Client) -> None:
    first = client.train("sklearn-text", "sentiment", {"min_instances": 5})
    project.write("begin", first.id, None, 1)
    second = client.train("sklearn-text", ["sentiment"])
    assert first.status == "queued"
    assert second.position == 1
    assert first.refresh().record.params == {"min_instances": 5}


@pytest.mark.parametrize(
    ("trainer", "options", "code", "status"),
    [
        ("sklearn-txt", {}, "unknown_trainer", 400),
        ("sklearn-text", {"params": {"depth": 3}}, "bad_params", 400),
        ("sklearn-text", {"backend": "cluster"}, "unknown_backend", 409),
    ],
)
def test_a_refused_start_carries_the_servers_words(
    client: Client, trainer: str, options: dict[str, object], code: str, status: int
) -> None:
    with pytest.raises(errors.StartRefused) as refused:
        client.train(trainer, "sentiment", **options)  # type: ignore[arg-type]
    assert isinstance(refused.value, StartRefused)
    assert (refused.value.code, refused.value.status) == (code, status)
    assert refused.value.message
    assert refused.value.next_step


def test_a_start_that_must_not_wait_is_refused_as_busy(client: Client) -> None:
    client.train("sklearn-text", "sentiment")
    with pytest.raises(StartRefused) as refused:
        client.train("sklearn-text", "sentiment", queue=False)
    assert (refused.value.code, refused.value.status) == ("busy", 409)


def test_a_repeated_key_answers_the_same_run(client: Client) -> None:
    runs = [client.train("sklearn-text", "sentiment", idempotency_key="nightly-1") for _ in range(2)]
    assert runs[0].id == runs[1].id
    assert len(client.runs()) == 1


def test_starts_without_a_key_get_keys_of_their_own() -> None:
    replies = Replies(started(), started())
    with client_of(replies) as client:
        client.train("t", "s")
        client.train("t", "s")
    assert len(set(keys(replies))) == 2


def test_a_start_whose_answer_was_lost_is_repeated_with_the_same_key(project: ServedProject) -> None:
    lost: list[str] = []

    def losing(request: httpx.Request) -> httpx.Response:
        answer = httpx.post(
            f"{project.url}{request.url.path}", headers=dict(request.headers), content=request.content
        )
        if not lost:
            lost.append(answer.json()["run_id"])
            raise httpx.ReadError("the connection was reset")
        return httpx.Response(answer.status_code, json=answer.json())

    with client_of(losing) as client:
        run = client.train("sklearn-text", "sentiment")
    assert [run.id] == lost
    with Client(project.url, project.config.admin_api_key) as other:
        assert [each.id for each in other.runs()] == lost


def test_a_server_that_is_starting_is_waited_for_as_long_as_it_says() -> None:
    busy = problem(503, "controller_unavailable", {"retry-after": "5"})
    replies, time = Replies(busy, problem(503, "controller_restarting"), started()), Time()
    with client_of(replies, time) as client:
        assert client.train("t", "s").id == "r-1"
    assert time.slept[0] == 5
    assert len(set(keys(replies))) == 1


@pytest.mark.parametrize(
    ("answer", "status", "at_most_s"),
    [
        (lambda: problem(503, "controller_unavailable", {"retry-after": "5"}), 503, 20),
        (lambda: httpx.Response(502, text="<html>Bad Gateway</html>"), 502, 20),
        (lambda: httpx.ReadError("reset"), None, 20),
        (lambda: httpx.ConnectError("refused"), None, 3),
    ],
)
def test_a_server_that_stays_away_is_given_up(
    answer: Callable[[], httpx.Response | Exception], status: int | None, at_most_s: float
) -> None:
    time = Time()
    with (
        client_of(Replies(*[answer() for _ in range(40)]), time, patience_s=20) as client,
        pytest.raises(ServerUnavailable) as gone,
    ):
        client.train("t", "s")
    assert gone.value.status == status
    assert gone.value.next_step
    assert at_most_s / 2 <= time.now <= at_most_s or at_most_s == 3 >= time.now > 0


@pytest.mark.parametrize(("patience_s", "lasts_s"), [(0, 0), (3, 3), (20, 20)])
def test_patience_is_used_up_before_a_server_that_was_there_is_given_up(
    patience_s: float, lasts_s: float
) -> None:
    time, away = Time(), [problem(503, "controller_unavailable") for _ in range(40)]
    with client_of(Replies(*away), time, patience_s=patience_s) as client, pytest.raises(ServerUnavailable):
        client.status()
    assert time.now == pytest.approx(lasts_s)


def test_a_server_that_comes_back_at_the_end_of_the_patience_is_heard() -> None:
    away = [problem(503, "controller_unavailable", {"retry-after": "60"})]
    time, replies = Time(), Replies(*away, httpx.Response(200, json={"state": "idle"}))
    with client_of(replies, time, patience_s=3) as client:
        assert client.status() == {"state": "idle"}
    assert time.slept == [3]


def test_a_server_that_was_never_there_is_given_up_after_two_seconds() -> None:
    time, refused = Time(), [httpx.ConnectError("refused") for _ in range(40)]
    with client_of(Replies(*refused), time, patience_s=60) as client, pytest.raises(ServerUnavailable):
        client.status()
    assert time.now == pytest.approx(2)


def test_a_full_queue_is_not_tried_again() -> None:
    full = problem(429, "queue_full", {"retry-after": "10"}, started=False)
    with client_of(Replies(full)) as client, pytest.raises(StartRefused) as refused:
        client.train("t", "s")
    assert (refused.value.code, refused.value.retry_after_s) == ("queue_full", 10)


def test_numpys_numbers_are_sent_as_numbers() -> None:
    replies = Replies(started())
    with client_of(replies) as client:
        client.train("t", "s", {"C": np.float64(0.5), "n": np.int64(3), "grid": np.arange(2)})
    assert json.loads(replies.requests[0].content)["params"] == {"C": 0.5, "n": 3, "grid": [0, 1]}


@pytest.mark.parametrize("value", [math.nan, object(), {1, 2}])
def test_a_parameter_that_is_no_json_is_refused_before_anything_is_sent(value: object) -> None:
    with client_of(Replies()) as client, pytest.raises(BadRequest, match="not of JSON's types"):
        client.train("t", "s", {"C": value})


@pytest.mark.parametrize("key", ["", "two words", "schlüssel", "a\nb", "k" * 256])
def test_a_key_that_no_server_takes_is_refused_before_anything_is_sent(key: str) -> None:
    with client_of(Replies()) as client, pytest.raises(BadRequest, match="idempotency_key"):
        client.train("t", "s", idempotency_key=key)


COMMANDS: list[Callable[[Client], object]] = [
    lambda client: run_of(client).cancel(),
    lambda client: run_of(client).withdraw_predictions(),
]


def run_of(client: Client) -> Run:
    return Run(client._driver, client._patience, RunRecord("r-1"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("lost", [problem(503, "controller_restarting"), httpx.ReadError("reset")])
def test_a_command_that_may_have_been_taken_is_not_sent_again(
    command: Callable[[Client], object], lost: httpx.Response | Exception
) -> None:
    replies = Replies(lost)
    with client_of(replies) as client, pytest.raises(ServerUnavailable):
        command(client)
    assert len(replies.requests) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_was_never_sent_is_sent_again(command: Callable[[Client], object]) -> None:
    answer = {"run_id": "r-1", "state": "cancelled", "cancelled": True, "withdrawn": 2}
    replies = Replies(problem(503, "controller_unavailable"), httpx.Response(200, json=answer))
    with client_of(replies) as client:
        command(client)
    assert len(replies.requests) == 2
