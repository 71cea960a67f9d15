"""The agent of one run on a host: started there, found again, and cleared up behind.

    open ── log in ─┬─ nothing there yet ─▶ facts, code, packages ─▶ socket forwarded ─▶ secrets ─▶ agent
                    ├─ it lives ─▶ its socket forwarded again
                    └─ it is gone, with a job in hand ─▶ another one, which takes the job up

What is said of the run comes by the agent's requests to the server, not over these channels.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.artifact_copy import ArtifactCopy, Copied
from potato_ray.backends.attempt_note import AttemptNote
from potato_ray.backends.base import Job
from potato_ray.backends.grants import Means
from potato_ray.backends.host_connection import HostConnection
from potato_ray.backends.host_dialogue import Bytes, Dialogue, HostRefused
from potato_ray.backends.host_report import MIN_DISK_MB, HostReport
from potato_ray.backends.host_settings import HostSettings
from potato_ray.backends.remote_note import RemoteNote
from potato_ray.errors import RunFailed
from potato_ray.job.folder import JobFolder
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.shipping.host_archive import host_archive
from potato_ray.ssh import SshFailed

FACTS_S: Final = 250.0
"""For torch that is imported for the first time, and for another start that copies the same code first."""
CODE_S: Final = 240.0
"""For another start that copies the same code first."""
ENVIRONMENT_S: Final = 2000.0
"""Between two lines of pip, and for another run that builds the same environment first."""
ANSWER_S: Final = 60.0
CANCEL_S: Final = 300.0
"""The same where a scancel comes before it: one that hangs is given 75 s, after the agent's end."""
START_S: Final = 7200.0
"""For everything up to an agent at work."""
QUESTION_S: Final = 300.0
"""For any other request, from its first answer to its last."""
ANOTHER_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, *(16.0,) * 7)
"""Pauses, while another agent for the same run is said to be there and cannot be found yet.

In all they are longer than an agent waits for its secrets (potato_ray.host.agent_start.SECRETS_S).
"""
AGENT_LIVES: Final = "agent_lives"
LOG_S: Final = 20.0
LOG_BYTES: Final = 1 << 18
ENDS_BY_ITSELF_S: Final = 10.0
"""How long an agent that has told the end of its job may take to go."""
STOPS_WITHIN_S: Final = 10.0
"""How long the end of a worker may take beyond its grace."""
_MB: Final = 1 << 20


class HostAgent:
    """One run's agent; `name` is that of the backend. One thread at a time, but for `is_connected`.

    `is_gone`: the host has said that no agent is at the run, and none could be started since. `progress`
    grows with each step towards an agent that was never reached before.
    """

    def __init__(self, job: Job, name: str, settings: HostSettings, means: Means) -> None:
        self.job = job
        self.name = name
        self.settings = settings
        self.means = means
        self.host = settings.host
        self.noted = AttemptNote(job)
        self.connection = HostConnection(settings.destination, self.host, means.login)
        self._dialogue: Dialogue | None = None
        self._furthest = 0
        self._letting_in = ""
        self._is_let_in_by_another = False
        self._words = ""
        self._described = ""
        self.is_gone = False
        self.progress = 0

    # --- the connection ---------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self.connection.is_connected

    @property
    def holds_channel(self) -> bool:
        """Whether the end of the agent is seen at once, by the end of its channel."""
        return self._dialogue is not None

    def connect(self, talk: Talk) -> None:
        """Log in, and out of what was before. Raises SshFailed, Cancelled."""
        self._let_go()
        self.connection.connect(talk.stopped)

    def close(self) -> None:
        """Log out; what runs over there runs on."""
        self._let_go()
        self.connection.close()

    def _let_go(self) -> None:
        """Close the channel of an agent; it tells nothing of another one."""
        if self._dialogue is not None:
            self.last_words()  # kept for the case that the host does not come back
            self._dialogue.close()
            self._dialogue = None

    @property
    def is_told(self) -> bool:
        """Whether the end of the run is here, from whichever of its agents."""
        with contextlib.suppress(OSError):
            return MirrorFolder(self.job.folder).read_end(self.job.attempt) is not None
        return False

    # --- starting and finding again -----------------------------------------------------------------

    def open(self, talk: Talk) -> None:
        """Log in and `attach`. Raises SshFailed, RunFailed, Cancelled, ProjectUnwritable."""
        talk.step(f"connecting to {self.host}")
        self.connect(talk)
        self.attach(talk)

    def attach(self, talk: Talk) -> None:
        """Find the agent on the host that we are connected to, or start it. Raises as `open` does.

        No agent is at work then where the end of the run was told meanwhile.
        """
        self._let_go()
        self._is_let_in_by_another = False
        if self.noted.note is not None and self._found(talk):
            return
        for pause_s in ANOTHER_S:
            if not self._is_let_in_by_another and self._started(talk):
                return
            talk.wait(pause_s)
            if self._found(talk):
                return
        if not self._found(talk):
            self._start(talk)

    def _started(self, talk: Talk) -> bool:
        """Start it; False where whoever followed the run before us has done so a moment ago."""
        try:
            self._start(talk)
        except HostRefused as refused:
            if refused.host_code != AGENT_LIVES:
                raise
            return False
        return True

    def has_ended(self, talk: Talk) -> bool:
        """Whether the agent is known to have ended; asks the host where we do not hold its channel."""
        if self._dialogue is not None:
            return self._dialogue.channel.poll() is not None
        found = self._state(talk)
        return not (found.get("agent") or {}).get("alive")

    def last_words(self) -> str:
        """The end of what the agent has said, as far as we had its channel."""
        if self._dialogue is not None:
            self._words = self._dialogue.channel.err_tail.strip() or self._words
        return self._words

    def _found(self, talk: Talk) -> bool:
        """Whether there is nothing to start: an agent is at work, or the end of its job was told.

        An agent that waits for its secrets is ended where they were ours to send; another follower of the
        run may be about to send them to any other.
        """
        talk.step(f"looking for the agent on {self.host}")
        found = self._state(talk, free_socket=True, end_waiting=self._letting_in)
        agent = found.get("agent") or {}
        self.is_gone = not agent.get("alive") and found.get("job") != "done"
        self._is_let_in_by_another = bool(agent.get("alive")) and not agent.get("at_work")
        if agent.get("alive") and agent.get("at_work"):
            self._forward(str(agent["socket"]))
            talk.log(f"the agent on {self.host} is at work; it is followed again")
            return True
        return found.get("job") == "done"

    def _state(self, talk: Talk, **changed: bool | str) -> Mapping[str, Any]:
        with self._ask("take_up", talk, **changed) as dialogue:
            return dict(dialogue.hear("take_up", ANSWER_S))

    def _start(self, talk: Talk) -> None:
        talk.step(f"looking at {self.host}")
        dialogue = self._ask("run", talk, min_free_disk_mb=MIN_DISK_MB)
        try:
            is_at_work = self._let_in(dialogue, talk)
        except BaseException:
            dialogue.close()
            raise
        # A login that all runs share has room for some ten channels; a silent agent is asked for instead.
        if is_at_work and self.settings.slurm is None:
            self._dialogue = dialogue
        else:
            dialogue.close()
        self.is_gone = False

    def _let_in(self, dialogue: Dialogue, talk: Talk) -> bool:
        """Whether the agent was given the run; not where the one before it has told the run's end."""
        if self.settings.packages:
            talk.step(f"preparing the packages on {self.host}")
        ready = dialogue.hear("ready", ENVIRONMENT_S)
        self._reached(2)
        # No other agent lives by then; either it has told the end of the run, or another follower may have
        # ended it, and noted that.
        if self.is_told:
            return False
        self._check_noted()
        self._letting_in = str(ready["socket"])
        self.noted.keep_socket(str(ready["socket"]))
        self._forward(str(ready["socket"]))
        talk.step(f"waiting for the agent on {self.host}")
        grant = self.means.grant(self.job.run_id, self.job.attempt)
        dialogue.send_line(
            {
                "token": grant.token,
                "lease": grant.lease,
                "job": self._given_out(),
                "server": f"unix:{ready['socket']}",
                "backend": self.name,
                "host": self.host,
                "keep": self.settings.keep_remote,
                "min_free_gpu_mb": self.settings.least_card_mb,
                "slurm": self.settings.slurm,
            }
        )
        dialogue.hear("agent", ANSWER_S)
        self._letting_in = ""
        self._reached(3)
        return True

    def _check_noted(self) -> None:
        """Start nothing for a run that another follower has ended. Raises RunFailed."""
        outcome = self.noted.read_outcome()
        if outcome is None:
            return
        raise RunFailed(
            outcome.message or f"Another process that follows the run has noted its end: {outcome.status}.",
            code=outcome.error_code or "backend_failed",
            evidence=outcome.evidence,
            next_step=outcome.next_step or "Start the run again.",
        )

    def _given_out(self) -> dict[str, Any] | None:
        """The job, if it lies ready: the agent need not ask for it then."""
        try:
            return MirrorFolder(self.job.folder).read_job(self.job.attempt)
        except OSError:
            return None

    def _reached(self, step: int) -> None:
        if step > self._furthest:
            self._furthest = step
            self.progress += 1

    def _ask(self, do: str, talk: Talk, **more: Any) -> Dialogue:
        """Ask for something that needs our code there; brings it where it is missing. The caller closes."""
        archive = host_archive(self.means.state_dir)
        settings = self.settings
        request = {
            "do": do,
            "remote_dir": settings.remote_dir,
            "run_id": self.job.run_id,
            "attempt": self.job.attempt,
            "code": archive.sha256,
            "packages": list(settings.packages),
            "env": dict(settings.env),
            **more,
        }

        def said(line: str) -> None:
            self.progress += 1  # an environment that is being built
            talk.log(line)

        within_s = {"run": START_S, "send_artifacts": math.inf}.get(do, QUESTION_S + more.get("wait_s", 0.0))
        dialogue = Dialogue(self.connection.line, settings.python, request, said, talk.stopped, within_s)
        try:
            report = HostReport.from_json(dialogue.hear("facts", FACTS_S))
            if do == "run":
                self._describe(report, talk)
                self.noted.begin(self.host, report.remote_dir, archive.sha256, report.python)
            if not report.has_code:
                talk.step(f"copying Potato's code to {self.host}")
                dialogue.send_line({"archive_bytes": archive.n_bytes})
                dialogue.send(archive.path.read_bytes())
            dialogue.hear("code", CODE_S)
            self._reached(1)
        except BaseException:
            dialogue.close()
            raise
        return dialogue

    def _describe(self, report: HostReport, talk: Talk) -> None:
        words = f"{self.host}: Python {report.version} ({report.python}), jobs in {report.remote_dir}"
        if words != self._described:
            talk.log(words)
        self._described = words

    def _forward(self, remote_socket: str) -> None:
        """Let the agent's requests come out at the server's socket. Raises SshFailed."""
        self.connection.forward(remote_socket, self.means.agent_socket)

    # --- the end ------------------------------------------------------------------------------------

    def copy_artifacts(self, talk: Talk) -> Copied:
        """Copy the model files home, going on where an earlier copy broke off.

        Raises CopyFailed, SshFailed, RunFailed, OSError.
        """

        def told(n_bytes: int, of_bytes: int) -> None:
            talk.step(f"copying the model from {self.host}, {n_bytes / _MB:.0f} of {of_bytes / _MB:.0f} MB")

        copy = ArtifactCopy(
            JobFolder(self.job.folder).artifacts, self.host, self.settings.max_artifact_mb, told
        )
        wanted = {"max_artifact_mb": self.settings.max_artifact_mb}
        with self._ask("send_artifacts", talk, have=copy.have(), **wanted) as dialogue:
            return copy.receive(Bytes(dialogue.channel))

    def fetch_log(self, target: Path) -> bool:
        """Bring the end of the agent's log home; whether it came from the host.

        Else it is what its channel said, where nothing is there yet. Raises OSError.
        """
        if self.noted.note is not None and self.is_connected:
            path = f"{self.noted.remote_folder}/agent.log"
            try:
                answer = self.connection.line.run(f"tail -c {LOG_BYTES} {shlex.quote(path)}", timeout_s=LOG_S)
                if answer.out:
                    target.write_bytes(answer.out)
                    return True
            except SshFailed:
                pass  # what came over the channel has to do
        self.keep_words(target)
        return False

    def keep_words(self, target: Path) -> None:
        """Keep the end of what the agent has said, where nothing is kept yet and that can be written."""
        words = self.last_words()
        with contextlib.suppress(OSError):
            if words and not target.exists():
                target.write_text(words, "utf-8")

    def stop_job(self, grace_s: float, talk: Talk) -> bool:
        """See that the job has been told to stop, and wait for its end; whether files of a model are there.

        Raises SshFailed, RunFailed.
        """
        talk.step(f"waiting for the end of the job on {self.host}")
        wait_s = grace_s + STOPS_WITHIN_S
        with self._ask("stop", talk, grace_s=grace_s, wait_s=wait_s) as dialogue:
            stopped = dialogue.hear("stopped", wait_s + ANSWER_S)
        return bool(stopped.get("has_artifacts"))

    def clear_up_behind(self, folder: Path, note: RemoteNote, talk: Talk) -> None:
        """Clear up behind another run that ended while the host was away. Raises as `clear_up` does."""
        there = replace(self.settings, remote_dir=note.remote_dir)
        behind = HostAgent(Job(folder.name, note.attempt, folder), self.name, there, self.means)
        behind.connection = self.connection
        behind.clear_up(talk, keep=note.keep)

    def clear_up(self, talk: Talk, *, keep: bool) -> None:
        """End what still runs of the run there, and remove what it left; `keep`: its folder stays.

        Where something goes on all the same, the next run on this host is to clear up again. Raises
        SshFailed, RunFailed, ProjectUnwritable.
        """
        talk.step(f"clearing up on {self.host}")
        if not keep and JobFolder(self.job.folder).artifacts.exists():
            os.sync()  # once, before they go over there: each of thousands of files by itself would take long
        with self._ask("clear_up", talk, keep=keep, wait_s=ENDS_BY_ITSELF_S) as dialogue:
            cleared = dialogue.hear("cleared", ANSWER_S if self.settings.slurm is None else CANCEL_S)
        left = ", ".join(str(pid) for pid in cleared.get("left") or ())
        if left:
            talk.log(f"these processes could not be ended on {self.host}: {left}", "warning")
        if cleared.get("problem"):
            talk.log(f"not everything could be removed on {self.host}: {cleared['problem']}", "warning")
        if not left and not cleared.get("goes_on"):
            self.noted.keep_cleared()
