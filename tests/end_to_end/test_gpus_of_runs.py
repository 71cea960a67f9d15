"""Which GPU a run gets, and that no two runs share one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fake_nvidia_smi
import pytest
from gpu_machine import give_gpus
from whole_runs import MakeProject, OpenSession, ended, folder_of, in_step, reader_of, start, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

FREE_MB = (5000, 30000, 20000)


@pytest.fixture(scope="module", autouse=True)
def machine(rehearsal_trainers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine with cards, for every process; the folder that its nvidia-smi answers from."""
    folder = tmp_path_factory.mktemp("machine")
    with pytest.MonkeyPatch.context() as patch:
        give_gpus(patch, folder, FREE_MB)
        yield folder / "smi"


@pytest.fixture(autouse=True)
def cards(machine: Path) -> list[str]:
    """Three cards with FREE_MB free; their UUIDs."""
    return fake_nvidia_smi.write_cards(machine, FREE_MB)


def worker_sees(config: ProjectConfig, run_id: str) -> str:
    """CUDA_VISIBLE_DEVICES of a run's worker, as its trainer found it."""
    messages = [str(event.get("message")) for event in reader_of(config).events(run_id)]
    return next(each.partition("=")[2] for each in messages if each.startswith("CUDA_VISIBLE_DEVICES="))


def test_the_freest_card_is_taken_and_no_two_runs_share_one(
    make_project: MakeProject, open_session: OpenSession, cards: list[str]
) -> None:
    config = make_project(max_concurrent_runs=2)
    session = open_session(config)
    first, second = (start(session, "accelerated", act="wait") for _ in range(2))
    runs = [wait_until(config, run_id, in_step("rehearsing")) for run_id in (first, second)]
    assert [run.gpu_uuids for run in runs] == [(cards[1],), (cards[2],)]
    assert [worker_sees(config, run_id) for run_id in (first, second)] == cards[1:]
    for run_id in (first, second):
        (folder_of(config, run_id).path / "go").touch()
        assert ended(config, run_id).state == State.SUCCESS


def test_a_trainer_without_use_for_a_gpu_takes_none(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    session = open_session(config)
    run_id = start(session, act="wait")
    run = wait_until(config, run_id, in_step("rehearsing"))
    assert (run.device, run.gpu_uuids) == ("cpu", ())
    assert worker_sees(config, run_id) == ""
    session.call("cancel", run_id)
    assert ended(config, run_id).state == State.CANCELLED


def test_a_run_that_no_card_can_hold_says_how_much_each_has_free(
    make_project: MakeProject, open_session: OpenSession, machine: Path
) -> None:
    fake_nvidia_smi.write_cards(machine, [900, 800])
    config = make_project()
    run = ended(config, start(open_session(config), "accelerated"))
    assert (run.state, run.error_code) == (State.ERROR, "no_gpu_free")
    assert run.error.startswith("No GPU has 2000 MB free")
    assert "900" in run.error_evidence
