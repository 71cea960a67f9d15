"""Commands beside a server that holds the project: they find it, wait for it, and go through it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from answering import Replies
from client_time import client_of
from clocks import Clock
from served_project import ServedProject
from serving import serving

from potato_ray.cli import progress
from potato_ray.cli.cancelling import run_cancel
from potato_ray.cli.running import run_training
from potato_ray.cli.through_server import ADDRESS_PATIENCE_S, Server, server_of
from potato_ray.cli.withdrawing import run_withdraw
from potato_ray.client import AccessRefused, ServerUnavailable
from potato_ray.errors import Conflict, StartRefused
from potato_ray.lock import SERVING, ProjectLock, holder
from potato_ray.registry.states import State

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedProject]:
    """A project that a server has: its lock is held, and its note says where it is."""
    monkeypatch.delenv("POTATO_ADMIN_API_KEY", raising=False)
    folder = tmp_path / "review-sentiment"
    shutil.copytree(PROJECT, folder)
    project = ServedProject(folder)
    lock = ProjectLock(project.config.state_dir)
    lock.acquire(SERVING)
    with serving(project.app) as project.url:
        lock.describe(purpose=SERVING, url=project.url)
        yield project
    lock.release()
    project.controller.close()


def note(served: ServedProject, **facts: Any) -> None:
    ProjectLock(served.config.state_dir).describe(**facts)


def train(served: ServedProject, *params: str, as_json: bool = False) -> int:
    path = served.config.path
    return run_training(
        path, "sklearn-text", ["sentiment"], params, "", accept_licence=False, as_json=as_json
    )


def begun(served: ServedProject) -> str:
    """Wait for a run in the queue and take it out; its id."""
    deadline = time.monotonic() + 20
    while not (waiting := served.reader.snapshot().waiting):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    served.write("begin", waiting[0].run_id, None, 1)
    return waiting[0].run_id


def moved(served: ServedProject, *states: State) -> threading.Thread:
    """Take the next run through these states, in a thread."""

    def move() -> None:
        run_id = begun(served)
        for state in states:
            served.write("transition", run_id, 1, state)

    thread = threading.Thread(target=move)
    thread.start()
    return thread


def test_a_run_is_started_on_the_server_and_followed_to_its_end(
    served: ServedProject, capsys: pytest.CaptureFixture[str]
) -> None:
    mover = moved(served, State.RUNNING, State.EVALUATING, State.FINISHING, State.SUCCESS)
    assert train(served, "min_instances=5", as_json=True) == 0
    mover.join(20)
    said = capsys.readouterr()
    run = json.loads(said.out)
    assert (run["state"], run["params"]) == ("success", {"min_instances": 5})
    assert f"starting it on the server at {served.url}" in said.err


def test_what_the_server_refuses_is_refused(served: ServedProject) -> None:
    with pytest.raises(StartRefused) as refused:
        train(served, "depth=3")
    assert refused.value.code == "bad_params"


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the following of a run raise these one after the other, in the place of a step."""
    follow = progress.follow

    def make(*signals: Callable[[], None]) -> None:
        left = list(signals)

        def broken(*args: Any, **options: Any) -> Any:
            if left:
                left.pop(0)()
            return follow(*args, **options)

        monkeypatch.setattr(progress, "follow", broken)

    return make


def ctrl_c() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_cancels_the_run_on_the_server(
    served: ServedProject, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(ctrl_c)
    assert train(served) == 130
    (run,) = served.reader.runs()
    assert run.state == State.CANCELLED
    assert f"cancelling {run.run_id}" in capsys.readouterr().err


def test_a_second_ctrl_c_leaves_it_to_the_server(
    served: ServedProject, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(lambda: (begun(served), ctrl_c()), ctrl_c)  # type: ignore[func-returns-value]
    assert train(served) == 130
    (run,) = served.reader.runs()
    assert run.status == "cancelling"
    assert f"is being cancelled by the server at {served.url}" in capsys.readouterr().err


def test_sigterm_leaves_the_run_to_the_server(
    served: ServedProject, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(lambda: (begun(served), signal.raise_signal(signal.SIGTERM)))  # type: ignore[func-returns-value]
    assert train(served) == 143
    (run,) = served.reader.runs()
    assert run.status == "building"
    said = capsys.readouterr().err
    assert f"stopped by SIGTERM; run {run.run_id} goes on under the server at {served.url}" in said


def test_a_run_is_cancelled_through_the_server(
    served: ServedProject, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_of(served.config) as server:  # type: ignore[union-attr]
        run_id = server.client.train("sklearn-text", "sentiment").id
    assert run_cancel("latest", served.config.path, as_json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"run_id": run_id, "state": "cancelled", "cancelled": True}
    with pytest.raises(Conflict) as ended:
        run_cancel(run_id, served.config.path, as_json=False)
    assert ended.value.code == "already_ended"


def test_a_command_for_a_run_is_one_request() -> None:
    replies = Replies(
        httpx.Response(200, json={"run_id": "r", "state": "running", "cancelled": False}),
        httpx.Response(200, json={"run_id": "r", "withdrawn": 3}),
    )
    with client_of(replies) as client, Server(client.url, "key") as server:
        server.client, real = client, server.client
        assert server.cancel("r") == {"run_id": "r", "state": "running", "cancelled": False}
        assert server.withdraw("r") == 3
        real.close()
    assert [request.method for request in replies.requests] == ["POST", "DELETE"]


def test_predictions_are_withdrawn_through_the_server(
    served: ServedProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = with_predictions(served)
    assert run_withdraw(run_id, served.config.path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {"run_id": run_id, "withdrawn": 0}
    assert list(served.reader.predictions(run_id)) == []


def with_predictions(served: ServedProject) -> str:
    """A successful run with a stored prediction that was not published."""
    with server_of(served.config) as server:  # type: ignore[union-attr]
        server.client.train("sklearn-text", "sentiment")
    run_id = begun(served)
    served.write("transition", run_id, 1, State.RUNNING)
    row = {"instance_id": "a", "schema_name": "sentiment", "payload": {"label": "positive"}}
    served.write("store_predictions", run_id, 1, [row])
    for state in (State.EVALUATING, State.FINISHING, State.SUCCESS):
        served.write("transition", run_id, 1, state)
    assert len(list(served.reader.predictions(run_id))) == 1
    return run_id


def test_predictions_are_withdrawn_without_a_server(
    served: ServedProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = with_predictions(served)
    copy = served.config.task_dir.with_name("copy")
    shutil.copytree(served.config.task_dir, copy)
    assert run_withdraw(run_id, copy / "config.yaml", as_json=False) == 0
    assert "its stored predictions are withdrawn; no pre-label" in capsys.readouterr().out
    assert len(list(served.reader.predictions(run_id))) == 1
    assert run_withdraw(run_id, copy / "config.yaml", as_json=False) == 0
    assert f"run {run_id}: nothing to withdraw: it has no pre-labels" in capsys.readouterr().out


def test_latest_withdraws_the_newest_success_not_the_failed_run_after_it(
    served: ServedProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = with_predictions(served)
    with server_of(served.config) as server:  # type: ignore[union-attr]
        server.client.train("sklearn-text", "sentiment")
    served.write("transition", begun(served), 1, State.ERROR)
    assert run_withdraw("latest", served.config.path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == run_id
    assert list(served.reader.predictions(run_id)) == []


def test_a_wrong_key_is_said(served: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potato_ray.cli.through_server.find_admin_key", lambda config: "another key")
    with pytest.raises(AccessRefused):
        train(served)


def test_a_note_that_outlived_its_server_holds_nothing(tmp_path: Path) -> None:
    state_dir = tmp_path / ".potato_ray"
    lock = ProjectLock(state_dir)
    lock.acquire(SERVING)
    body = lock.note.read_text()
    lock.release()
    lock.note.write_text(body)
    assert holder(state_dir) is None
    lock.acquire("again")
    assert (holder(state_dir) or {})["purpose"] == "again"
    lock.release()


def test_another_command_is_no_server(served: ServedProject) -> None:
    note(served, purpose="potato-ray training run", ray_address="127.0.0.1:1")
    assert server_of(served.config) is None


def test_a_server_that_is_starting_is_waited_for(served: ServedProject) -> None:
    note(served, purpose=SERVING)
    clock = Clock()
    clock.after(5.0, lambda: note(served, purpose=SERVING, url=served.url))
    server = server_of(served.config, clock, clock.sleep)
    assert server is not None
    with server:
        assert server.is_alive()


def test_a_server_that_never_says_where_it_is_is_given_up(served: ServedProject) -> None:
    note(served, purpose=SERVING)
    clock = Clock(now=0.0)
    with pytest.raises(Conflict, match="does not say where") as silent:
        server_of(served.config, clock, clock.sleep)
    assert silent.value.code == "project_in_use"
    assert clock.now >= ADDRESS_PATIENCE_S


def test_a_server_on_another_machine_is_named(served: ServedProject) -> None:
    note(served, purpose=SERVING, url="http://127.0.0.1:8000", host="gpu-7")
    with pytest.raises(Conflict, match="another machine, gpu-7"):
        server_of(served.config)


def test_a_server_that_does_not_answer_is_said(
    served: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.client.patience.ABSENT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    note(served, purpose=SERVING, url=url)
    with pytest.raises(ServerUnavailable, match=url):
        train(served)
    with Server(url, None) as server:
        assert not server.is_alive()
