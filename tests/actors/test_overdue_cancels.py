"""How long a cancelled run's supervising task may take before it is ended here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from controlled import controlled

from potato_ray.actors import way
from potato_ray.actors.controller import RunController
from potato_ray.actors.way import BRING_HOME_S, CANCEL_OVERDUE_S, CLEAR_UP_S, RunWay
from potato_ray.config import ProjectConfig, load
from potato_ray.registry import NewRun, Registry, Run, State


def begun(registry: Registry, backend: str, told: bool) -> Run:
    """A run at work; `told`: its end is known, and its task still at it."""
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",), {}, backend)
    run_id = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=9).run_id
    registry.begin(run_id, None, 9)
    return registry.transition(run_id, 1, State.CANCELLED if told else State.RUNNING)


@pytest.mark.parametrize(
    ("backend", "told", "patience_s"),
    [
        ("local", False, [CANCEL_OVERDUE_S]),
        ("local", True, [CANCEL_OVERDUE_S]),
        ("gpu", False, [CLEAR_UP_S]),
        ("gpu", True, [CLEAR_UP_S, BRING_HOME_S]),
    ],
)
def test_a_host_may_bring_home_what_a_run_has_made_once_its_end_is_told(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, backend: str, told: bool, patience_s: list[float]
) -> None:
    text = config.path.read_text()
    hosts = "  backends: {gpu: {type: ssh, host: gpu1}}\n"
    config.path.write_text(text.replace("model_training:\n", f"model_training:\n{hosts}", 1))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def scenario(controller: RunController) -> None:
        controller.holding = True
        await controller.ready()
        cancelled = RunWay(
            controller, await controller.write(begun, controller.registry, backend, told), None
        )
        cancelled.cancel()
        with monkeypatch.context() as patch:
            patch.setattr(way, "asyncio", SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread))
            await cancelled._cancel_overdue()

    controlled(load(config.path), scenario)
    grace_s = float(config.model_training.grace_seconds)
    assert slept == [grace_s + patience_s[0], *patience_s[1:]]
