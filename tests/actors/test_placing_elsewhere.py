"""Places on hosts are looked for beside the queue: one that hangs holds up its own backend alone."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from controlled import controlled
from test_admission import Controller

from potato_ray.actors import placing
from potato_ray.actors.admission import Admission
from potato_ray.actors.controller import RunController
from potato_ray.backends.base import Placement, Refusal
from potato_ray.config import ProjectConfig, load
from potato_ray.registry import Registry, State
from potato_ray.starting import StartPlan, StartRequest

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
CARD = Placement("gpu", "cuda", ("GPU-1",), (0,))
FULL = Refusal("no_gpu_free", "No GPU has 2000 MB free.", "Wait.", wait=True)
WANTED = StartRequest(trainer="sklearn-text", schemas=("sentiment",))


class Host:
    """A backend that is asked for a place, and answers once it is let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers: list[Placement | Refusal | Exception] = []
        self.go = threading.Event()
        self.asked = 0

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        self.asked += 1
        assert self.go.wait(20.0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Queue(Controller):
    """A controller with two hosts; `woken` counts how often the queue is to be looked at again."""

    def __init__(self, config: ProjectConfig, registry: Registry) -> None:
        super().__init__(config, registry)
        self.hosts = {name: Host(name) for name in ("gpu", "other")}
        self.woken = 0
        self.admission = Admission(cast(RunController, self))

    def backend(self, name: str) -> Any:
        return self.hosts.get(name, self)

    def wake(self) -> None:
        self.woken += 1

    async def enqueue(self, backend: str) -> str:
        run = await self.admission.enqueue(replace(WANTED, backend=backend))
        return str(run.run_id)

    async def woken_again(self) -> None:
        before = self.woken
        while self.woken == before:
            await asyncio.sleep(0.001)

    def step(self, run_id: str) -> str:
        return str(self.registry.run(run_id).step)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setattr(StartPlan, "uses_gpu", True)
    shutil.copytree(PROJECT, tmp_path / "p")
    path = tmp_path / "p" / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    hosts = {name: {"type": "ssh", "host": name} for name in ("gpu", "other")}
    hosts["cluster"] = {"type": "slurm", "host": "login1", "remote_dir": "/shared", "job_python": "python3"}
    body["model_training"].update(backends=hosts, max_concurrent_runs=9)
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    config = load(path)
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        made = Queue(config, registry)
        yield made
        for host in made.hosts.values():
            host.go.set()


def played(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_runs_on_other_backends_begin_while_a_host_hangs(queue: Queue) -> None:
    async def scenario() -> None:
        stuck, other, local = [await queue.enqueue(name) for name in ("gpu", "other", "local")]
        queue.places = [Placement("local", "cpu")]
        queue.hosts["other"].answers = [replace(CARD, backend="other")]
        assert await queue.admission.admit()
        assert queue.begun == [local]
        assert queue.step(stuck) == "looking for a GPU on gpu"
        queue.hosts["other"].go.set()
        await queue.woken_again()
        await queue.admission.admit()
        assert queue.begun == [local, other]
        queue.hosts["gpu"].answers = [FULL]
        queue.hosts["gpu"].go.set()
        await queue.woken_again()

    played(scenario)


def test_nobody_looks_for_a_gpu_where_slurm_gives_it(queue: Queue) -> None:
    async def scenario() -> None:
        run_id = await queue.enqueue("cluster")
        queue.places = [Placement("cluster", "cuda", host="login1")]
        await queue.admission.admit()
        assert queue.begun == [run_id]
        assert queue.step(run_id) == ""

    played(scenario)


def test_the_oldest_run_of_a_backend_is_placed_first_and_one_look_goes_on_at_a_time(queue: Queue) -> None:
    async def scenario() -> None:
        first, second = [await queue.enqueue("gpu") for _ in range(2)]
        host = queue.hosts["gpu"]
        host.answers = [CARD, FULL]
        await queue.admission.admit()
        await queue.admission.admit()
        assert host.asked <= 1
        host.go.set()
        await queue.woken_again()
        await queue.admission.admit()  # the first begins, and a place is looked for the second
        assert queue.begun == [first]
        await queue.woken_again()
        await queue.admission.admit()
        assert queue.step(second) == FULL.message
        assert host.asked == 2

    played(scenario)


def test_an_answer_that_nobody_took_for_a_while_is_asked_for_anew(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        run_id = await queue.enqueue("gpu")
        host = queue.hosts["gpu"]
        host.answers = [FULL, CARD]
        host.go.set()
        await queue.admission.admit()
        await queue.woken_again()
        with monkeypatch.context() as patch:
            patch.setattr(placing, "FRESH_S", 0.0)
            await queue.admission.admit()
        assert queue.step(run_id) != FULL.message
        await queue.woken_again()
        await queue.admission.admit()
        assert queue.begun == [run_id]

    played(scenario)


def test_a_look_that_fails_ends_its_run_and_no_other(queue: Queue) -> None:
    async def scenario() -> None:
        broken, well = [await queue.enqueue("gpu") for _ in range(2)]
        host = queue.hosts["gpu"]
        host.answers = [RuntimeError("a mistake"), CARD]
        host.go.set()
        await queue.admission.admit()
        await queue.woken_again()
        await queue.admission.admit()
        assert queue.registry.run(broken).state is State.ERROR
        await queue.woken_again()
        while well not in queue.begun:
            await queue.admission.admit()
            await asyncio.sleep(0.001)

    played(scenario)


def test_the_controller_takes_the_answer_as_soon_as_it_is_there(queue: Queue) -> None:
    host = Host("gpu")
    host.answers = [FULL] * 99

    async def scenario(controller: RunController) -> None:
        controller.backends["gpu"] = cast(Any, host)
        started = await controller.start(replace(WANTED, backend="gpu"))
        while not host.asked or queue.step(started["run_id"]) != "looking for a GPU on gpu":
            await asyncio.sleep(0.005)
        host.go.set()
        while queue.step(started["run_id"]) != FULL.message:
            await asyncio.sleep(0.005)
        assert host.asked == 1

    controlled(queue.config, scenario)


def test_a_refusal_from_before_a_card_was_given_back_is_asked_for_anew() -> None:
    async def scenario() -> None:
        host, woken = Host("gpu"), asyncio.Event()
        host.answers = [FULL, CARD]
        host.go.set()
        looks = placing.Placing(woken.set)
        assert looks.look("waits", cast(Any, host), {"GPU-1"}) is None
        await woken.wait()
        assert looks.look("waits", cast(Any, host), frozenset()) is None  # and not the refusal
        woken.clear()
        await woken.wait()
        assert looks.look("waits", cast(Any, host), frozenset()) == CARD

    played(scenario)
