"""`potato-ray training register`: a token for the agents of a backend, and what to type on their machine."""

from __future__ import annotations

import ipaddress
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from potato_ray.agent_tokens import digest_of, new_token, require_agent_backend
from potato_ray.backends.agents_seen import ADDRESS, FILL_IN, one_file_commands, start_command
from potato_ray.cli.output import out, print_json, say, when
from potato_ray.cli.run_command import command_project
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import NotFound
from potato_ray.lock import SERVING, holder
from potato_ray.registry.agents import TokenRecord
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import ACTIVE


def run_register(name: str, config: Path, *, as_json: bool, sure: bool = False) -> int:
    """Issue a token through whoever holds the project or, with nobody, here; it is printed this once.

    Somebody at a terminal is asked before a token is replaced, unless they are `sure`; 1 when they say no.
    Raises NotFound for an unknown backend, Conflict (not_an_agent_backend) for one of another type.
    """
    loaded = load(config)
    reader = RegistryReader(loaded.registry_path)
    before = reader.token_of(name)
    in_hand = [] if before is None else _in_hand(reader, name)
    if before is not None and not sure and _is_terminal() and not _may_replace(name, before, in_hand):
        say("The token is as it was.")
        return 1
    answer = _registered(loaded, name)
    seen = server_seen(loaded)
    if as_json:
        print_json(
            {
                **answer,
                "server": None if seen.address == ADDRESS else seen.address,
                "replaced": before and {"created_at": before.created_at, "last_seen": before.last_seen},
            }
        )
    else:
        for line in token_lines(name, answer["token"], seen.address):
            out(line)
    if before is not None:
        say(f"Note: this replaced {_known_as(before)}. An agent that has that one is refused from now on.")
    if in_hand:
        say(_before_it_is_lost(loaded, name, in_hand))
    for note in notes(seen, loaded):
        say(note)
    return 0


def _is_terminal() -> bool:
    """Whether somebody is there to answer: what is asked goes to stderr."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _may_replace(name: str, before: TokenRecord, in_hand: Sequence[str]) -> bool:
    runs = f" Its agents have runs in hand: {', '.join(in_hand)}." if in_hand else ""
    sys.stderr.write(f"Backend '{name}' has a token: {_known_as(before)}.{runs} Replace it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _in_hand(reader: RegistryReader, name: str) -> list[str]:
    """The runs of a backend that agents with its present token have in hand."""
    return [run.run_id for run in reader.unfinished() if run.backend == name and run.state in ACTIVE]


def _before_it_is_lost(config: ProjectConfig, name: str, in_hand: Sequence[str]) -> str:
    timeout_s = getattr(config.model_training.backends[name], "heartbeat_timeout_s", 0.0)
    which = f"Run {in_hand[0]} is" if len(in_hand) == 1 else f"Runs {', '.join(in_hand)} are"
    return (
        f"Warning: {which} in the hands of an agent with the old token. Write the new one into the file of "
        f"its --token-file within {timeout_s:.0f} s (heartbeat_timeout_s); otherwise the run is lost."
    )


def _known_as(token: TokenRecord) -> str:
    last_seen = "never used" if token.last_seen is None else f"last seen {when(token.last_seen)}"
    return f"the one issued {when(token.created_at)}, {last_seen}"


def _registered(config: ProjectConfig, name: str) -> dict[str, str]:
    try:
        answer: dict[str, str] = command_project(config, "register_backend", name, register_here)
    except NotFound as unknown:
        is_old = unknown.code == NotFound.default_code and name in config.model_training.backends
        if not is_old:
            raise
        raise NotFound(
            unknown.message,
            code=unknown.code,
            evidence=f"It is in {config.path}, but whoever holds the project was started before that.",
            next_step="Start the server again, then register it.",
        ) from None
    return answer


def register_here(config: ProjectConfig, name: str) -> dict[str, str]:
    """A new token while nobody else is at work; the project's lock is ours."""
    from potato_ray.registry.store import Registry

    require_agent_backend(config, name)
    token = new_token()
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        registry.put_token(name, digest_of(token))
    return {"backend": name, "token": token}


# Where the server is, for an agent -----------------------------------------------------------------


@dataclass(frozen=True)
class ServerSeen:
    """The server of the project as an agent sees it.

    `address` is where agents find it (ADDRESS while nobody knows); `is_up`: there is one at present;
    `listens_on` is its own address, "" where that is not known.
    """

    address: str = ADDRESS
    is_up: bool = False
    listens_on: str = ""

    @property
    def is_here_alone(self) -> bool:
        """Whether no other machine can reach it."""
        return bool(self.listens_on) and _ip(self.listens_on).is_loopback

    @property
    def is_everywhere(self) -> bool:
        """Whether it listens on every address of its machine."""
        return bool(self.listens_on) and _ip(self.listens_on).is_unspecified


def server_seen(config: ProjectConfig) -> ServerSeen:
    """What the note of the project's holder says; nothing is asked."""
    note = holder(config.state_dir) or {}
    url = note.get("url")
    if note.get("purpose") != SERVING or not isinstance(url, str):
        return ServerSeen()
    seen = ServerSeen(url, is_up=True, listens_on=_known(note.get("listens_on")))
    return ServerSeen(_by_name(url, note), True, seen.listens_on) if seen.is_everywhere else seen


def _by_name(url: str, note: Mapping[str, Any]) -> str:
    """The note has the way through loopback; other machines take this one's name."""
    return f"http://{note.get('host') or socket.gethostname()}:{urlsplit(url).port or 80}"


def _known(listens_on: object) -> str:
    try:
        return str(_ip(str(listens_on)))
    except ValueError:
        return ""


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text.partition("%")[0])


# What is printed -----------------------------------------------------------------------------------


def token_lines(name: str, token: str, address: str) -> Iterator[str]:
    """The token, and what to type; to be copied as it stands."""
    yield f"Token for backend '{name}' (shown once; registering again replaces it):"
    yield token
    yield "On the training machine:"
    yield f"export POTATO_TRAINING_TOKEN={token}"
    yield start_command(name, address)
    if address == ADDRESS:
        yield FILL_IN
    yield ""
    yield "Where potato-ray is not installed (Python 3.8 or newer and the trainer's packages are enough):"
    yield f"export POTATO_TRAINING_TOKEN={token}"
    yield from one_file_commands(name, address)


def notes(seen: ServerSeen, config: ProjectConfig) -> Iterator[str]:
    """What stands between an agent on another machine and the server."""
    if not seen.is_up:
        start = f"potato-ray start {shlex.quote(str(config.path))} --host 0.0.0.0"
        yield (
            "Note: no server has the project at present. By itself one listens on 127.0.0.1 alone, where an "
            f"agent on another machine cannot reach it: {start} listens on every address."
        )
    elif seen.is_here_alone:
        yield (
            f"Warning: the server listens on {seen.listens_on} alone, so an agent on another machine cannot "
            "reach it. Start it with --host and an address that the other machine reaches, or put a reverse "
            "proxy with TLS in front of it and give the agent the proxy's address as --server."
        )
    elif seen.is_everywhere:
        yield (
            f"Note: {urlsplit(seen.address).hostname} is what this machine calls itself; give the agent the "
            "name or address by which its own machine reaches the server."
        )
    if not seen.is_here_alone:
        yield (
            "Warning: over plain http the token, the texts and the predictions can be read on the way. Use "
            "https (a reverse proxy with TLS) unless you trust every network between the two machines."
        )
