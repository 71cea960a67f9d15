"""A file from the server to the disk, taken up where it broke off, so that each byte comes once.

What has come lies in `.<sha256>.part` beside the target: also the next agent goes on with it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from potato_ray.agent.answers import tell
from potato_ray.agent.asking import ClaimedJob
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.errors import DiskFull, DownloadFailed, Misdirected, Refused, ServerUnreachable, Stopped
from potato_ray.agent.exchange import Exchange
from potato_ray.agent.part_file import CHUNK_BYTES, PartFile
from potato_ray.agent.patience import Patience, Stop
from potato_ray.agent.protocol import DOWNLOAD_REQUESTS

GIVE_UP_AFTER_S = 300.0
SPARE_BYTES = 16 * 1024 * 1024
"""What is left free on the disk beside the file."""
MB = 2**20
_RANGE_UNSATISFIABLE = 416
_ADVICE = "Start the run again; if it happens again, look at the proxies on the way to the server."


@dataclass(frozen=True)
class Source:
    """What to fetch: its path on the server, its sha256 in hex, its size in bytes. `name` is for messages."""

    path: str
    sha256: str
    n_bytes: int
    name: str = "file"


def part_of(source: Source, target: Path) -> Path:
    """Where the beginning of an unfinished download lies."""
    return target.with_name(f".{source.sha256}.part")


def download(
    connection: ServerConnection,
    source: Source,
    target: Path,
    *,
    patience: Patience,
    stop: Stop | None = None,
    job: ClaimedJob | None = None,
    on_bytes: Callable[[int, int], None] | None = None,
    give_up_after_s: float = GIVE_UP_AFTER_S,
) -> None:
    """Fetch `source` to `target`, which is whole and checked when this returns.

    `on_bytes` hears of the bytes that are there and the bytes in all. At most DOWNLOAD_REQUESTS requests
    are answered with a body; while there is no answer at all, it tries for `give_up_after_s`.

    Raises DownloadFailed (code broke_off, wrong_digest, another_file), DiskFull, ServerUnreachable, Refused,
    Stopped, OSError. What has come is kept, unless its digest was wrong.
    """
    _Download(connection, source, target, patience, stop, job, on_bytes, give_up_after_s).run()


@dataclass
class _Download:
    connection: ServerConnection
    source: Source
    target: Path
    patience: Patience
    stop: Stop | None
    job: ClaimedJob | None
    on_bytes: Callable[[int, int], None] | None
    give_up_after_s: float
    requests: int = 0
    last: str = ""

    def run(self) -> None:
        if self._is_there_already():
            return
        self._take_up()
        resumed = self.part.n_bytes > 0
        self._fetch()
        if self.part.sha256 != self.source.sha256 and resumed:
            # What an earlier agent left may be what was damaged.
            self.part.begin_anew()
            self._fetch()
        if self.part.sha256 != self.source.sha256:
            self.part.path.unlink()
            what = "arrived damaged and was removed: its sha256 is not the announced one"
            raise self._failed(what, "wrong_digest", f"It is {self.part.sha256}.")
        os.replace(str(self.part.path), str(self.target))

    def _is_there_already(self) -> bool:
        """Whether an earlier agent has fetched it to the end."""
        if not self.target.is_file() or self.target.stat().st_size != self.source.n_bytes:
            return False
        there = PartFile(self.target)
        there.take_up(self._check_stop)
        return there.sha256 == self.source.sha256

    def _take_up(self) -> None:
        self.part = PartFile(part_of(self.source, self.target))
        self.part.take_up(self._check_stop)
        if self.part.n_bytes > self.source.n_bytes:
            self.part.begin_anew()
        self._tell()

    def _fetch(self) -> None:
        self._check_space()
        while self.part.n_bytes < self.source.n_bytes:
            if self.requests >= DOWNLOAD_REQUESTS:
                raise self._failed(f"broke off {self.requests} times", "broke_off", self.last)
            self._request()

    def _request(self) -> None:
        """One request and what it brings; a wait after one that failed."""
        try:
            with self._ask() as exchange:
                self._take(exchange)
        except ServerUnreachable as failure:
            self.last = str(failure)
            if self.patience.failing_for_s >= self.give_up_after_s:
                raise
            self.patience.wait(failure)

    def _ask(self) -> Exchange:
        """An answer with a body. Only such a request counts: while the link is down, none gets anywhere."""
        etag, offset = f'"{self.source.sha256}"', self.part.n_bytes
        try:
            exchange = self.connection.fetch(
                self.source.path, offset=offset, etag=etag, job=self.job, stop=self.stop
            )
        except Refused as refusal:
            if refusal.status != _RANGE_UNSATISFIABLE or not offset:
                raise
            raise self._failed("is shorter on the server than announced", "another_file") from refusal
        self.requests += 1
        return exchange

    def _take(self, exchange: Exchange) -> None:
        self._check_answer(exchange)
        if exchange.status == 200 and self.part.n_bytes:
            self.part.begin_anew()  # the server, or a proxy on the way, sends no parts
        descriptor = self.part.open()
        try:
            self._receive(exchange, descriptor)
        except OSError as failure:
            if failure.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_space() from failure
            raise
        finally:
            os.close(descriptor)

    def _check_answer(self, exchange: Exchange) -> None:
        """Raises DownloadFailed when the answer is not (the rest of) the file that was announced.

        Without an ETag it may be a page that somebody on the way puts there: Misdirected.
        """
        etag = exchange.headers.get("ETag", "").strip()
        if etag and etag.replace("W/", "", 1) != f'"{self.source.sha256}"':
            raise self._failed("is another one by now", "another_file", f"Its ETag is {tell(etag)}.")
        due = self.source.n_bytes - (self.part.n_bytes if exchange.status == 206 else 0)
        if exchange.left is not None and exchange.left != due:
            sizes = f"{exchange.left} bytes came where {due} were due."
            if not etag:
                raise Misdirected(f"Something else came than the {self.source.name}.", evidence=sizes)
            raise self._failed("has another size than announced", "another_file", sizes)
        if exchange.status == 206 and not self._is_the_rest(exchange.headers.get("Content-Range", "")):
            raise self._failed("came from another place than asked for", "another_file")

    def _is_the_rest(self, content_range: str) -> bool:
        found = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", content_range.strip())
        if not found:
            return False
        first, last, total = found.groups()
        n_bytes = self.source.n_bytes
        return (int(first), int(last)) == (self.part.n_bytes, n_bytes - 1) and total in ("*", str(n_bytes))

    def _receive(self, exchange: Exchange, descriptor: int) -> None:
        while self.part.n_bytes < self.source.n_bytes:
            piece = exchange.read(min(CHUNK_BYTES, self.source.n_bytes - self.part.n_bytes))
            if not piece:
                raise ServerUnreachable(f"The {self.source.name} ended before its end.", code="answer_torn")
            self.part.append(descriptor, piece)
            self.patience.success()
            self._tell()
        if exchange.read(1):
            raise self._failed("goes on beyond its announced size", "another_file")

    def _check_space(self) -> None:
        left = self.source.n_bytes - self.part.n_bytes
        if left and shutil.disk_usage(str(self.target.parent)).free < left + SPARE_BYTES:
            raise self._no_space()

    def _no_space(self) -> DiskFull:
        free = shutil.disk_usage(str(self.target.parent)).free
        left = self.source.n_bytes - self.part.n_bytes
        return DiskFull(
            f"There is no space for the {self.source.name} on the agent's disk.",
            evidence=f"{left / MB:.1f} MB are still to come, and {free / MB:.1f} MB are free.",
            next_step=f"Free some space in {self.target.parent}, or give the agent another --workdir.",
        )

    def _failed(self, what: str, code: str, evidence: str = "") -> DownloadFailed:
        there = f"{self.part.n_bytes / MB:.1f} of {self.source.n_bytes / MB:.1f} MB are there."
        message = f"The {self.source.name} {what}."
        return DownloadFailed(message, code=code, evidence=evidence or there, next_step=_ADVICE)

    def _check_stop(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise Stopped(f"The agent was told to stop while it fetched the {self.source.name}.")

    def _tell(self) -> None:
        if self.on_bytes is not None:
            self.on_bytes(self.part.n_bytes, self.source.n_bytes)
