"""The agent's requests to the server: one method for each of the protocol's.

Every method makes one request and does not repeat it (patience.py, download.py do). All of them can be used
by several threads at once: each exchange has a connection of its own, and one that is free serves again.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, TypeVar

import potato_ray
from potato_ray.agent import protocol
from potato_ray.agent.address import parse_address
from potato_ray.agent.answers import Answer, body_of, judge
from potato_ray.agent.asking import (
    Ask,
    ClaimedJob,
    encode,
    headers_of_body,
    headers_of_job,
    with_time_for_body,
)
from potato_ray.agent.errors import AgentMisconfigured, Misdirected, WrongToken
from potato_ray.agent.exchange import Exchange
from potato_ray.agent.line import Line, Patient, open_line
from potato_ray.agent.mishaps import FAILURES, TORN, unreachable
from potato_ray.agent.patience import Stop
from potato_ray.agent.tokens import check_token, read_again
from potato_ray.agent.trust import trusting
from potato_ray.agent.upload import Upload

T = TypeVar("T")

TIMEOUT_S = 20.0
CONNECT_S = 10.0
PACE_S = 60.0
"""How long a stream may go without a byte: a link that is back after 20 s goes on with it."""
IDLE_S = 3.0
"""How long a free connection is kept; servers let go of theirs after 5 s and more."""


class ServerConnection:
    """The way to one server. `url` may have a path prefix; `ca_file` holds the authorities to trust instead.

    When the token is refused, the one that lies in `token_file` by then is taken up, and asked with again.
    Methods raise ServerUnreachable, Refused and their kinds, and Stopped where a `stop` was given.
    Raises AgentMisconfigured for an address, a token or a CA file that cannot be used.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str | os.PathLike[str] | None = None,
        token_file: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        connect_s: float = CONNECT_S,
        pace_s: float = PACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = parse_address(url)
        self._token = check_token(token, "The token")
        self._token_file = token_file
        self._context = trusting(ca_file) if self._address.is_tls else None
        self._timeout_s = timeout_s
        self._connect_s = connect_s
        self._pace_s = pace_s
        self._clock = clock
        self._lock = threading.Lock()
        self._free: list[tuple[float, Line]] = []

    @property
    def shown(self) -> str:
        """The server's address as messages name it."""
        return self._address.shown

    def claim(
        self,
        lease: str,
        wait_s: float,
        agent: Mapping[str, Any],
        stop: Stop | None = None,
        backend: str = "",
    ) -> dict[str, Any] | None:
        """Ask for a job, for `wait_s` seconds; None when there is none. The same lease gets the same job.

        `backend`: the one that the token ought to be of, "" to leave that open.
        """
        body = {"lease": lease, "wait_s": wait_s, "agent": dict(agent)}
        body.update({"backend": backend} if backend else {})
        patient = Patient(wait_s + self._timeout_s, wait_s + self._timeout_s)
        answer = self._ask("POST", protocol.CLAIM, body, patient=patient, stop=stop, secrets=(lease,))
        return None if answer.status == 204 else body_of(answer, self.shown, (self._token, lease))

    def progress(
        self,
        job: ClaimedJob,
        first_seq: int,
        events: Sequence[Mapping[str, Any]],
        notes: Sequence[Mapping[str, Any]],
        alive: bool,
        stop: Stop | None = None,
    ) -> dict[str, Any]:
        """Tell the job's next events, and that it is in hand; `alive`: a worker lives."""
        body = {"first_seq": first_seq, "events": list(events), "notes": list(notes), "alive": alive}
        path = protocol.job_path(job.run_id, "progress")
        return body_of(self._ask("POST", path, body, job, stop=stop), self.shown, (self._token, job.lease))

    def put_predictions(
        self,
        job: ClaimedJob,
        path: Path,
        *,
        on_sent: Callable[[int, int], None] | None = None,
        stop: Stop | None = None,
    ) -> None:
        """Send the predictions. `on_sent` hears of bytes sent and in all. Raises OSError for the file."""
        with Upload(path, on_sent) as upload:
            where = protocol.job_path(job.run_id, "predictions")
            self._ask("PUT", where, upload, job, patient=Patient(self._pace_s), stop=stop)

    def result(self, job: ClaimedJob, body: Mapping[str, Any], stop: Stop | None = None) -> dict[str, Any]:
        """Tell how the job ended."""
        answer = self._ask("POST", protocol.job_path(job.run_id, "result"), body, job, stop=stop)
        return answer.body or {}

    def fetch(
        self,
        path: str,
        *,
        offset: int = 0,
        etag: str = "",
        job: ClaimedJob | None = None,
        stop: Stop | None = None,
    ) -> Exchange:
        """Ask for a file from `offset` on: an exchange with status 200 (all of it) or 206, to be closed.

        `etag`, strong and with its quotes, is that of the file whose beginning is there already.
        """
        return self._with_present_token(lambda: self._fetch(path, offset, etag, job, stop))

    def _fetch(
        self, path: str, offset: int, etag: str, job: ClaimedJob | None, stop: Stop | None
    ) -> Exchange:
        headers = {"Accept": "application/gzip, application/problem+json", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            headers.update({"If-Range": etag} if etag else {})
        ask = self._complete("GET", path, None, job, Patient(self._pace_s), stop, headers)
        exchange = self._open_exchange(ask)
        try:
            self._check_file(exchange, ask)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def close(self) -> None:
        """Hang up the connections that are free."""
        with self._lock:
            free, self._free = self._free, []
        for _, line in free:
            line.hang_up()

    def _with_present_token(self, request: Callable[[], T]) -> T:
        """What a request gives, which is made again where the token was replaced, and is so here by now."""
        used = self._token
        try:
            return request()
        except WrongToken as wrong:
            if not self._take_up_token(used, wrong):
                raise
        return request()

    def _take_up_token(self, used: str, wrong: WrongToken) -> bool:
        """Whether there is another token than the one that was used; `wrong` says what keeps it away."""
        if self._token_file is None:
            return False
        try:
            self._token = read_again(self._token_file) or self._token
        except AgentMisconfigured as unusable:
            wrong.evidence = f"{wrong.evidence} {unusable.message}".strip()
        return self._token != used

    def _check_file(self, exchange: Exchange, ask: Ask) -> None:
        if exchange.status in (200, 206):
            judge(Answer(exchange.status, exchange.headers, None), self.shown)
            return
        judge(exchange.answer(), self.shown, ask.secrets)
        raise Misdirected(f"{self.shown} answered {exchange.status} where a file was asked for.")

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Upload,
        job: ClaimedJob | None = None,
        *,
        patient: Patient | None = None,
        stop: Stop | None = None,
        secrets: tuple[str, ...] = (),
    ) -> Answer:
        limits = patient or Patient(self._timeout_s, self._timeout_s)

        def request() -> Answer:
            ask = with_time_for_body(self._complete(method, path, body, job, limits, stop, {}, secrets))
            with self._open_exchange(ask) as exchange:
                answer = exchange.answer()
            return judge(answer, self.shown, ask.secrets)

        return self._with_present_token(request)

    def _complete(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Upload | None,
        job: ClaimedJob | None,
        patient: Patient,
        stop: Stop | None,
        headers: Mapping[str, str],
        secrets: tuple[str, ...] = (),
    ) -> Ask:
        """The request with all its headers."""
        sent = body if isinstance(body, Upload) or body is None else encode(body)
        complete = {**self._usual_headers(), **headers, **headers_of_job(job), **headers_of_body(sent)}
        if job is not None:
            secrets = (*secrets, job.lease)
        target = self._address.target(path)
        return Ask(method, target, complete, sent, patient, stop, (self._token, *secrets))

    def _usual_headers(self) -> dict[str, str]:
        usual = {
            "Host": self._address.host_header,
            "Accept": "application/json, application/problem+json",
            "User-Agent": f"potato-ray-agent/{potato_ray.__version__}",
            "Authorization": f"Bearer {self._token}",
            protocol.VERSION_HEADER: str(protocol.VERSION),
        }
        proxy = self._address.proxy
        if proxy is not None and proxy.authorization and not self._address.is_tls:
            usual["Proxy-Authorization"] = proxy.authorization
        return usual

    def _open_exchange(self, ask: Ask) -> Exchange:
        """Send the request and wait for the head of the answer; again when a kept connection was dead."""
        kept = None if isinstance(ask.body, Upload) else self._take_free()
        try:
            if kept is not None:
                try:
                    return Exchange(kept, ask, self.shown, self._give_back)
                except TORN:
                    pass  # the server let go of it at this very moment; any request may be sent twice
            line = open_line(self._address, self._context, self._connect_s)
            return Exchange(line, ask, self.shown, self._give_back)
        except FAILURES as failure:
            raise unreachable(failure, self.shown) from failure

    def _take_free(self) -> Line | None:
        while True:
            with self._lock:
                if not self._free:
                    return None
                since, line = self._free.pop()
            if self._clock() - since < IDLE_S and line.is_quiet():
                return line
            line.hang_up()

    def keep(self, line: Line) -> None:
        """Use a connection that was made to the same server ahead, if it is soon."""
        self._give_back(line)

    def _give_back(self, line: Line) -> None:
        with self._lock:
            self._free.append((self._clock(), line))
