"""Handing a run over to its agent: packed once, again when the packer was lost, and not for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.exceptions

from potato_ray.actors import handing_over
from potato_ray.actors.handing_over import HandingOver, clear_after_ends
from potato_ray.actors.task_tries import MAX_TRIES
from potato_ray.errors import Cancelled, RunFailed
from potato_ray.job.folder import write_json
from potato_ray.mirror.folder import MirrorFolder

PACKED = {"bundle": {"sha256": "a", "bytes": 1}, "code": {"sha256": "b", "bytes": 2}}


class Controller:
    """What handing over needs of the controller."""

    def __init__(self, folder: Path) -> None:
        training = SimpleNamespace(
            grace_seconds=20.0,
            max_predictions_mb=512,
            backends={"ws": SimpleNamespace(type="agent", heartbeat_timeout_s=400.0)},
        )
        self.config = SimpleNamespace(model_training=training, state_dir=folder / "state")
        self.folder = folder

    def run_folder(self, run_id: str) -> Path:
        return self.folder


@pytest.fixture
def handing(tmp_path: Path) -> HandingOver:
    write_json(tmp_path / "spec.json", {"run_id": "r"})
    run: Any = SimpleNamespace(run_id="r", attempt=2, backend="ws")
    controller: Any = Controller(tmp_path)
    return HandingOver(controller, run)


def packing(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[Any]:
    """Pack with these answers, one after the other; those that are left."""
    left = list(answers)

    async def answer(reference: object) -> Any:
        said = left.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    task = SimpleNamespace(remote=lambda *_: object())
    monkeypatch.setattr(handing_over.tasks, "pack_job", task)
    monkeypatch.setattr(handing_over, "answer_of", answer)
    return left


def never() -> bool:
    return False


def test_the_job_says_what_an_agent_needs(handing: HandingOver, monkeypatch: pytest.MonkeyPatch) -> None:
    packing(monkeypatch, PACKED)
    asyncio.run(handing.hand_over(never))
    job = handing.mirror.read_job(2)
    assert job is not None
    assert (job["run_id"], job["attempt"], job["spec"]) == ("r", 2, {"run_id": "r"})
    assert (job["lost_after_s"], job["bundle"], job["code"]) == (400.0, PACKED["bundle"], PACKED["code"])


def test_a_job_that_is_there_is_not_packed_again(
    handing: HandingOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = packing(monkeypatch, PACKED, PACKED)
    asyncio.run(handing.hand_over(never))
    asyncio.run(handing.hand_over(lambda: True))
    assert left == [PACKED]


def test_a_packing_that_was_lost_is_done_again_a_few_times(
    handing: HandingOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [ray.exceptions.RayError("lost")] * (MAX_TRIES - 1)
    packing(monkeypatch, *lost, PACKED)
    asyncio.run(handing.hand_over(never))
    assert handing.mirror.read_job(2) is not None
    handing.mirror.job.unlink()
    packing(monkeypatch, *lost, ray.exceptions.RayError("lost"))
    with pytest.raises(RunFailed, match="packing the bundle"):
        asyncio.run(handing.hand_over(never))


@pytest.mark.parametrize("answers", [[False, True], [True, True]])
def test_a_run_that_was_cancelled_meanwhile_is_handed_to_nobody(
    handing: HandingOver, monkeypatch: pytest.MonkeyPatch, answers: list[bool]
) -> None:
    packing(monkeypatch, PACKED)
    cancelled: Callable[[], bool] = iter(answers).__next__
    with pytest.raises(Cancelled):
        asyncio.run(handing.hand_over(cancelled))
    assert not handing.mirror.job.exists()


def test_what_a_controller_left_of_ended_runs_goes_and_that_of_others_stays(tmp_path: Path) -> None:
    for run_id in ("over", "at work", "packed alone", "leased", "local"):
        (tmp_path / run_id).mkdir()
    for name in ("over/job.json", "over/bundle.tar.gz", "over/run.log", "at work/bundle.tar.gz"):
        (tmp_path / name).touch()
    for name in ("packed alone/bundle.tar.gz", "leased/lease.json", "local/spec.json", "a file"):
        (tmp_path / name).touch()
    cleared = clear_after_ends(tmp_path, lambda run_id: run_id != "at work")
    assert cleared == ["leased", "over", "packed alone"]
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*"))
    assert left == ["at work/bundle.tar.gz", "local/spec.json", "over/run.log"]


def test_a_project_without_runs_has_nothing_to_clear_up(tmp_path: Path) -> None:
    assert clear_after_ends(tmp_path / "runs", lambda run_id: True) == []


def test_nothing_to_fetch_is_left_behind_a_run(handing: HandingOver) -> None:
    mirror = MirrorFolder(handing.mirror.path)
    for name in ("job.json", "bundle.tar.gz", ".packing.abc", "spec.json"):
        (mirror.path / name).touch()
    asyncio.run(handing.clear_up())
    assert sorted(path.name for path in mirror.path.iterdir()) == ["spec.json"]
