"""Two hosts with two GPUs each: no two runs on a card, and no card that is free while a run waits."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import fake_nvidia_smi
import pytest
from gpu_machine import FAKE_TORCH
from ssh_lab import PLUGIN, SshLab
from sshd import ALIAS, Sshd
from whole_runs import ended, projects, reader_of

from potato_ray.config import ProjectConfig
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = [pytest.mark.ray, pytest.mark.alone]
"""How long a card is idle is measured."""

FREE_MB = (20000, 30000)
N_RUNS = 20 if os.environ.get("POTATO_RAY_LONG") else 8
MOST_IDLE_S = 2.0 if os.environ.get("POTATO_RAY_LONG") else 10.0
"""Of a card while a run waits for one; other tests may run beside this one in CI."""
HOSTS = ("gpu", "second")


@pytest.fixture(scope="module")
def smi_dirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Where each host's nvidia-smi answers from."""
    return [tmp_path_factory.mktemp(name) for name in HOSTS]


@pytest.fixture(scope="module")
def lab(smi_dirs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    """A server and its two hosts, one behind each sshd."""
    folder = tmp_path_factory.mktemp("hosts")
    fake_nvidia_smi.install(folder / "bin")
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    there = [{"PATH": path, "FAKE_SMI_DIR": str(smi_dir)} for smi_dir in smi_dirs]
    for number, smi_dir in enumerate(smi_dirs):
        # A UUID is that of one card in the world: a run that holds it holds it for all backends.
        fake_nvidia_smi.write_cards(smi_dir, FREE_MB, machine=f"000{number}")
    keys = {
        "python": sys.executable,
        "remote_dir": str(folder / "training"),
        "env": {"PYTHONPATH": f"{PLUGIN}:{FAKE_TORCH}"},
    }
    with Sshd(env=there[0]) as first, Sshd(env=there[1]) as other, projects() as make_project:
        first.configure(first.host_block() + other.host_block("second"))
        second = {"type": "ssh", "host": "second", **keys}
        limits = {"max_concurrent_runs": 4, "queue_max": N_RUNS}
        backends = {"second": second}
        with SshLab(first, make_project, folder / "training", keys, backends, **limits) as lab:
            yield lab


def card_of(config: ProjectConfig, run_id: str) -> str:
    """CUDA_VISIBLE_DEVICES of a run's worker, as its trainer found it."""
    messages = [str(event.get("message")) for event in reader_of(config).events(run_id)]
    return next(each.partition("=")[2] for each in messages if each.startswith("CUDA_VISIBLE_DEVICES="))


def begun(run: Run) -> float:
    assert run.begun_at is not None
    return run.begun_at


def done(run: Run) -> float:
    assert run.finished_at is not None
    return run.finished_at


def test_every_run_has_a_card_of_its_own_and_no_card_is_idle_while_one_waits(lab: SshLab) -> None:
    ids = [lab.start("succeed", backend=HOSTS[number % 2], trainer="accelerated") for number in range(N_RUNS)]
    runs = [ended(lab.config, run_id) for run_id in ids]
    assert [run.state for run in runs] == [State.SUCCESS] * N_RUNS, [(run.error) for run in runs]
    by_card = defaultdict[str, list[Run]](list)
    for run in runs:
        seen = card_of(lab.config, run.run_id)
        assert run.gpu_uuids == (seen,)
        by_card[f"{run.backend} {seen}"].append(run)
    assert len(by_card) == 2 * len(FREE_MB)
    for on_card in by_card.values():
        in_order = sorted(on_card, key=begun)
        pauses = [begun(after) - done(before) for before, after in pairwise(in_order)]
        assert all(pause > -0.001 for pause in pauses), pauses
        assert max(pauses, default=0.0) < MOST_IDLE_S, (pauses, in_order)
    assert reader_of(lab.config).reservations() == []


def test_the_check_says_which_card_a_run_would_get(lab: SshLab) -> None:
    report = lab.post("/admin/training/api/backends/gpu/check", {})
    assert report["ok"], report
    assert report["summary"].startswith(f"gpu: ssh to {ALIAS}, CUDA (GPU 1, ")
    assert len(report["facts"]["gpus"]) == len(FREE_MB)


def test_a_full_host_refuses_with_the_state_of_each_card(lab: SshLab, smi_dirs: list[Path]) -> None:
    fake_nvidia_smi.write_cards(smi_dirs[0], (900, 800))
    run = ended(lab.config, lab.start("succeed", trainer="accelerated"))
    fake_nvidia_smi.write_cards(smi_dirs[0], FREE_MB)
    assert (run.state, run.error_code) == (State.ERROR, "no_gpu_free")
    assert run.error.startswith("No GPU has 2000 MB free")
    assert "900" in run.error_evidence
