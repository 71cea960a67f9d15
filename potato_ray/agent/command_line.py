"""The agent's command line: `python -m potato_ray.agent`, `agent.pyz` and `potato-ray training agent`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from potato_ray.agent.settings import DEFAULT_WORKDIR, Settings, Timing
from potato_ray.agent.stop_request import StopRequest
from potato_ray.agent.voice import Voice

if TYPE_CHECKING:
    from potato_ray.agent.slurm.keys import SlurmKeys

DEFAULT_TIMING = Timing()
COMMAND = "potato-ray training agent"
EXIT_FINISHED = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_PROTOCOL = 3
"""Server and agent speak different versions: a service manager need not start this agent again."""
EXIT_INTERRUPTED = 130
NOT_SHARED = (
    "is local to each machine as a rule: it must be the same folder on this machine and on the compute nodes."
)
_MACHINES_OWN = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - looked for, not used


def started_as(script: str) -> str:
    """What to type to start the agent again, by sys.argv[0]: a module of the package, or agent.pyz."""
    python = Path(sys.executable).name or "python3"
    return f"{python} -m potato_ray.agent" if Path(script).name == "__main__.py" else f"{python} {script}"


def main(arguments: Sequence[str], timing: Timing = DEFAULT_TIMING, command: str = COMMAND) -> int:
    """Work until told to stop; the exit code. `command` is what it was started by, without options."""
    options = _parser(command).parse_args(arguments)
    stop = StopRequest()
    stop.install()
    return _work(options, timing, stop, Voice())


def _work(options: argparse.Namespace, timing: Timing, stop: StopRequest, voice: Voice) -> int:
    # Imported here: --help needs nothing of it.
    from potato_ray.agent.connection import ServerConnection
    from potato_ray.agent.errors import AgentError, ProtocolMismatch
    from potato_ray.agent.loop import Agent
    from potato_ray.agent.machine import python_version
    from potato_ray.agent.privacy import hide_memory
    from potato_ray.agent.server_contact import contacts
    from potato_ray.agent.tokens import read_token
    from potato_ray.agent.workdir import Workdir

    try:
        # First of all: what is started from here on inherits an environment without it.
        hide_memory()
        token = read_token(options.token_file)
        settings = _settings(options, timing)
        version = python_version(settings.python)
        connection = ServerConnection(
            settings.server, token, ca_file=options.ca_file, token_file=options.token_file
        )
        workdir = Workdir(settings.workdir)
        voice.say(f"agent for backend {settings.backend} of {connection.shown}; jobs are in {workdir.path}")
        if settings.slurm is not None and _is_local(workdir.path):
            voice.say(f"Warning: --workdir {workdir.path} {NOT_SHARED}")
        Agent(settings, workdir, contacts(connection, workdir, settings, version), stop, voice).run()
        connection.close()
    except ProtocolMismatch as mismatch:
        voice.say(str(mismatch))
        return EXIT_PROTOCOL
    except AgentError as error:
        voice.say(str(error))
        return EXIT_ERROR
    voice.say("stopped")
    return EXIT_INTERRUPTED if stop.last_signal == signal.SIGINT else EXIT_FINISHED


def _settings(options: argparse.Namespace, timing: Timing) -> Settings:
    python = options.python
    if "/" in python:
        # Not resolved: the python of a virtual environment is a link, and is told by its place.
        python = str(Path(python).expanduser().absolute())
    return Settings(
        server=options.server.rstrip("/"),
        backend=options.backend,
        workdir=Path(options.workdir).expanduser(),
        python=python,
        once=options.once,
        keep=options.keep,
        timing=timing,
        slurm=None if options.slurm_config is None else _slurm_keys(options.slurm_config),
    )


def _is_local(folder: Path) -> bool:
    """Whether it lies where each machine has files of its own, as a rule."""
    return any(place in (folder, *folder.parents) for place in map(Path, _MACHINES_OWN))


def _slurm_keys(path: Path) -> SlurmKeys:
    """Raises SlurmConfigInvalid."""
    from potato_ray.agent.slurm.keys import SlurmConfigInvalid, SlurmKeys

    try:
        body = json.loads(path.expanduser().read_text("utf-8"))
    except OSError as failure:
        raise SlurmConfigInvalid(
            f"The file of --slurm-config, {path}, cannot be read: {failure.strerror}.",
            next_step='Write the SLURM keys into it, such as {"partition": "gpu", "gres": "gpu:1"}.',
        ) from failure
    except ValueError as failure:
        raise SlurmConfigInvalid(
            f"The file of --slurm-config, {path}, is no JSON: {failure}.",
            next_step='It holds one object, such as {"partition": "gpu", "gres": "gpu:1"}.',
        ) from failure
    return SlurmKeys.from_json(body)


def _parser(command: str = COMMAND) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command,
        description="Ask a server for jobs, run them on this machine, and send home what comes of them. "
        "The token is read from POTATO_TRAINING_TOKEN or from a file.",
    )
    add = parser.add_argument
    add("--server", required=True, metavar="URL", help="the server, such as http://HOST:8000")
    add("--backend", required=True, metavar="NAME", help="the backend that the token was made for")
    add("--token-file", type=Path, metavar="FILE", help="holds the token; readable by you alone")
    add("--python", default=sys.executable, metavar="INTERPRETER", help="runs the workers")
    add("--once", action="store_true", help="end after one job")
    add("--workdir", default=DEFAULT_WORKDIR, metavar="DIR", help=f"default {DEFAULT_WORKDIR}")
    add("--keep", action="store_true", help="keep each job's bundle and logs, too")
    add("--ca-file", type=Path, metavar="FILE", help="certificates to trust, in PEM")
    add("--slurm-config", type=Path, metavar="FILE", help="submit to SLURM, with the keys in this JSON file")
    return parser
