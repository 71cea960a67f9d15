import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest
from training_libraries import NUMERICAL

from potato_ray.trainers import registry
from potato_ray.trainers.base import Licence, Requirement, Trainer, TrainerError
from potato_ray.trainers.installing import into_this_python


class Echo(Trainer):
    """A trainer of the tests, whose licence must be confirmed."""

    name = "echo"
    description = "says what it heard"
    kinds = ("text",)
    annotation_types = ("textbox",)
    params = ()
    requires: ClassVar[tuple[Requirement, ...]] = (Requirement("no_such_module_at_all.deep", "no-such"),)
    install_hint = "pip install no-such"
    licence = Licence("AGPL-3.0", needs_confirmation=True)

    def fit(self, context: Any) -> dict[str, float]:
        return {}

    def predict(self, rows: Any) -> Iterator[Any]:
        return iter(())

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> Trainer:
        return cls()


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> type[Trainer]:
    monkeypatch.setattr(registry, "_registered", {})
    return registry.register(Echo)


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def points(**named: str) -> None:
        found = [
            metadata.EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in named.items()
        ]
        monkeypatch.setattr(registry, "_entry_points", lambda: found)
        registry._announced.cache_clear()

    yield points
    registry._announced.cache_clear()


def test_the_built_in_trainers_are_named_and_found() -> None:
    assert registry.trainer_names() == sorted(registry.BUILT_IN)
    found = registry.get_trainer("sklearn-text")
    assert found is not None
    assert found.name == "sklearn-text"


def test_an_unknown_trainer_is_none_and_the_worker_hears_which_there_are() -> None:
    assert registry.get_trainer("sklearn-txt") is None
    with pytest.raises(TrainerError, match="no trainer 'sklearn-txt'") as refusal:
        registry.require_trainer("sklearn-txt")
    assert refusal.value.code == "bad_spec"
    assert "sklearn-text" in refusal.value.next_step


def test_a_registered_trainer_is_offered(echo: type[Trainer]) -> None:
    assert registry.trainer_names() == sorted(["echo", *registry.BUILT_IN])
    assert registry.offered_trainer("echo") is echo


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match="sklearn-text"):
        registry.register(type("Thief", (Echo,), {"name": "sklearn-text"}))


def test_a_spec_names_a_registered_trainer_by_its_class_and_others_by_name(echo: type[Trainer]) -> None:
    path = registry.spec_name(echo)
    assert path == f"{__name__}:Echo"
    assert registry.get_trainer(path) is echo
    found = registry.get_trainer("sklearn-text")
    assert found is not None
    assert registry.spec_name(found) == "sklearn-text"


def test_a_class_path_is_never_offered_to_requests() -> None:
    assert registry.offered_trainer(f"{__name__}:Echo") is None


@pytest.mark.parametrize(
    "path", ["os:system", "no_such_module_at_all:Echo", "pathlib:Path", f"{__name__}:Nobody"]
)
def test_a_class_path_that_is_no_trainer_could_not_be_imported(path: str) -> None:
    assert registry.get_trainer(path) is None
    with pytest.raises(TrainerError, match=f"Trainer '{path}' could not be imported") as refusal:
        registry.require_trainer(path)
    assert refusal.value.code == "missing_dependency"


def test_another_package_announces_a_trainer(announce: Any) -> None:
    announce(echo=f"{__name__}:Echo")
    assert registry.trainer_names() == sorted(["echo", *registry.BUILT_IN])
    assert [trainer.name for trainer in registry.all_trainers()] == registry.trainer_names()
    assert registry.spec_name(Echo) == "echo"


def test_a_broken_announcement_is_reported_and_stops_nobody(announce: Any) -> None:
    announce(
        gone="no_such_module_at_all:Echo", other=f"{__name__}:Echo", **{"sklearn-text": f"{__name__}:Echo"}
    )
    assert registry.trainer_names() == sorted(registry.BUILT_IN)
    reasons = {broken.name: broken.reason for broken in registry.broken_trainers()}
    assert "Trainer 'gone' could not be imported: ModuleNotFoundError" in reasons["gone"]
    assert "calls itself 'echo'" in reasons["other"]
    assert "has this name" in reasons["sklearn-text"]
    with pytest.raises(TrainerError, match="could not be imported"):
        registry.require_trainer("gone")


def test_trainers_are_found_by_kind_and_annotation_type(echo: type[Trainer]) -> None:
    assert "sklearn-text" in [t.name for t in registry.trainers_for("nominal", "radio")]
    assert registry.trainers_for("text", "textbox") == [echo]
    assert registry.trainers_for("text", "text_edit") == [] == registry.trainers_for(None, "video")


def test_a_missing_package_makes_a_trainer_unavailable_with_a_hint() -> None:
    assert registry.availability(Echo) == (
        False,
        f"{sys.executable} lacks no-such.",
        into_this_python("pip install no-such"),
    )
    found = registry.get_trainer("sklearn-text")
    assert found is not None
    assert registry.availability(found) == (True, "", "")


def test_listing_trainers_imports_no_training_library() -> None:
    code = (
        "import sys; from potato_ray.trainers import registry, params\n"
        "for t in registry.all_trainers():\n"
        "    registry.availability(t); params.check_params(t, {}); params.as_schema(t)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert NUMERICAL & set(done.stdout.split()) == set()


def test_a_worker_that_lacks_the_package_of_a_trainer_says_which(announce: Any) -> None:
    announce()
    with pytest.raises(TrainerError, match=r"on gpu1 lacks echoes==1\.2\.") as refusal:
        registry.require_trainer("echo", "echoes==1.2", "gpu1")
    assert refusal.value.code == "missing_dependency"
    assert into_this_python("pip install echoes==1.2") in refusal.value.next_step


def test_only_what_others_announce_has_a_package_of_its_own(echo: type[Trainer]) -> None:
    assert registry.package_of(echo) is None
    for name in registry.BUILT_IN:
        found = registry.get_trainer(name)
        assert found is not None
        assert registry.needs_of(found) == found.requires
