"""Watching one worker to its end: limits, cancel, lease, heartbeat, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, Callable

from potato_ray.job import processes
from potato_ray.job.folder import Exit, JobFolder, read_json, write_json
from potato_ray.job.limits import Sight, Stop, Watch
from potato_ray.job.signal_pipe import SignalPipe
from potato_ray.job.spec import Limits

LOOK_EVERY_S = 0.1
BEAT_EVERY_S = 1.0
SAMPLE_EVERY_S = 1.0
"""How often memory is sampled when no limit is set; with one, at every look."""
SAMPLING_SHARE = 0.05
"""The share of a core that sampling may cost."""
ORPHAN_PATIENCE_S = 0.5
SWEEP_EVERY_S = 0.02
SWEEP_LIMIT_S = 10.0
EXIT_ATTEMPTS = 30


class Supervisor:
    """One per launcher. `started` is monotonic seconds, `started_at` the same moment in epoch seconds."""

    def __init__(
        self,
        folder: JobFolder,
        limits: Limits,
        worker: int,
        signals: SignalPipe,
        started: float,
        started_at: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.limits = limits
        self.worker = worker
        self.signals = signals
        self.started_at = started_at
        self.clock = clock
        self.watch = Watch(limits, started)
        self.stop: Stop | None = None
        self.kill_at = 0.0
        self.status: int | None = None
        self.used_mb = 0.0
        self.peak_mb = 0.0
        self._next_beat = 0.0
        self._next_sample = 0.0
        self._oom_kills = processes.oom_kills()

    def run(self) -> Exit:
        """Watch until the worker and all its descendants are gone; writes exit.json and returns it."""
        self._reap()
        while self.status is None:
            self._look()
            self.signals.wait(LOOK_EVERY_S)
            self._reap()
        left = self._sweep()
        end = self._end(left)
        self._write_exit(end)
        return end

    def _look(self) -> None:
        now = self.clock()
        folder_exists = self._beat(now)
        self._sample(now)
        if self.stop is None:
            stop = self.watch.verdict(now, self._sight(folder_exists))
            if stop is not None:
                self._begin_stop(stop, now)
        elif now >= self.kill_at:
            self._kill_all()

    def _beat(self, now: float) -> bool:
        """Touch the heartbeat when it is due; False when the folder is gone."""
        if now < self._next_beat:
            return True
        self._next_beat = now + BEAT_EVERY_S
        try:
            self.folder.heartbeat.touch()
        except FileNotFoundError:
            return False
        except OSError as failure:
            _complain(f"the heartbeat cannot be touched: {failure}")
        return True

    def _sample(self, now: float) -> None:
        if now < self._next_sample:
            return
        before = time.perf_counter()
        self.used_mb = self._measure()
        self.peak_mb = max(self.peak_mb, self.used_mb)
        cost_s = time.perf_counter() - before
        interval_s = LOOK_EVERY_S / 2 if self.limits.max_ram_mb is not None else SAMPLE_EVERY_S
        self._next_sample = now + max(interval_s, cost_s / SAMPLING_SHARE)

    def _measure(self) -> float:
        """Memory in use, in MiB. What the worker held between two samples counts as well."""
        pids = processes.descendants(os.getpid())
        used = processes.resident_mb(pids)
        limit = self.limits.max_ram_mb
        if limit is None:
            return used
        if used > limit and len(pids) > 1:
            # Forked children share pages with the worker; count those once before anyone is stopped.
            used = processes.proportional_mb(pids)
        return max(used, processes.high_water_mb(self.worker))

    def _sight(self, folder_exists: bool) -> Sight:
        return Sight(
            used_mb=self.used_mb,
            cancel=self._cancel_request(),
            lease=self._lease(),
            terminated=self.signals.terminated,
            folder_exists=folder_exists,
        )

    def _cancel_request(self) -> dict[str, Any] | None:
        try:
            return read_json(self.folder.cancel)
        except (OSError, ValueError):
            # Something lies there by that name: whoever put it there wants the worker to stop.
            return {}

    def _lease(self) -> float | None:
        try:
            return self.folder.lease.stat().st_mtime
        except OSError:
            return None

    def _begin_stop(self, stop: Stop, now: float) -> None:
        self.stop = stop
        self.kill_at = now + stop.grace_s
        try:
            body = {"reason": stop.reason, "t": time.time(), "detail": stop.detail}
            write_json(self.folder.stopping, body)
        except OSError as failure:
            _complain(f"stopping.json cannot be written: {failure}")
        if stop.grace_s <= 0:
            self._kill_all()
        else:
            self._signal_group(signal.SIGTERM)

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.worker, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _kill_all(self) -> None:
        self._signal_group(signal.SIGKILL)
        processes.kill(processes.descendants(os.getpid()))

    def _reap(self) -> None:
        """Take leave of every ended child: the worker, and orphans that were adopted."""
        while True:
            try:
                pid, status, usage = os.wait3(os.WNOHANG)
            except ChildProcessError:
                # Nobody is left, and the worker's end went by unseen: that can't be called clean.
                self.status = self.status if self.status is not None else 1 << 8
                return
            if pid == 0:
                return
            if pid == self.worker:
                self.status = status
                self.peak_mb = max(self.peak_mb, _maximum_mb(usage.ru_maxrss))

    def _sweep(self) -> list[int]:
        """End the descendants that outlive the worker; returns those that could not be ended."""
        left = processes.descendants(os.getpid())
        if not left:
            return left
        processes.kill(left, signal.SIGTERM)
        now = self.clock()
        kill_at = max(now, self.kill_at) if self.stop is not None else now + ORPHAN_PATIENCE_S
        give_up_at = kill_at + SWEEP_LIMIT_S
        while left and now < give_up_at:
            if now >= kill_at:
                processes.kill(left)
            self._beat(now)
            self.signals.wait(SWEEP_EVERY_S)
            self._reap()
            left = processes.descendants(os.getpid())
            now = self.clock()
        return left

    def _end(self, left: list[int]) -> Exit:
        status = self.status or 0
        killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        return Exit(
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=killed_by,
            reason=self.stop.reason if self.stop is not None else "",
            peak_rss_mb=round(self.peak_mb, 1),
            started_at=self.started_at,
            ended_at=time.time(),
            detail=" ".join(filter(None, (self._evidence(killed_by), _left_behind(left)))),
        )

    def _evidence(self, killed_by: int | None) -> str:
        if self.stop is not None:
            return self.stop.detail
        if killed_by == signal.SIGKILL and processes.oom_kills() > self._oom_kills:
            return "The kernel's out-of-memory killer was at work on this machine during the run."
        return ""

    def _write_exit(self, end: Exit) -> None:
        for _ in range(max(EXIT_ATTEMPTS, int(self.limits.lost_after_s))):
            try:
                self.folder.write_exit(end)
                return
            except FileNotFoundError:
                return  # the folder was removed: nobody will read it
            except OSError as failure:
                _complain(f"exit.json cannot be written: {failure}")
                time.sleep(1)


def _maximum_mb(ru_maxrss: int) -> float:
    return ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _left_behind(left: list[int]) -> str:
    return f"These processes could not be ended: {', '.join(map(str, left))}." if left else ""


def _complain(message: str) -> None:
    try:
        sys.stderr.write(f"launcher: {message}\n")
        sys.stderr.flush()
    except OSError:
        pass  # launcher.log lies on the same full disk; the worker goes on all the same
