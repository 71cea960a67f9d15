"""Files that are being fetched from hosts: one after the other from each host, in threads of their own.

start ──▶ waiting ──▶ fetching ──▶ (its file is here)
             │            └──────▶ failed
             └── stop ──▶ (what has come of it stays)
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from potato_ray.backends.fetch_tries import RETRY_S, fetch_at_last
from potato_ray.backends.host_files import HostFiles
from potato_ray.backends.left_on_host import LeftOnHost
from potato_ray.errors import Cancelled, PotatoRayError

logger = logging.getLogger(__name__)


@dataclass
class Fetch:
    """One file on its way. `here_bytes`: what is here of it. `failure`: why it came to nothing."""

    left: LeftOnHost
    path: str
    state: Literal["waiting", "fetching", "failed"] = "waiting"
    here_bytes: int = 0
    failure: PotatoRayError | None = None
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def is_under_way(self) -> bool:
        """Whether it is being fetched, or waits for it, and nobody has stopped that."""
        return self.state != "failed" and not self.stopped.is_set()

    def told(self, here: int, of_bytes: int) -> None:
        """Take note of how far it is. Raises Cancelled once it is stopped."""
        self.here_bytes = here
        if self.stopped.is_set():
            raise Cancelled("The fetch was stopped.")


class RemoteFetches:
    """For any thread. `files` makes what fetches the files of one run."""

    def __init__(
        self, files: Callable[[LeftOnHost], HostFiles] = HostFiles, *, retry_s: float = RETRY_S
    ) -> None:
        self._files = files
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Fetch] = {}
        self._queues: dict[str, deque[Fetch]] = {}
        """Of each host that a thread is at work on."""

    def find(self, run_id: str, path: str) -> Fetch | None:
        """The fetch of a file, while it is not here."""
        fetch = self._known.get((run_id, path))
        return None if fetch is None or fetch.stopped.is_set() else fetch

    def are_under_way(self, run_id: str) -> bool:
        """Whether files of a run are being fetched, or wait for it."""
        with self._lock:
            return any(run == run_id and each.is_under_way for (run, _), each in self._known.items())

    def start(self, left: LeftOnHost, path: str) -> Fetch:
        """Fetch a file, unless that is under way."""
        key = (left.run_id, path)
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.is_under_way:
                return known
            fetch = self._known[key] = Fetch(left, path)
            queue = self._queues.get(left.host)
            if queue is not None:
                queue.append(fetch)
                return fetch
            self._queues[left.host] = deque([fetch])
        threading.Thread(target=self._work, args=(left.host,), name="remote-fetch", daemon=True).start()
        return fetch

    def stop(self, run_id: str, path: str) -> None:
        """Let go of a file that is not here yet; what has come of it stays for the next fetch."""
        fetch = self._known.get((run_id, path))
        if fetch is None:
            return
        fetch.stopped.set()
        if fetch.state == "failed":
            self._forget(fetch)

    def _work(self, host: str) -> None:
        """The thread of a host: it keeps its login as long as files of the same run follow."""
        files: HostFiles | None = None
        run_id = ""
        try:
            while (fetch := self._next(host)) is not None:
                if files is None or fetch.left.run_id != run_id:
                    if files is not None:
                        files.close()
                    files, run_id = self._files(fetch.left), fetch.left.run_id
                self._bring(files, fetch)
        finally:
            if files is not None:
                files.close()

    def _next(self, host: str) -> Fetch | None:
        with self._lock:
            queue = self._queues[host]
            if queue:
                return queue.popleft()
            del self._queues[host]
            return None

    def _bring(self, files: HostFiles, fetch: Fetch) -> None:
        fetch.state = "fetching"
        try:
            self._pause(fetch, 0.0)
            fetch_at_last(files, fetch.path, fetch.told, partial(self._pause, fetch))
        except Cancelled:
            self._forget(fetch)
        except PotatoRayError as failure:
            fetch.failure, fetch.state = failure, "failed"
        except Exception as failure:
            logger.exception("%s could not be fetched from %s", fetch.path, fetch.left.host)
            fetch.failure, fetch.state = _unexpected(failure), "failed"
        else:
            self._forget(fetch)

    def _pause(self, fetch: Fetch, seconds: float) -> None:
        if fetch.stopped.wait(min(seconds, self._retry_s)):
            raise Cancelled("The fetch was stopped.")

    def _forget(self, fetch: Fetch) -> None:
        key = (fetch.left.run_id, fetch.path)
        with self._lock:
            if self._known.get(key) is fetch:  # it may have been begun again
                del self._known[key]


def _unexpected(failure: Exception) -> PotatoRayError:
    return PotatoRayError(
        "The server met an unexpected error.",
        code="unexpected",
        evidence=f"It was {type(failure).__name__}; the server's own output has the rest.",
        next_step="Try again; if it happens again, report it with that output.",
    )
