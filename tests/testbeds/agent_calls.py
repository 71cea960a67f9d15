"""An agent's requests, with the headers that they need, for tests of the routes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from agent_jobs import AGENT, EXIT, LEASE, RESULT_EVENT

from potato_ray.agent.protocol import (
    ATTEMPT_HEADER,
    CLAIM,
    DIGEST_HEADER,
    LEASE_HEADER,
    VERSION_HEADER,
    job_path,
)

LINES = b'{"instance_id": "a", "schema_name": "sentiment", "payload": {}, "confidence": 0.5}\n' * 50


class AgentCalls:
    """The requests of one agent. `client` has a `request` as httpx's clients have it."""

    def __init__(self, client: Any, token: str, lease: str = LEASE) -> None:
        self.client = client
        self.token = token
        self.lease = lease
        self.run_id = ""
        self.attempt = 1

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", VERSION_HEADER: "1"}

    @property
    def job_headers(self) -> dict[str, str]:
        return {**self.headers, ATTEMPT_HEADER: str(self.attempt), LEASE_HEADER: self.lease}

    def claim(self, wait_s: float = 5, backend: Any = None, **agent: Any) -> Any:
        body = {"lease": self.lease, "wait_s": wait_s, "agent": {**AGENT, **agent}}
        body.update({} if backend is None else {"backend": backend})
        answer = self.client.request("POST", CLAIM, json=body, headers=self.headers)
        if answer.status_code == 200:
            self.run_id, self.attempt = answer.json()["run_id"], answer.json()["attempt"]
        return answer

    def bundle(self, method: str = "GET", **headers: str) -> Any:
        sent = {**self.job_headers, **headers}
        return self.client.request(method, job_path(self.run_id, "bundle"), headers=sent)

    def progress(self, first_seq: int = 0, events: Any = (), **body: Any) -> Any:
        return self.send("progress", {"first_seq": first_seq, "events": list(events), **body})

    def result(self, next_seq: int = 0, **body: Any) -> Any:
        return self.send("result", {"exit": EXIT, "next_seq": next_seq, **body})

    def send(self, what: str, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = job_path(self.run_id, what)
        return self.client.request("POST", path, content=data, headers=self.job_headers)

    def predictions(self, data: bytes = LINES, **headers: str) -> Any:
        sent = {**self.job_headers, DIGEST_HEADER: sha256(data).hexdigest(), **headers}
        return self.client.request("PUT", job_path(self.run_id, "predictions"), content=data, headers=sent)

    def finish(self) -> Any:
        """The rest of a job that went well; the answer to its result."""
        self.progress(0, [RESULT_EVENT])
        self.predictions()
        return self.result(1)
