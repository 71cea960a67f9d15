"""What a host has: Python, disk, GPUs, torch, modules, commands. Nothing is written there."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.host.remote_dir import disk_facts, place

SMI_S = 10.0
TRIAL_S = 25.0
"""For SLURM to say whether it would take a job; one that is down says so after 18 s."""
ASK_S = 60.0
"""For an interpreter that imports torch for the first time."""
MOST_OUTPUT_CHARS = 4 << 20
WHOLE = "whole.json"
"""The file that says of an environment that it was built to its end."""
SLURM_DROPPED = ("SQUEUE_", "SBATCH_", "SCANCEL_", "SCONTROL_", "SALLOC_", "SRUN_", "SLURM_", "SLURMD_")
SLURM_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_SMI_ALSO_AT = "/usr/lib/wsl/lib"
_MARK = "answer: "
_ASK_TORCH = """
import json, torch
print('answer: ' + json.dumps({
    'version': torch.__version__,
    'cuda': torch.version.cuda or '',
    'hip': getattr(torch.version, 'hip', None) or '',
    'architectures': torch.cuda.get_arch_list(),
}))
"""
_ASK_MODULES = """
import importlib.util, json, sys
from importlib import metadata
def version(name):
    try:
        if importlib.util.find_spec(name) is None:
            return None
    except Exception:
        return None
    try:
        return metadata.version(name)
    except Exception:
        return ''
print('answer: ' + json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def facts(request: Mapping[str, Any], has_code: bool) -> dict[str, Any]:
    """The facts; of nvidia-smi, torch, modules and commands only what the request asks for.

    `smi`: [{"code", "out"}] for each list of arguments; `torch`: {"version", "cuda", "hip",
    "architectures"} or None; `modules`: {name: version, "" for an unknown one, None for none that is there},
    of `modules_of`, an interpreter by name or path, where that is given;
    `commands`: {name or path: path, None for one that is not there}; `trial`: {"code", "out"} of sbatch for a
    job with these flags, which is not submitted. `env` of the request is set before them.
    """
    built = environment_python(request)
    python = str(built) if built is not None and is_built(built) else sys.executable
    environment = {**os.environ, **(request.get("env") or {})}
    asked, search_path = request.get("modules") or (), environment.get("PATH")
    whose = shutil.which(_from_home(request.get("modules_of") or python), path=search_path)
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "python": python,
        "host": socket.gethostname(),
        "user": _user(),
        "home": str(Path.home()),
        "remote_dir": str(place(request)),
        "path": os.environ.get("PATH", ""),
        "has_code": has_code,
        **disk_facts(place(request)),
        "smi": ask_smi(request.get("smi") or ()),
        "torch": _ask(python, [_ASK_TORCH], environment) if request.get("torch") else None,
        "modules": _ask(whose, [_ASK_MODULES, *asked], environment) if asked and whose else None,
        "commands": {
            name: shutil.which(_from_home(name), path=search_path) for name in request.get("commands") or ()
        },
        "trial": _trial(request["trial"], request) if request.get("trial") is not None else None,
    }


def _from_home(name: str) -> str:
    """The path of a command below the home folder; any other name as it is."""
    return str(Path.home() / name[2:]) if name.startswith("~/") else name


def _trial(flags: Sequence[str], request: Mapping[str, Any]) -> dict[str, Any] | None:
    """What sbatch says to a job with these flags, without submitting it; None without sbatch.

    Its environment is that of a run's sbatch (agent.slurm.commands, which may not be here yet).
    """
    usual = {
        name: value
        for name, value in os.environ.items()
        if name in SLURM_KEPT or not name.startswith(SLURM_DROPPED)
    }
    environment = {**usual, **(request.get("env") or {})}
    sbatch = shutil.which("sbatch", path=environment.get("PATH"))
    if sbatch is None:
        return None
    command = [sbatch, "--test-only", "--output=/dev/null", *flags, "--wrap=:"]
    code, out = run(command, TRIAL_S, environment)
    return {"code": code, "out": out}


def environment_python(request: Mapping[str, Any]) -> Path | None:
    """The interpreter of the environment for the request's packages, built or not; None without packages."""
    packages = request.get("packages")
    if not packages:
        return None
    identity = json.dumps([list(packages), sys.version_info[:2], sys.executable])
    name = hashlib.sha256(identity.encode("utf-8")).hexdigest()[:32]
    return place(request) / "environments" / name / "bin" / "python"


def is_built(python: Path) -> bool:
    """Whether the environment of an interpreter was built to its end."""
    return (python.parents[1] / WHOLE).exists()


def ask_smi(calls: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """What nvidia-smi says to each list of arguments; once it hangs, it is not asked again."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=_SMI_ALSO_AT)
    answers: list[dict[str, Any]] = []
    for arguments in calls:
        if program is None:
            answers.append({"code": None, "out": "nvidia-smi was not found"})
        elif answers and answers[-1]["code"] is None:
            answers.append(answers[-1])
        else:
            code, out = run([program, *arguments], SMI_S)
            answers.append({"code": code, "out": out})
    return answers


def run(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Exit code and output, errors among it; None and why, where there is none in time. Never raises."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**(os.environ if environment is None else environment), "LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as failure:
        return None, f"{Path(command[0]).name} could not be started: {failure.strerror}"
    try:
        output = process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        _abandon(process)
        return None, f"{Path(command[0]).name} did not answer within {timeout_s:g} s"
    return process.returncode, output.decode("utf-8", "replace")[:MOST_OUTPUT_CHARS]


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill it, but do not wait long: one that hangs in its driver does not even die."""
    os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        pass


def _ask(python: str, program: Sequence[str], environment: Mapping[str, str]) -> Any:
    """What a program says to an interpreter; None where it does not say it."""
    code, out = run([python, "-c", *program], ASK_S, environment)
    # Whatever else a library prints while it is imported stands on other lines.
    told = [line[len(_MARK) :] for line in out.splitlines() if line.startswith(_MARK)]
    return json.loads(told[-1]) if told and code == 0 else None


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
