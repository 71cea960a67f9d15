"""A controller without Ray that serves agents: it offers runs, gives them out, and packs small bundles."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

from agent_jobs import handed_over
from registry_link import RegistryLink

from potato_ray.agent_tokens import digest_of, new_token, require_agent_backend
from potato_ray.config.models import ProjectConfig
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State

AGENT_BACKENDS = {"workstation": {"type": "agent"}, "laptop": {"type": "agent"}}
NAME = "workstation"


class AgentLink(RegistryLink):
    """As RegistryLink, with the commands of agents. `commands` are those that were sent.

    `slots` runs may be under way at a time; a claimed run's job is made `making_s` after its claim.
    """

    def __init__(self, config: ProjectConfig) -> None:
        super().__init__(config)
        self.commands: list[str] = []
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.slots = 9
        self.making_s = 0.0
        self.claiming_s = 0.0
        self._leases: dict[str, str] = {}

    async def command(self, method: str, *args: Any) -> Any:
        self.commands.append(method)
        ours = {"claim": self._claim, "register_backend": self._register, "agents_seen": self._seen}
        if method not in ours:
            return await super().command(method, *args)
        return await asyncio.wrap_future(self._writer.submit(ours[method], *args))

    def offer(self, backend: str = NAME) -> str:
        """Put a run on offer; its id."""
        new = NewRun("sklearn-text", ("sentiment",), ("nominal",), {}, backend)
        run = self.write(self.registry.create_run, new, queue_max=99, allow_queue=True, max_concurrent=99)
        self.write(self.registry.transition, run.run_id, run.attempt, State.OFFERED)
        return str(run.run_id)

    def token(self, backend: str = NAME) -> str:
        """A new token of a backend."""
        return str(self.write(self._register, backend)["token"])

    def run_token(self, run_id: str) -> str:
        """One more token of a run."""
        token = new_token()
        attempt = self.write(self.registry.run, run_id).attempt
        self.write(self.registry.put_run_token, run_id, attempt, digest_of(token))
        return token

    def move(self, run_id: str, *states: State, **fields: Any) -> Run:
        """Bring a run through states; `fields` are set with the last one."""
        for state in states:
            given = fields if state is states[-1] else {}
            attempt = self.write(self.registry.run, run_id).attempt
            run = self.write(self.registry.transition, run_id, attempt, state, **given)
        return run

    def folder(self, run_id: str) -> MirrorFolder:
        """The mirror of a run."""
        return MirrorFolder(self.config.training_dir / "runs" / run_id)

    def _register(self, name: str) -> dict[str, str]:
        require_agent_backend(self.config, name)
        token = new_token()
        self.registry.put_token(name, digest_of(token))
        return {"backend": name, "token": token}

    def _seen(self, backend: str, agents: list[dict[str, Any]]) -> None:
        self.seen += [(backend, each) for each in agents]

    def _claim(self, backend: str, lease_sha256: str, agent: Mapping[str, Any]) -> dict[str, Any] | None:
        time.sleep(self.claiming_s)
        held = self._leases.get(lease_sha256)
        if held is not None and not self.registry.run(held).ended:
            return {"run_id": held, "attempt": self.registry.run(held).attempt}
        for run in self.registry.unfinished():
            if run.state is State.OFFERED and run.backend == backend:
                begun = self.registry.begin(run.run_id, None, self.slots)
                return None if begun is None else self._given(begun, lease_sha256, agent)
        return None

    def _given(self, run: Run, lease_sha256: str, agent: Mapping[str, Any]) -> dict[str, Any]:
        self._leases[lease_sha256] = run.run_id
        folder = self.folder(run.run_id)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_claim(ClaimNote(run.attempt, lease_sha256, dict(agent), time.time()))
        making = threading.Timer(self.making_s, self.make_job, [run])
        making.daemon = True
        making.start()
        return {"run_id": run.run_id, "attempt": run.attempt}

    def make_job(self, run: Run) -> dict[str, Any]:
        """What the controller does once the bundle is built."""
        path = self.folder(run.run_id).path
        return handed_over(path, self.config.state_dir, run.run_id, run.backend, run.attempt)
