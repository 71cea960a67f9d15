"""Stand-ins for sbatch, squeue, scancel and scontrol, which answer from the files of one folder.

    jobs.json            the jobs that this SLURM knows: id -> {name, state, reason, nodes}, perhaps {cluster}
    NAME.answers.json    what NAME answers instead, one entry a call, as FakeSlurm.answers has them
    NAME.calls.jsonl     how NAME was called: {args, env, cwd, session}
    show.txt             the answer to `scontrol show job`

The files may be changed while a test runs.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
FIRST_ID = 4242
UNKNOWN = "slurm_load_jobs error: Invalid job id specified\n"
DOWN = "Unable to contact slurm controller (connect failure)"
MOST_S = 30.0
TIMED_OUT = "Socket timed out on send/recv operation"


class FakeSlurm:
    """A login node: its commands are in `bin`, and `env` leads to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name in COMMANDS:
            program = self.bin / name
            script = Path(__file__).resolve()
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{script}" {name} "$@"\n')
            program.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "FAKE_SLURM_DIR": str(self.folder)}

    def answers(self, name: str, **answer: Any) -> None:
        """Let the next call of a command that has no answer yet be answered like this.

        `code`, `out`, `err`, `delay_s`; `submits`: sbatch takes the job all the same, with "late" after its
        delay. `after`: a file that it waits for before all that. A code below 0 is the signal that ends it.
        """
        path = self.folder / f"{name}.answers.json"
        path.write_text(json.dumps([*(_read(path) or []), answer]))

    def calls(self, name: str) -> list[dict[str, Any]]:
        """How a command was called, in order."""
        path = self.folder / f"{name}.calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def arguments(self, name: str) -> list[list[str]]:
        return [call["args"] for call in self.calls(name)]

    def job(
        self, job_id: str, state: str = "", reason: str = "None", nodes: str = "", name: str = ""
    ) -> None:
        """Let there be a job in this state; without one it is forgotten."""
        jobs = self.jobs()
        before = jobs.pop(job_id, {"name": name})
        if state:
            jobs[job_id] = {**before, "state": state, "reason": reason, "nodes": nodes}
        _write(self.folder / "jobs.json", jobs)

    def jobs(self) -> dict[str, dict[str, str]]:
        return dict(_read(self.folder / "jobs.json") or {})

    def shows(self, text: str) -> None:
        """What `scontrol show job` prints."""
        (self.folder / "show.txt").write_text(text)


def _answer(name: str, arguments: list[str], folder: Path) -> tuple[int, str, str]:
    path = folder / f"{name}.answers.json"
    queued = _read(path) or []
    if not queued:
        return _usual(name, arguments, folder)
    answer = queued.pop(0)
    _write(path, queued)
    ends_at = time.monotonic() + MOST_S
    while "after" in answer and not Path(answer["after"]).exists() and time.monotonic() < ends_at:
        time.sleep(0.02)
    submits = answer.get("submits")
    if submits and submits != "late":
        _submit(arguments, folder)
    time.sleep(answer.get("delay_s", 0.0))
    if submits == "late":
        _submit(arguments, folder)
    return answer.get("code", 0), answer.get("out", ""), answer.get("err", "")


def _usual(name: str, arguments: list[str], folder: Path) -> tuple[int, str, str]:
    if name == "sbatch":
        return 0, f"{_submit(arguments, folder)}\n", ""
    if name == "squeue":
        return _queue(arguments, folder)
    if name == "scontrol":
        shown = folder / "show.txt"
        return (0, shown.read_text(), "") if shown.exists() else (1, "", UNKNOWN)
    return 0, "", ""


def _submit(arguments: list[str], folder: Path) -> str:
    script = Path(arguments[-1]).read_text()
    name = next(line for line in script.splitlines() if "--job-name=" in line).partition("=")[2]
    jobs = _read(folder / "jobs.json") or {}
    job_id = str(max([FIRST_ID - 1, *map(int, jobs)]) + 1)
    jobs[job_id] = {"name": name, "state": "PENDING", "reason": "None", "nodes": ""}
    clusters = re.findall(r"^#SBATCH (?:--clusters=|-M ?)(\S+)", script, re.MULTILINE)
    if clusters:
        jobs[job_id]["cluster"] = clusters[-1].split(",")[-1]
    _write(folder / "jobs.json", jobs)
    return f"{job_id};{jobs[job_id]['cluster']}" if clusters else job_id


def _queue(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    jobs = _read(folder / "jobs.json") or {}
    wanted = dict(itertools.pairwise(arguments))
    if "-n" in wanted:
        found = [job_id for job_id, job in jobs.items() if job["name"] in wanted["-n"].split(",")]
    else:
        asked = wanted["-j"].split(",")
        found = [job_id for job_id in asked if job_id in jobs]
        if not found and len(asked) == 1:
            return 1, "", UNKNOWN
    cluster = wanted.get("-M", "")
    rows = ((job_id, jobs[job_id]) for job_id in found if jobs[job_id].get("cluster", cluster) == cluster)
    lines = [f"{job_id}|{job['state']}|{job['reason']}|{job['nodes']}\n" for job_id, job in rows]
    return 0, "".join(lines), ""


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def _write(path: Path, body: Any) -> None:
    aside = path.with_suffix(f".{os.getpid()}.new")
    aside.write_text(json.dumps(body))
    aside.replace(path)


def main() -> int:
    name, *arguments = sys.argv[1:]
    folder = Path(os.environ["FAKE_SLURM_DIR"])
    with (folder / f"{name}.calls.jsonl").open("a") as calls:
        body = {"args": arguments, "env": dict(os.environ), "cwd": str(Path.cwd()), "session": os.getsid(0)}
        calls.write(json.dumps(body) + "\n")
    code, out, err = _answer(name, arguments, folder)
    sys.stdout.write(out)
    sys.stderr.write(err)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
