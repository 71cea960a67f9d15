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
from agent_place import AgentSite, agent_site
from contract_places import FREE_MB, GIVING, KEEPING, PLACES, ContractPlace, MakeJob
from slurm_cluster import SlurmCluster
from slurm_place import SlurmSite, slurm_site
from smi_zoo import recorded
from ssh_place import SshSite, ssh_site

from potato_ray.backends.base import Backend, Job
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    """A server and an agent of it, for all tests of a module."""
    with agent_site(tmp_path_factory.mktemp("agent")) as made:
        yield made


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshSite]:
    """A host behind an sshd, for all tests of a module."""
    with ssh_site(tmp_path_factory.mktemp("host")) as made:
        yield made


@pytest.fixture(scope="module")
def login_node(module_slurm: SlurmCluster, host: SshSite) -> Iterator[SlurmSite]:
    """That host in front of a real SLURM, for all tests of a module."""
    with slurm_site(module_slurm, host) as made:
        yield made


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> ContractPlace:
    return place_with_cards(request)


@pytest.fixture(params=GIVING)
def giving_place(request: pytest.FixtureRequest) -> ContractPlace:
    """One of those that choose a run's GPU."""
    return place_with_cards(request)


@pytest.fixture(params=KEEPING)
def keeping_place(request: pytest.FixtureRequest) -> ContractPlace:
    """One of those whose GPUs are not the server's to give."""
    return place_with_cards(request)


def place_with_cards(request: pytest.FixtureRequest) -> ContractPlace:
    """The place that a fixture's parameter names, with FREE_MB."""
    made = PLACES[request.param](request)
    made.have_cards(FREE_MB)
    return made


@pytest.fixture
def backend(place: ContractPlace) -> Backend:
    return place.backend()


@pytest.fixture
def new_job(place: ContractPlace, tmp_path: Path) -> Iterator[MakeJob]:
    """Makes the job of a test; what is alive of it afterwards is ended."""
    made: list[Job] = []

    def make(play: str = "succeed") -> Job:
        made.append(place.make_job(tmp_path / "job", play))
        return made[-1]

    yield make
    for job in made:
        place.clear_up(job)
