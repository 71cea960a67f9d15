"""Files that stay on a host, by the client: listed, brought among the artifacts, removed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from left_files import FakeHost, left_run
from served_project import KEY, ServedProject
from serving import serving

from potato_ray.backends.artifact_copy import CopyFailed
from potato_ray.client import AsyncClient, Client, Conflict, NotFound, RemoteFile, Run, ServerError, fetching
from potato_ray.server.remote_files import RemoteFiles
from potato_ray.ssh import SshFailed

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
FILES = {"model/für alle #1.bin": 1000, "model/b.bin": 0, "model.skops": 20}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ServedProject]:
    """One with a backend on a host."""
    folder = tmp_path / "review-sentiment"
    shutil.copytree(PROJECT, folder)
    body = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    body["model_training"]["backends"] = {"gpu": {"type": "ssh", "host": "gpubox"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    served = ServedProject(folder)
    with serving(served.app) as served.url:
        yield served
    served.controller.close()


@pytest.fixture
def host(project: ServedProject, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host that sends at once."""
    monkeypatch.setattr(fetching, "LOOK_EVERY_S", 0.01)
    made = FakeHost(FILES)
    made.go.set()
    project.app.state.remote_files = RemoteFiles(made)
    return made


@pytest.fixture
def run(project: ServedProject, client: Client, host: FakeHost) -> Run:
    return client.run(left_run(project).run_id)


def test_what_stays_on_the_host_is_listed(run: Run) -> None:
    assert run.remote_files() == [RemoteFile(path, size) for path, size in sorted(FILES.items())]
    assert not any(each.is_here or each.is_under_way for each in run.remote_files())


def test_all_that_stays_comes_among_the_artifacts(run: Run, tmp_path: Path) -> None:
    files = run.fetch()
    assert [each.path for each in files] == sorted(FILES)
    assert all(each.is_here for each in files)
    paths = run.download("model", tmp_path / "home")
    sizes = {path.name: path.stat().st_size for path in paths}
    assert (sizes["b.bin"], sizes["für alle #1.bin"]) == (0, 1000)


def test_files_are_chosen_as_for_a_download(run: Run) -> None:
    assert [each.path for each in run.fetch("model")] == ["model/b.bin", "model/für alle #1.bin"]
    with pytest.raises(NotFound, match="has no file none") as missing:
        run.fetch("none")
    assert missing.value.next_step == "Name one of its remote_files()."
    assert {each.path for each in run.remote_files() if each.is_here} == {
        "model/b.bin",
        "model/für alle #1.bin",
    }


def test_progress_is_told_while_a_file_comes(run: Run, host: FakeHost) -> None:
    host.go.clear()
    told: list[RemoteFile] = []

    def let_go(file: RemoteFile) -> None:
        told.append(file)
        if file.here_bytes == 500:
            host.go.set()

    run.fetch("model/für alle #1.bin", progress=let_go)
    assert 500 in [each.here_bytes for each in told]
    assert told[-1].is_here


def test_a_file_that_cannot_be_brought_is_told_with_the_reason(run: Run, host: FakeHost) -> None:
    host.failures = [CopyFailed("The copy from gpubox was refused", code="copy_refused", next_step="Look.")]
    with pytest.raises(ServerError, match="was refused") as failure:
        run.fetch("model.skops")
    assert (failure.value.code, failure.value.next_step) == ("copy_refused", "Look.")
    assert run.fetch("model.skops")[0].is_here


def test_a_host_that_does_not_answer_is_told_once(run: Run, host: FakeHost) -> None:
    host.trouble = SshFailed("ssh to gpubox failed: Connection refused")
    with pytest.raises(ServerError, match="Connection refused") as failure:
        run.fetch()
    assert (failure.value.status, failure.value.code) == (502, "ssh_failed")


def test_after_a_removal_nothing_stays(run: Run) -> None:
    run.remove_remote_files()
    with pytest.raises(Conflict) as refused:
        run.remote_files()
    assert refused.value.code == "no_remote_files"


async def fetched_by_another(project: ServedProject, run_id: str) -> list[RemoteFile]:
    async with AsyncClient(project.url, KEY) as client:
        run = await client.run(run_id)
        assert len(await run.remote_files()) == len(FILES)
        files = await run.fetch()
        await run.remove_remote_files()
        return files


def test_the_async_client_does_the_same(project: ServedProject, run: Run) -> None:
    files = asyncio.run(fetched_by_another(project, run.id))
    assert all(each.is_here for each in files)
