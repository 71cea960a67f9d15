"""Many starts at once on a whole server: one begins, the rest wait in order, no more than may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from server_process import API, ServerProcess
from whole_runs import MakeProject, ended, folder_of, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

STARTS = 20
QUEUE_MAX = 10


@pytest.fixture
def server(make_project: MakeProject) -> Iterator[ServerProcess]:
    serving = ServerProcess(make_project(queue_max=QUEUE_MAX, retain_runs=STARTS)).wait_ready()
    yield serving
    serving.close()


def post(server: ServerProcess, key: str, act: str) -> httpx.Response:
    body = {"trainer": "rehearsal", "schemas": ["sentiment"], "params": {"act": act}}
    headers = {**server.headers(), "Idempotency-Key": key}
    return httpx.post(f"{server.url}{API}/runs", json=body, headers=headers, timeout=60.0)


def waiting(server: ServerProcess) -> list[dict[str, Any]]:
    status = httpx.get(f"{server.url}{API}/status", headers=server.headers(), timeout=10.0).json()
    return list(status["queue"])


def test_of_twenty_starts_at_once_one_begins_ten_wait_and_nine_are_refused(server: ServerProcess) -> None:
    keys = [f"start-{number}" for number in range(STARTS)]
    with ThreadPoolExecutor(STARTS) as pool:
        answers = list(pool.map(lambda key: post(server, key, "wait"), keys))
    assert Counter(each.status_code for each in answers) == {200: 1, 202: QUEUE_MAX, 429: 9}
    began = next(each.json()["run_id"] for each in answers if each.status_code == 200)
    queued = {each.json()["position"]: each.json()["run_id"] for each in answers if each.status_code == 202}
    assert sorted(queued) == list(range(1, QUEUE_MAX + 1))

    taken = [(key, each.json()) for key, each in zip(keys, answers, strict=True) if each.is_success]
    assert [post(server, key, "wait").json()["run_id"] for key, _ in taken] == [
        said["run_id"] for _, said in taken
    ]

    wait_until(server.config, began, lambda run: run.step == "rehearsing")
    assert [each["run_id"] for each in waiting(server)] == [queued[place] for place in sorted(queued)]
    (folder_of(server.config, began).path / "go").touch()
    assert ended(server.config, began).state == State.SUCCESS
    wait_until(server.config, queued[1], lambda run: run.step == "rehearsing")
    assert [each["position"] for each in waiting(server)] == list(range(1, QUEUE_MAX))
    assert [each["run_id"] for each in waiting(server)] == [queued[place] for place in sorted(queued)[1:]]
