"""`potato-ray start`: the server of one project."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from potato_ray.cli.output import out, print_error, say
from potato_ray.cli.running import left
from potato_ray.cli.runs import reader_of
from potato_ray.config import validate
from potato_ray.config.admin_key import FILE_NAME, VARIABLE, ensure_admin_key
from potato_ray.errors import PotatoRayError
from potato_ray.lock import SERVING

if TYPE_CHECKING:
    import socket

    from potato_ray.actors.session import Session
    from potato_ray.config.models import ProjectConfig
    from potato_ray.server.agent_socket import AgentListening
    from potato_ray.server.context import ServerContext
    from potato_ray.server.ending import Ending, Inbox

TAKE_DOWN_S = 40.0


def run_start(path: Path, host: str, port: int, *, spare: bool) -> int:
    """Serve a project until a signal; the exit code.

    Answers 1 for a configuration with errors, a project or a port in use, and when Ray is lost for good;
    0 after SIGTERM or SIGHUP, 130 after Ctrl-C.
    """
    found = validate(path)
    if found.errors:
        say(found.as_text())
        return 1
    for warning in found.warnings:
        say(f"Warning: {warning}")
    from potato_ray.server.listening import bind

    findings = tuple(finding.text for finding in found.warnings)
    return serve(found.require(), lambda: bind(host, port), findings, spare=spare)


def serve(
    config: ProjectConfig,
    bind: Callable[[], socket.socket],
    findings: tuple[str, ...] = (),
    *,
    spare: bool = True,
) -> int:
    """Hold a project and serve it; `bind` gives the socket. Raises Conflict when it is in use."""
    from potato_ray.actors.session import Session
    from potato_ray.server.ending import signals_into

    inbox: Inbox = SimpleQueue()
    warm = spare and config.model_training.enabled
    session = Session(config, SERVING, warm=warm, hears_agents=True)
    with signals_into(inbox):
        session.hold()
        try:
            return Serving(session, bind(), findings, inbox).run()
        finally:
            session.lock.release()


class Serving:
    """One server from its first request to its end; the project's lock is held."""

    def __init__(
        self, session: Session, listener: socket.socket, findings: tuple[str, ...], inbox: Inbox
    ) -> None:
        from potato_ray.server.app import create_app
        from potato_ray.server.context import ServerContext
        from potato_ray.server.ending import BROKEN
        from potato_ray.server.life import Life
        from potato_ray.server.link import LiveLink
        from potato_ray.server.listening import Listening

        self.session = session
        self.config = session.config
        self.listener = listener
        self.inbox = inbox
        self.reader = reader_of(self.config)
        self.link = LiveLink(session)
        context = ServerContext(self.config, self.reader, self.link, ensure_admin_key(self.config), findings)
        give_up = functools.partial(inbox.put, BROKEN)
        self.http = Listening(create_app(context), listener, ended=give_up)
        self.agents = _for_agents(context, give_up)
        self.life = Life(session, self.link, tell=tell, failed=give_up)

    def run(self) -> int:
        """The exit code, once the server has ended and nothing of it is left."""
        from potato_ray.server.listening import url_of

        self.http.start()
        if self.agents is not None:
            self.agents.start()
            self.session.describe(agent_socket=str(self.agents.path))
        self.session.describe(url=url_of(self.listener), listens_on=self.listener.getsockname()[0])
        self._announce()
        ending = self._ending()
        self.life.start()
        try:
            code = ending.wait()
        finally:
            self._stop()
        ending.tell_what_has_changed()
        if self.link.trouble is not None:
            print_error(self.link.trouble)
        return code

    def _ending(self) -> Ending:
        from potato_ray.server.ending import Ending

        return Ending(
            self.inbox,
            self.reader,
            hold=functools.partial(self.session.insist, "hold_queue"),
            cancel=functools.partial(self.session.insist, "cancel"),
            outlook=functools.partial(left, self.config),
            tell=tell,
            grace_s=float(self.config.model_training.grace_seconds),
        )

    def _stop(self) -> None:
        self.link.close()
        self.http.stop()
        if self.agents is not None:
            self.agents.stop()
        if not self.life.stop(TAKE_DOWN_S):
            tell("Ray has not ended in time; its processes end with this one")

    def _announce(self) -> None:
        from potato_ray.server.listening import is_loopback, url_of

        config, url = self.config, url_of(self.listener)
        with contextlib.suppress(OSError):
            out(f"Training page: {url}/admin/training")
            out(f"admin key: {where_the_key_is(config)}")
            sys.stdout.flush()
        if not config.model_training.enabled:
            tell("model_training.enabled is not true: the Training page and its API answer 404")
        if config.debug and not is_loopback(self.listener):
            tell(
                "Warning: debug is true, so whoever works on this machine is an admin, and the server can be "
                "reached from other machines; set debug to false"
            )


def _for_agents(context: ServerContext, ended: Callable[[], None]) -> AgentListening | None:
    """The second listener; None where no backend has agents, or the socket cannot be had."""
    from potato_ray.server.agent_socket import AgentListening, is_wanted

    if not is_wanted(context.config.model_training):
        return None
    try:
        return AgentListening(context, ended)
    except PotatoRayError as trouble:
        tell(f"Warning: {trouble.message} {trouble.evidence} Machines that are reached by ssh cannot report")
        return None


def where_the_key_is(config: ProjectConfig) -> str:
    """Where somebody finds the admin key; never the key itself."""
    if config.admin_api_key:
        return f"admin_api_key in {config.path}"
    if os.environ.get(VARIABLE, "").strip():
        return f"the environment variable {VARIABLE}"
    return str(config.task_dir / FILE_NAME)


def tell(message: str) -> None:
    """One line on stderr; a terminal that is gone (SIGHUP) keeps nothing from ending."""
    with contextlib.suppress(OSError, ValueError):
        say(message)
