"""What a download sends of a file that changes meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response

from potato_ray.errors import NotFound
from potato_ray.server import downloads
from potato_ray.server.downloads import download


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"0123456789" * 10)
    return path


def asked(method: str = "GET", **headers: str) -> Request:
    raw = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": "/", "query_string": b"", "headers": raw})


def sent(response: Response, meanwhile: Callable[[], object] = lambda: None) -> tuple[int, bytes]:
    """(announced length, body) of an answer; `meanwhile` happens when its head has been sent."""
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)
        if message["type"] == "http.response.start":
            meanwhile()

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}
    asyncio.run(response(scope, receive, send))
    length = dict(messages[0]["headers"])[b"content-length"]
    return int(length), b"".join(message.get("body", b"") for message in messages[1:])


def test_of_a_file_that_grows_what_was_announced_is_sent(file: Path) -> None:
    response = download(asked(), file)
    with file.open("ab") as growing:
        growing.write(b"more")
        growing.flush()
        assert sent(response, lambda: growing.write(b"and more") and growing.flush()) == (
            100,
            b"0123456789" * 10,
        )


@pytest.mark.parametrize(
    ("wanted", "body"), [("bytes=95-", b"56789"), ("bytes=-3", b"789"), ("bytes=0-0", b"0")]
)
def test_a_range_of_a_file_that_grows_ends_where_it_was_announced_to(
    file: Path, wanted: str, body: bytes
) -> None:
    response = download(asked(Range=wanted), file)
    file.write_bytes(b"0123456789" * 20)
    assert sent(response) == (len(body), body)


def test_a_file_that_is_replaced_is_sent_as_it_was(file: Path) -> None:
    response = download(asked(), file)
    other = file.with_name("other")
    other.write_bytes(b"x")
    other.replace(file)
    assert sent(response) == (100, b"0123456789" * 10)


def test_a_file_that_becomes_shorter_is_broken_off(file: Path) -> None:
    response = download(asked(), file)
    with pytest.raises(EOFError, match="shorter"):
        sent(response, lambda: os.truncate(file, 50))


def test_every_answer_closes_the_file(file: Path, monkeypatch) -> None:
    opened: list[Any] = []
    open_file = downloads._opened
    monkeypatch.setattr(downloads, "_opened", lambda path: opened.append(open_file(path)) or opened[-1])
    etag = download(asked("HEAD"), file).headers["etag"]
    sent(download(asked(), file))
    for request in (asked(If_None_Match=etag), asked(Range="bytes=100-")):
        assert download(request, file).status_code in (304, 416)
    assert [each.closed for each in opened] == [True] * 4


def test_a_pipe_or_a_link_that_took_the_files_place_is_refused_at_once(file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(file)
    for name in ("pipe", "link", "gone"):
        with pytest.raises(NotFound, match="cannot be opened"):
            download(asked(), tmp_path / name)


def test_a_name_of_bytes_that_are_no_letters_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"m\xff.bin")
    path.write_bytes(b"1")
    response = download(asked("HEAD"), path)
    assert response.headers["content-disposition"] == "attachment; filename*=utf-8''m%FF.bin"
