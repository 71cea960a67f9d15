"""`potato-ray training fetch`, from a real sshd and without a server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from left_files import FETCHABLE, FILES, leave_files, left_run
from run_history import folder_of, succeed
from served_project import ServedProject
from sshd import ALIAS, Sshd

from potato_ray.cli.fetching import run_fetch
from potato_ray.cli.predicting import run_predict
from potato_ray.cli.runs import show_run
from potato_ray.errors import Conflict, NotFound

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture(scope="module")
def host() -> Iterator[Sshd]:
    with Sshd() as sshd:
        yield sshd


class Study:
    """A project whose newest successful run left files on a host."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(PROJECT, folder / "study")
        self.config = folder / "study" / "config.yaml"
        body = yaml.safe_load(self.config.read_text("utf-8"))
        body["model_training"]["backends"] = {"gpu": {"type": "ssh", "host": ALIAS}}
        self.config.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
        self.served = ServedProject(folder / "study")
        self.run_id = left_run(self.served).run_id
        self.remote_dir = folder / "host"
        run_folder = folder_of(self.served, self.run_id)
        shutil.rmtree(run_folder / "artifacts")
        leave_files(self.run_id, run_folder, self.remote_dir)
        self.home = run_folder / "artifacts"

    def fetch(self, *paths: str, run: str = "latest", **options: bool) -> int:
        given: dict[str, Any] = {"only_list": False, "remove": False, "as_json": True, **options}
        return run_fetch(run, paths, self.config, **given)

    def here(self) -> list[str]:
        return sorted(
            path.relative_to(self.home).as_posix() for path in self.home.rglob("*") if path.is_file()
        )


@pytest.fixture
def study(tmp_path: Path, host: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    host.use(monkeypatch)
    made = Study(tmp_path)
    yield made
    made.served.controller.close()


def test_all_that_is_not_here_is_fetched(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.fetch() == 0
    assert study.here() == FETCHABLE
    assert (study.home / "model.bin").read_bytes() == FILES["model.bin"]
    said = capsys.readouterr()
    assert f"fetching model.bin, {len(FILES['model.bin']) / 2**20:.1f} MB, from gpubox\n" in said.err
    body = json.loads(said.out)
    assert (body["run_id"], body["host"], body["removed"]) == (study.run_id, "gpubox", False)
    assert all(each["here"] for each in body["files"])


def test_files_are_chosen_by_path_or_folder(study: Study) -> None:
    study.fetch("sub", "model_card.json", run=study.run_id[-6:])
    assert study.here() == [path for path in FETCHABLE if path != "model.bin"]
    with pytest.raises(NotFound) as missing:
        study.fetch("none.bin")
    assert missing.value.code == "unknown_artifact"


def test_a_list_fetches_nothing(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    study.fetch(only_list=True, as_json=False)
    assert not study.home.exists()
    assert capsys.readouterr().out.splitlines()[1] == "       0.0 MB  there  model_card.json"


def test_nothing_is_removed_before_all_files_are_here(study: Study) -> None:
    for paths, only_list in (["model_card.json"], False), ([], True):
        with pytest.raises(Conflict) as refused:
            study.fetch(*paths, only_list=only_list, remove=True)
        assert refused.value.code == "files_not_here"
    assert any(study.remote_dir.rglob("model.bin"))
    study.fetch(remove=True)
    assert list((study.remote_dir / "runs").iterdir()) == []
    assert study.here() == FETCHABLE


def test_predict_says_how_the_model_is_brought_here(study: Study) -> None:
    with pytest.raises(NotFound) as missing:
        run_predict(study.run_id, study.config, study.config, None)
    assert missing.value.next_step == f"Fetch them: potato-ray training fetch {study.run_id}"


def test_show_says_what_stays_until_it_is_removed(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    show_run("latest", study.config, as_json=False)
    assert "its files stay on gpubox: " in capsys.readouterr().out
    study.fetch(remove=True)
    show_run("latest", study.config, as_json=False)
    assert "stay on" not in capsys.readouterr().out


def test_a_run_that_left_nothing_on_a_host_says_so(study: Study) -> None:
    other = succeed(study.served).run_id
    with pytest.raises(Conflict) as refused:
        study.fetch(run=other)
    assert refused.value.code == "no_remote_files"
