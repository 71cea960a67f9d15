"""Following a job folder from outside: its events as they come, and whether its launcher lives."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from typing import Any, Callable

from potato_ray.job.events import NAMES, VERSION
from potato_ray.job.folder import JobFolder, Processes
from potato_ray.job.processes import end_marked, is_alive

STARTING, ALIVE, ENDED, GONE = "starting", "alive", "ended", "gone"

CHUNK_BYTES = 1 << 20
LINE_LIMIT_BYTES = 8 << 20
SILENT_HOST_S = 120.0
"""How long a launcher on another host may leave its heartbeat untouched before it counts as gone."""


class Follower:
    """One reader of one job folder.

    `first_seq`: the number of the first event that `poll` returns; earlier ones are skipped.
    `next_seq`: the number of the next one. Each line of events.jsonl is one event.
    """

    def __init__(
        self, folder: JobFolder, first_seq: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.next_seq = first_seq
        self._clock = clock
        self._to_skip = first_seq
        self._offset = 0
        self._skipping_line = False
        self._ready: list[bytes] = []
        self._beat: float | None = None
        self._beat_changed = clock()

    def poll(self, max_events: int = 1000) -> list[dict[str, Any]]:
        """The next events, oldest first; [] when there are none yet. A last line without its end waits."""
        while len(self._ready) < max_events and self._read_more():
            pass
        lines, self._ready = self._ready[:max_events], self._ready[max_events:]
        self.next_seq += len(lines)
        return [parse_event(line) for line in lines]

    def state(self) -> str:
        """starting (no worker yet), alive, ended (exit.json is there), or gone (ended without one)."""
        if self.folder.exit.exists():
            return ENDED
        processes = self.folder.read_processes()
        if processes is None:
            return STARTING
        if self._is_alive(processes):
            return ALIVE
        # It may have written exit.json between the two looks.
        return ENDED if self.folder.exit.exists() else GONE

    def renew_lease(self) -> None:
        """Tell the launcher that its run is still wanted. Raises OSError when the folder is gone."""
        self.folder.lease.touch()
        os.utime(str(self.folder.lease))

    def end_remains(self) -> list[int]:
        """For a job whose launcher is gone: kill what is left of it on this host.

        Returns the pids that could not be ended. Processes are known by the mark in their environment.
        """
        processes = self.folder.read_processes()
        if processes is None or processes.launcher.host != socket.gethostname():
            return []
        if is_alive(processes.launcher):
            return []  # this folder is a copy: they belong to the one that the launcher works in
        return end_marked(processes.markers, not_before=processes.launcher.start_ticks)

    def _is_alive(self, processes: Processes) -> bool:
        if processes.launcher.host == socket.gethostname():
            return is_alive(processes.launcher) and not self._is_copy()
        return self._heart_beats()

    def _is_copy(self) -> bool:
        """Whether a launcher that lives works in another folder: it holds the lock there, and not here."""
        try:
            descriptor = os.open(str(self.folder.lock), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False  # it is held, or there are no locks on this file system
        finally:
            os.close(descriptor)
        return True

    def _heart_beats(self) -> bool:
        # Only changes count: the clocks of two hosts need not agree.
        try:
            beat: float | None = self.folder.heartbeat.stat().st_mtime
        except OSError:
            beat = None
        now = self._clock()
        if beat != self._beat:
            self._beat, self._beat_changed = beat, now
        return now - self._beat_changed < SILENT_HOST_S

    def _read_more(self) -> bool:
        """Read the whole lines of the next chunk; False when there is nothing more to be had now."""
        try:
            with self.folder.events.open("rb") as handle:
                handle.seek(self._offset)
                chunk = handle.read(CHUNK_BYTES)
                end = chunk.rfind(b"\n") + 1
                while not end and len(chunk) < LINE_LIMIT_BYTES:
                    more = handle.read(CHUNK_BYTES)
                    if not more:
                        return False
                    chunk += more
                    end = chunk.rfind(b"\n") + 1
        except FileNotFoundError:
            return False
        self._take(chunk, end)
        return True

    def _take(self, chunk: bytes, end: int) -> None:
        if not end:
            # Longer than any event: let go of it here, and count it when its end comes.
            self._offset += len(chunk)
            self._skipping_line = True
            return
        self._offset += end
        lines = chunk[:end].split(b"\n")[:-1]
        if self._skipping_line:
            lines[0] = b"(a line longer than any event)"
            self._skipping_line = False
        skipped = min(self._to_skip, len(lines))
        self._to_skip -= skipped
        self._ready += lines[skipped:]


def parse_event(line: bytes) -> dict[str, Any]:
    """One line of events.jsonl; a line that is no event becomes a warning of the log that quotes it."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if isinstance(event, dict) and event.get("event") in NAMES:
        return event
    quoted = line[:200].decode("utf-8", "replace")
    message = f"A line of events.jsonl is no event and was left out: {quoted}"
    return {"v": VERSION, "event": "log", "t": time.time(), "level": "warning", "message": message}
