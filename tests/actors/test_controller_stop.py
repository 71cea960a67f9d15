"""The end of a controller: what cannot wait is closed first, and whoever asked waits long enough."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from potato_ray.actors import notifying, session
from potato_ray.actors.controller import RunController
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture
def config(tmp_path: Path) -> ProjectConfig:
    shutil.copytree(PROJECT, tmp_path / "p")
    return load(tmp_path / "p" / "config.yaml")


class Closing:
    """Stands for what a controller closes, and notes when."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name, self.order = name, order

    def close(self) -> None:
        self.order.append(self.name)


class ClosingSlowly(Closing):
    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().close()


async def order_of_closing(config: ProjectConfig) -> list[str]:
    controller, order = RunController(config, keep_spare=False), list[str]()
    await controller.ready()
    controller.spare.close()
    close_registry = controller.registry.close
    controller.spare = Closing("spare", order)  # type: ignore[assignment]
    controller.notifier = ClosingSlowly("notifier", order)  # type: ignore[assignment]
    controller.registry = Closing("registry", order)  # type: ignore[assignment]
    await controller.stop()
    await asyncio.wait(controller._tasks or {asyncio.create_task(asyncio.sleep(0))}, timeout=10.0)
    await controller.write(close_registry)
    return order


def test_a_slow_receiver_of_notices_keeps_nothing_but_the_registry_open(config: ProjectConfig) -> None:
    assert asyncio.run(order_of_closing(config)) == ["spare", "notifier", "registry"]


def test_the_last_chance_of_notices_is_over_long_before_nobody_waits_any_more() -> None:
    assert notifying.LAST_CHANCE_S + notifying.LET_GO_S < session.STOP_TIMEOUT_S - 1.0
