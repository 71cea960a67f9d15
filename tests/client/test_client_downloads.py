"""Files brought home: whole or not at all, and never outside the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from answering import Cut, problem
from client_time import client_of
from served_project import ServedProject
from serving import ScriptedServer, http_answer

from potato_ray.client import (
    Client,
    NotFound,
    ProtocolError,
    Run,
    RunRecord,
    ServerUnavailable,
    UnsafePath,
)

RECORD = RunRecord("r")
FILES = {"model_card.json": b"{}", "model/a weird #1%?.bin": bytes(range(256)) * 999, "model/sub/b.bin": b""}


@pytest.fixture
def run(project: ServedProject, client: Client) -> Run:
    """A run that left FILES."""
    run = client.train("sklearn-text", "sentiment")
    for name, body in FILES.items():
        path = project.artifacts(run.id) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return run


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if not path.is_dir()
    }


def test_all_files_of_a_run_come_home_as_they_are(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    paths = run.download(folder=home)
    assert files_in(home) == FILES
    assert sorted(paths) == sorted(home / name for name in FILES)
    assert {each.path: each.bytes for each in run.artifacts()} == {n: len(b) for n, b in FILES.items()}


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("model_card.json", {"model_card.json"}),
        ("model", set(FILES) - {"model_card.json"}),
        (["model/sub/", "model_card.json"], {"model/sub/b.bin", "model_card.json"}),
    ],
)
def test_files_are_chosen_by_path_or_folder(run: Run, tmp_path: Path, what: Any, names: set[str]) -> None:
    run.download(what, tmp_path / "home")
    assert set(files_in(tmp_path / "home")) == names


def test_a_file_that_the_run_has_not_is_named_before_anything_is_fetched(run: Run, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"has no file model\.bin") as missing:
        run.download(["model_card.json", "model.bin"], tmp_path / "home")
    assert "model_card.json" in missing.value.evidence
    assert not (tmp_path / "home").exists()


def test_a_file_of_the_same_name_is_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model_card.json").write_text("old")
    run.download("model_card.json", tmp_path)
    assert (tmp_path / "model_card.json").read_text() == "{}"


class FileServer:
    """One file, `size` bytes of which come before the connection is lost, each time that it is asked for."""

    def __init__(self, body: bytes, size: int, etag: str = '"one"') -> None:
        self.body, self.size, self.etag = body, size, etag
        self.ranges: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/artifacts"):
            return httpx.Response(200, json={"artifacts": [{"path": "f", "bytes": len(self.body)}]})
        asked = request.headers.get("range")
        self.ranges.append(asked)
        begin = 0
        headers = {"etag": self.etag}
        if asked is not None and request.headers["if-range"] == self.etag:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            headers["content-range"] = f"bytes {begin}-{len(self.body) - 1}/{len(self.body)}"
        piece = self.body[begin : begin + self.size]
        whole = begin + self.size >= len(self.body)
        stream: Any = httpx.ByteStream(piece) if whole else Cut(piece)
        return httpx.Response(206 if begin else 200, headers=headers, stream=stream)


def fetched(server: Any, folder: Path) -> bytes:
    with client_of(server) as client:
        (path,) = Run(client._driver, client._patience, RECORD).download(folder=folder)
        return path.read_bytes()


def test_a_download_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    server = FileServer(b"0123456789", size=3)
    assert fetched(server, tmp_path) == b"0123456789"
    assert server.ranges == [None, "bytes=3-", "bytes=6-", "bytes=9-"]


def test_a_file_that_has_changed_meanwhile_begins_anew(tmp_path: Path) -> None:
    server = FileServer(b"0123456789", size=3)

    def changing(request: httpx.Request) -> httpx.Response:
        if len(server.ranges) == 2:
            server.body, server.size, server.etag = b"abc", 100, '"two"'
        return server(request)

    assert fetched(changing, tmp_path) == b"abc"


def test_a_download_goes_on_as_long_as_each_request_brings_something(tmp_path: Path) -> None:
    server = FileServer(b"0123456789" * 3, size=1)
    assert fetched(server, tmp_path) == b"0123456789" * 3
    assert len(server.ranges) == 30


@pytest.mark.parametrize(
    ("size", "etag"), [(0, '"one"'), (1, ""), (1, 'W/"weak"')], ids=["nothing comes", "no tag", "a weak tag"]
)
def test_a_download_that_breaks_off_and_comes_no_further_leaves_nothing(
    tmp_path: Path, size: int, etag: str
) -> None:
    server = FileServer(b"0123456789", size=size, etag=etag)
    with pytest.raises(ServerUnavailable) as cut:
        fetched(server, tmp_path / "home")
    assert cut.value.code == "connection_lost"
    assert len(server.ranges) == 5
    assert files_in(tmp_path / "home") == {}


def test_an_answer_that_ends_early_without_a_word_is_not_the_whole_file(tmp_path: Path) -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"
    listing = http_answer(b'{"artifacts": [{"path": "f", "bytes": 14}]}')
    with ScriptedServer([listing, *[head + b"half of"] * 5]) as server, Client(server.url) as client:
        run = Run(client._driver, client._patience, RECORD)
        with pytest.raises(ServerUnavailable, match="7 of its 14 bytes"):
            run.download(folder=tmp_path / "home")
    assert files_in(tmp_path / "home") == {}


def test_a_part_that_is_shorter_than_what_is_missing_is_gone_on_from(tmp_path: Path) -> None:
    server = FileServer(b"0123456789", size=3)

    def partly(request: httpx.Request) -> httpx.Response:
        answer = server(request)
        if answer.status_code == 206:
            piece = server.body[int(request.headers["range"][6:-1]) :][:3]
            return httpx.Response(206, headers=answer.headers, content=piece)
        return answer

    assert fetched(partly, tmp_path) == b"0123456789"


def test_a_part_from_elsewhere_is_no_part_of_the_file(tmp_path: Path) -> None:
    server = FileServer(b"0123456789", size=3)

    def wrong(request: httpx.Request) -> httpx.Response:
        answer = server(request)
        if answer.status_code == 206:
            answer.headers["content-range"] = "bytes 0-9/10"
        return answer

    with pytest.raises(ProtocolError, match="the part from byte 3 on"):
        fetched(wrong, tmp_path / "home")
    assert files_in(tmp_path / "home") == {}


def test_a_real_connection_that_is_cut_is_noticed(tmp_path: Path) -> None:
    listing = http_answer(b'{"artifacts": [{"path": "f"}]}')
    cut = http_answer(b"half of", "application/octet-stream", content_length="14")
    with ScriptedServer([listing, *[cut] * 5]) as server, Client(server.url) as client:
        run = Run(client._driver, client._patience, RECORD)
        with pytest.raises(ServerUnavailable):
            run.download(folder=tmp_path / "home")
    assert files_in(tmp_path / "home") == {}
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "a/../../evil",
        "a//b",
        "",
        ".",
        "a/./b",
        "..\\evil",
        "a\0b",
        "a\nb",
        "model/",
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    with pytest.raises(UnsafePath):
        fetched(naming(name), home)
    assert files_in(tmp_path) == {}


def naming(name: str) -> Any:
    """A server whose list of files has this name, and a good one before it."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/artifacts"):
            return httpx.Response(200, json={"artifacts": [{"path": "good"}, {"path": name}]})
        return httpx.Response(200, content=b"evil")

    return answer


def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (home / "model").symlink_to(outside)
    with pytest.raises(UnsafePath):
        fetched(naming("model/weights"), home)
    assert files_in(outside) == {}


def test_a_link_in_the_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "f").symlink_to(victim)
    assert fetched(FileServer(b"new", size=9), tmp_path / "home") == b"new"
    assert victim.read_text() == "untouched"


def test_a_file_that_is_gone_meanwhile_is_said(tmp_path: Path) -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/artifacts"):
            return httpx.Response(200, json={"artifacts": [{"path": "f"}]})
        return problem(404, "unknown_artifact")

    with pytest.raises(NotFound) as missing:
        fetched(gone, tmp_path)
    assert missing.value.code == "unknown_artifact"
