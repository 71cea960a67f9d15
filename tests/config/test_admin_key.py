"""Where the admin key comes from, and who may read its file."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray.config import ProjectConfig, Validation
from potato_ray.config.admin_key import FILE_NAME, VARIABLE, ensure_admin_key, find_admin_key
from potato_ray.errors import ProjectUnreadable

Validate = Callable[[str], Validation]


@pytest.fixture
def config(check: Validate, project: str) -> ProjectConfig:
    return check(project).require()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_configuration_wins_over_the_environment(check: Validate, project: str) -> None:
    config = check(f"{project}admin_api_key: configured\n").require()
    assert ensure_admin_key(config, {VARIABLE: "from-outside"}) == "configured"


def test_the_environment_wins_over_the_file(config: ProjectConfig, folder: Path) -> None:
    (folder / FILE_NAME).write_text("stored\n", encoding="utf-8")
    assert ensure_admin_key(config, {VARIABLE: "from-outside"}) == "from-outside"
    assert ensure_admin_key(config, {VARIABLE: " "}) == "stored"


def test_a_new_key_is_kept_in_a_file_that_only_its_owner_reads(config: ProjectConfig, folder: Path) -> None:
    assert find_admin_key(config, {}) is None
    key = ensure_admin_key(config, {})
    assert len(key) > 30
    assert ensure_admin_key(config, {}) == key
    assert mode(folder / FILE_NAME) == 0o600
    assert [path.name for path in folder.glob("*admin*")] == [FILE_NAME]


def test_a_file_that_is_open_to_everybody_is_closed(config: ProjectConfig, folder: Path) -> None:
    (folder / FILE_NAME).write_text("stored\n", encoding="utf-8")
    (folder / FILE_NAME).chmod(0o644)
    assert find_admin_key(config, {}) == "stored"
    assert mode(folder / FILE_NAME) == 0o600


def test_an_empty_file_is_replaced(config: ProjectConfig, folder: Path) -> None:
    (folder / FILE_NAME).touch()
    assert ensure_admin_key(config, {}) == (folder / FILE_NAME).read_text(encoding="utf-8").strip() != ""


def test_a_folder_in_its_place_is_an_error_with_advice(config: ProjectConfig, folder: Path) -> None:
    (folder / FILE_NAME).mkdir()
    with pytest.raises(ProjectUnreadable, match="Set admin_api_key in the configuration"):
        ensure_admin_key(config, {})
