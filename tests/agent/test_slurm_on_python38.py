"""A SLURM job under Python 3.8: submitted, looked at, and explained."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fake_slurm import FakeSlurm
from parts import need_python38

import potato_ray

ROOT = Path(potato_ray.__file__).parents[1]
WHOLE_LIFE = """
import json, sys, threading
from dataclasses import asdict
from pathlib import Path
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.endings import ending
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.looks import Looks
from potato_ray.agent.slurm.script import job_script
from potato_ray.agent.slurm.states import in_words
from potato_ray.agent.slurm.submission import submit

folder, env = Path(sys.argv[1]), json.loads(sys.argv[2])
keys = SlurmKeys.from_json({"partition": "gpu", "time": 5, "prelude": ["true"], "env": env})
slurm = Slurm(keys.env, host="login1")
job = submit(slurm, folder, "run-7.1", lambda name: job_script(keys, name, folder, folder, "python3"),
             threading.Event())
for looks in (Looks(slurm, folder, 60.0), Looks(slurm, folder, 60.0)):
    words = in_words(job.job_id, looks.look(job.key))
failure = ending(job.job_id, slurm.show_job(job.job_id), "", None)
print(json.dumps([words, asdict(failure)]))
"""


def test_a_job_lives_and_ends_under_python_38(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path / "slurm")
    fake.shows("JobId=4242 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15 TimeLimit=00:05:00 NodeList=n1\n")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{WHOLE_LIFE}"
    command = [need_python38(), "-I", "-W", "error", "-c", code, str(tmp_path), json.dumps(fake.env)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    words, failure = json.loads(ended.stdout)
    assert words == "SLURM job 4242: PENDING"
    assert failure["message"].endswith(": it reached its time limit of 00:05:00 on n1.")
    assert len(fake.calls("squeue")) == 1
