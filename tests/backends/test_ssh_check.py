"""What a host that is reached by ssh tells, which GPU a run gets there, and the report of the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from ssh_lab import PLUGIN

from potato_ray.backends.base import Check, Placement, Refusal
from potato_ray.backends.gpus import FIELDS, Listing
from potato_ray.backends.host_report import HostReport
from potato_ray.backends.ssh_check import Looked, modules_of_trainers, reached, unreached
from potato_ray.backends.ssh_placing import HostGpus, on_cpu, place_on_host
from potato_ray.backends.torch_build import TorchBuild
from potato_ray.errors import RunFailed
from potato_ray.job.command import Answer
from potato_ray.trainers import registry

ListingOf = Callable[[str], Listing]
FACTS: dict[str, Any] = {
    "version": "3.8.18",
    "executable": "/usr/bin/python3",
    "python": "/usr/bin/python3",
    "host": "gpu1",
    "user": "ada",
    "home": "/home/ada",
    "remote_dir": "/home/ada/.cache/potato-training",
    "problem": "",
    "free_disk_mb": 52000,
    "path": "/usr/local/bin:/usr/bin",
    "has_code": False,
    "smi": [{"code": None, "out": "nvidia-smi was not found"}],
    "torch": None,
    "modules": dict.fromkeys(modules_of_trainers(), "1.0"),
}


def report(**facts: Any) -> HostReport:
    return HostReport.from_json({**FACTS, **facts})


def never(arguments: Sequence[str], timeout_s: float) -> Answer:
    raise AssertionError(f"the host was asked once more: {arguments}")


def place(listing: Listing, gpus: str | int = "auto", **more: Any) -> Placement | Refusal:
    asked = {"taken": frozenset(), "min_free_mb": 2000.0, **more}
    torch = asked.pop("torch", None)
    return place_on_host("gpu-server", "gpu1", gpus, HostGpus(listing, torch), **asked)


def looked(**facts: Any) -> Looked:
    told = report(**facts)
    gpus = HostGpus(told.listing(never), told.torch)
    placed = place_on_host("gpu-server", "gpu1", "auto", gpus, taken=frozenset(), min_free_mb=2000.0)
    return Looked(told, gpus, placed, Check("socket", ok=True, message="fine"))


def card_line(index: int = 0, free_mb: int = 39000) -> str:
    return f"{index}, GPU-{index}, NVIDIA A100, 40960, {40960 - free_mb}, {free_mb}, 3, 8.0, Disabled\n"


def test_a_host_without_a_gpu_is_told_so_in_one_answer() -> None:
    listing = report().listing(never)
    assert (listing.cards, listing.installed) == ((), False)
    assert place(listing) == Placement("gpu-server", "cpu", step="gpu-server: ssh to gpu1, CPU", host="gpu1")


def test_an_older_driver_is_asked_once_more_on_the_host() -> None:
    asked: list[str] = []

    def ask(arguments: Sequence[str], timeout_s: float) -> Answer:
        asked.append(arguments[0])
        return Answer(0, "0, GPU-0, Tesla K80, 11441, 441, 11000, 5\n")

    old = report(smi=[{"code": 2, "out": 'Field "compute_cap" is not a valid field to query.'}])
    assert [card.name for card in old.listing(ask).cards] == ["Tesla K80"]
    assert asked == [f"--query-gpu={','.join(FIELDS[:7])}"]


def test_what_is_no_report_of_ours_is_an_error_with_a_code() -> None:
    with pytest.raises(RunFailed) as failed:
        HostReport.from_json({"version": "3.8"})
    assert failed.value.code == "ssh_failed"
    assert failed.value.next_step


def test_the_interpreter_of_a_built_environment_is_that_of_a_run() -> None:
    assert report(python="/r/environments/1/bin/python").python == "/r/environments/1/bin/python"
    assert report().python == "/usr/bin/python3"


def test_auto_takes_the_freest_card_by_uuid_and_slot(listing_of: ListingOf) -> None:
    placed = place(listing_of("three_cards"))
    assert isinstance(placed, Placement)
    assert (len(placed.gpu_uuids), placed.slots, placed.device) == (1, (1,), "cuda")
    assert placed.step.startswith("gpu-server: ssh to gpu1, CUDA (GPU 1, NVIDIA A100-SXM4-40GB, ")


def test_pinned_cards_are_taken_however_full_they_are(listing_of: ListingOf) -> None:
    placed = place(listing_of("three_cards"), "0,1", min_free_mb=10**6)
    assert isinstance(placed, Placement)
    assert placed.slots == (0, 1)
    assert place(listing_of("three_cards"), "none") == on_cpu("gpu-server", "gpu1")


def test_no_card_with_enough_memory_is_a_refusal_with_the_state_of_each(listing_of: ListingOf) -> None:
    refused = place(listing_of("three_cards"), min_free_mb=60000.0)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.message) == ("no_gpu_free", "No GPU has 60000 MB free.")
    assert "GPU 0" in refused.evidence


def test_cards_that_the_torch_there_has_no_kernels_for_are_marked_and_skipped() -> None:
    found = looked(
        smi=[{"code": 0, "out": card_line()}],
        torch={"version": "2.9", "cuda": "12.8", "architectures": ["sm_90"]},
    )
    assert isinstance(found.placed, Refusal)
    assert found.placed.message == "This host's torch has no kernels for any of its GPUs."
    checks = reached("gpu-server", "ssh", "gpu-server (ssh to gpu1)", found).checks
    assert any("(torch there has no kernels for it)" in check.message for check in checks)
    assert TorchBuild("2.9", "12.8", ("sm_90",)) == found.report.torch


def test_a_driver_that_does_not_answer_leads_to_the_cpu_with_a_warning() -> None:
    placed = looked(smi=[{"code": None, "out": "nvidia-smi did not answer within 10 s"}]).placed
    assert isinstance(placed, Placement)
    assert placed.device == "cpu"
    assert "did not answer within 10 s" in placed.warnings[0]


def test_the_report_names_python_gpus_disk_path_and_what_a_run_would_get() -> None:
    found = reached("gpu-server", "ssh", "d", looked(smi=[{"code": 0, "out": card_line()}]))
    said = [check.message for check in found.checks]
    assert found.ok
    assert found.summary == "gpu-server: ssh to gpu1, CUDA (GPU 0, NVIDIA A100, 39000 of 40960 MB free)"
    assert "logged in to gpu1 as ada" in said
    assert "Python 3.8.18 (/usr/bin/python3)" in said
    assert "GPU 0 (NVIDIA A100): 39000 of 40960 MB free, 3 % busy" in said
    assert "52000 MB free for /home/ada/.cache/potato-training" in said
    assert "PATH there: /usr/local/bin:/usr/bin" in said
    assert found.facts["gpus"][0]["slot"] == 0
    assert found.facts["python_version"] == "3.8.18"


def test_missing_packages_are_named_with_what_installs_them() -> None:
    missing = dict.fromkeys(modules_of_trainers())
    found = reached("gpu-server", "ssh", "d", looked(modules=missing))
    line = next(check for check in found.checks if check.message.startswith("sklearn-text"))
    assert not found.ok
    assert "scikit-learn" in line.message
    assert line.next_step.startswith("List numpy, scipy, scikit-learn, skops under the key packages; or run ")
    assert line.next_step.endswith(": /usr/bin/python3 -m pip install scikit-learn skops")


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The trainers of somebody else's package, as if it were installed here."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    registry._announced.cache_clear()
    yield
    monkeypatch.undo()
    registry._announced.cache_clear()


def test_a_trainer_of_somebody_else_s_needs_its_own_package_there(rehearsal: None) -> None:
    assert "rehearsal" in modules_of_trainers()
    absent = {**FACTS["modules"], "rehearsal": None, "torch": None}
    told = reached("gpu-server", "ssh", "", looked(modules=absent))
    steps = {each.message.partition(":")[0]: each for each in told.checks if each.name == "trainer"}
    assert steps["rehearsal"].message == "rehearsal: /usr/bin/python3 on gpu1 lacks rehearsal==1.0."
    assert steps["rehearsal"].next_step.endswith(": /usr/bin/python3 -m pip install rehearsal==1.0")
    assert steps["accelerated"].next_step.endswith(" -m pip install rehearsal==1.0 torch")


def test_a_disk_that_runs_no_programs_matters_to_packages_alone() -> None:
    assert reached("gpu-server", "ssh", "d", looked(noexec=True)).ok
    found = reached("gpu-server", "ssh", "d", looked(noexec=True), ["scikit-learn"])
    assert any("noexec" in check.message for check in found.checks if not check.ok)


def test_what_a_list_of_packages_brings_is_known_once_it_is_installed() -> None:
    missing = dict.fromkeys(modules_of_trainers())
    found = reached("gpu-server", "ssh", "d", looked(modules=missing), ["scikit-learn"])
    assert found.ok
    assert any("known once the packages are installed" in check.message for check in found.checks)
    built = looked(modules=missing, python="/r/environments/1/bin/python")
    assert not reached("gpu-server", "ssh", "d", built, ["scikit-learn"]).ok


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"version": "3.7.16"}, "python"),
        ({"free_disk_mb": 3}, "disk"),
        ({"problem": "/home: Read-only file system"}, "disk"),
    ],
)
def test_a_host_on_which_no_run_could_start_is_not_ok(facts: dict[str, Any], name: str) -> None:
    failed = [check for check in reached("g", "ssh", "d", looked(**facts)).checks if not check.ok]
    assert [check.name for check in failed] == [name]
    assert failed[0].next_step


def test_a_host_that_cannot_be_logged_in_to_is_told_in_ssh_s_words() -> None:
    error = RunFailed(
        "ssh to gpu1 failed: Permission denied",
        code="ssh_failed",
        evidence="ssh says: ada@gpu1: Permission denied (publickey).",
        next_step="Check user and identity_file.",
    )
    found = unreached("gpu-server", "ssh", "gpu-server (ssh to gpu1)", error)
    assert not found.ok
    assert found.checks[0].message.startswith("ssh to gpu1 failed: Permission denied ssh says: ada@gpu1")
    assert found.facts["error_code"] == "ssh_failed"
