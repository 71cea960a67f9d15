"""Fixtures of the backends' tests: answers of nvidia-smi, and the places of the contract tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "testbeds"))
sys.path.insert(0, str(Path(__file__).parent))

import fake_nvidia_smi
from contract_places import FREE_MB, PLACES, ContractPlace, MakeJob
from job_making import make_job
from smi_zoo import recorded

from potato_ray.backends.base import Backend
from potato_ray.backends.gpus import Listing, list_cards


@pytest.fixture
def listing_of() -> Callable[[str], Listing]:
    """The listing of a machine of the zoo, by its name."""
    return lambda name: list_cards(recorded(name))


@pytest.fixture
def smi_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the nvidia-smi on PATH answers from."""
    fake_nvidia_smi.install(tmp_path / "bin")
    folder = tmp_path / "smi"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SMI_DIR", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return folder


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> ContractPlace:
    made = PLACES[request.param](request)
    made.have_cards(FREE_MB)
    return made


@pytest.fixture
def backend(place: ContractPlace) -> Backend:
    return place.backend()


@pytest.fixture
def new_job(place: ContractPlace, tmp_path: Path) -> Iterator[MakeJob]:
    """Makes the job of a test; what is alive of it afterwards is ended."""
    folder = tmp_path / "job"
    yield lambda play="succeed": make_job(folder, play)
    if place.backend().alive(folder):
        place.lose(folder)
