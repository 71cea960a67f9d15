"""job.sh, what it says to sbatch, and what bash makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.script import cluster_of, job_script

WHOLE = """\
#!/bin/bash
#SBATCH --job-name=potato-run-7.1-ab12
#SBATCH --output=/jobs/7.1/slurm.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1
#SBATCH --exclusive

# The backend's env, before its prelude: what a module puts in front of PATH has to stay there.
export PATH=/opt/slurm/bin:/usr/bin
export NOTE='it'"'"'s $HOME {x}'

potato_ray_noted() {
    local line=$(($2 - 19))
    [ "${#BASH_SOURCE[@]}" -gt 2 ] || echo "potato-ray: line $line of the prelude failed with code $1" >&2
}
trap 'potato_ray_noted "$?" "$LINENO"' ERR
trap 'echo "potato-ray: the prelude ended the job with code $?" >&2' EXIT
module load cuda
trap - ERR EXIT

# exec: the signals that SLURM sends before it kills reach this process alone, not its children.
exec "$HOME"/venv/bin/python -S -E /shared/code/5f/potato_ray/job/start.py launcher /jobs/7.1 --foreground
"""


def made(folder: Path, python: str = "python3", **keys: Any) -> str:
    return job_script(
        SlurmKeys.from_json(keys), "potato-run-7.1-ab12", folder, Path("/shared/code/5f"), python
    )


def test_the_whole_script() -> None:
    env = {"PATH": "/opt/slurm/bin:/usr/bin", "NOTE": "it's $HOME {x}"}
    whole = made(
        Path("/jobs/7.1"),
        partition="gpu",
        gres="gpu:1",
        sbatch_args=["--exclusive"],
        prelude=["module load cuda"],
        env=env,
        job_python="~/venv/bin/python",
    )
    assert whole == WHOLE


def test_without_prelude_and_env_it_is_directives_and_one_command() -> None:
    lines = made(Path("/j")).splitlines()
    assert [line for line in lines if line and line[0] != "#"] == [lines[-1]]
    assert lines[-1].startswith("exec python3 -S -E ")


@pytest.mark.parametrize(
    ("folder", "output"),
    [
        ("/a/50%", "--output=/a/50%%/slurm.out"),
        ("/my files/x", '--output="/my files/x/slurm.out"'),
        ('/a"b', '--output="/a\\"b/slurm.out"'),
        ("/a#b", '--output="/a#b/slurm.out"'),
    ],
)
def test_a_path_is_quoted_as_sbatch_reads_it(folder: str, output: str) -> None:
    assert f"#SBATCH {output}\n" in made(Path(folder))


def test_a_flag_and_its_value_are_one_line_however_they_are_written() -> None:
    script = made(Path("/j"), sbatch_args=["-C", "a100", "--exclusive", "-c 4"])
    assert "#SBATCH -C a100\n#SBATCH --exclusive\n#SBATCH -c 4\n" in script


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter that tells how it was called, instead of starting a launcher."""
    program = tmp_path / "my python"
    program.write_text(
        f"#!{sys.executable} -SE\nimport json, os, sys\n"
        "print(json.dumps({'pid': os.getpid(), 'args': sys.argv[1:], 'env': dict(os.environ)}))\n"
    )
    program.chmod(0o755)
    return str(program)


def run(script: str, tmp_path: Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, how the interpreter was called, and stderr."""
    path = tmp_path / "slurm_script"
    path.write_text(script)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen(
        ["/bin/bash", str(path)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as bash:
        out, err = bash.communicate(timeout=30)
    called = json.loads(out) if out else {}
    assert called.get("pid", bash.pid) == bash.pid
    return bash.returncode, called, err


def test_the_launcher_takes_the_place_of_the_shell(tmp_path: Path, python: str) -> None:
    folder = tmp_path / "a job"
    code, called, err = run(made(folder, python), tmp_path)
    start = "/shared/code/5f/potato_ray/job/start.py"
    assert called["args"] == ["-S", "-E", start, "launcher", str(folder), "--foreground"]
    assert (code, err) == (0, "")


def test_a_prelude_sees_the_env_and_has_the_last_word(tmp_path: Path, python: str) -> None:
    prelude = ['export PATH="/module:$PATH"', "if true", "then", "    export SEEN=$GIVEN", "fi"]
    env = {"PATH": "/usr/bin:/bin", "GIVEN": "a\r\nb\\n  'c' é\x7f"}
    _, called, err = run(made(tmp_path, python, prelude=prelude, env=env), tmp_path)
    assert called["env"]["PATH"] == "/module:/usr/bin:/bin"
    assert called["env"]["SEEN"] == env["GIVEN"]
    assert err == ""


def test_a_line_of_the_prelude_that_fails_is_noted_and_the_job_goes_on(tmp_path: Path, python: str) -> None:
    prelude = ["true", "nosuchmodule load cuda", "false || true", "( exit 3 )"]
    code, called, err = run(made(tmp_path, python, prelude=prelude, env={"X": "a\nb"}), tmp_path)
    assert "nosuchmodule: command not found\n" in err
    assert "potato-ray: line 2 of the prelude failed with code 127\n" in err
    assert "potato-ray: line 4 of the prelude failed with code 3\n" in err
    assert err.count("potato-ray: ") == 2
    assert (code, bool(called)) == (0, True)


def test_what_fails_within_a_file_or_a_function_is_its_own_affair(tmp_path: Path, python: str) -> None:
    (tmp_path / "activate").write_text("false\ninner() { false; true; }\ninner\n")
    code, called, err = run(made(tmp_path, python, prelude=['. "$HOME/activate"']), tmp_path)
    assert (code, bool(called), err) == (0, True, "")


@pytest.mark.parametrize(("line", "code"), [("exit 4", 4), ("set -e; false", 1), ("fi", 2), ("echo '", 2)])
def test_a_prelude_that_ends_the_job_is_noted(tmp_path: Path, python: str, line: str, code: int) -> None:
    ended, called, err = run(made(tmp_path, python, prelude=[line]), tmp_path)
    assert (ended, called) == (code, {})
    assert f"potato-ray: the prelude ended the job with code {code}\n" in err


def test_an_interpreter_that_is_missing_is_no_fault_of_the_prelude(tmp_path: Path) -> None:
    code, _, err = run(made(tmp_path, "nosuchpython", prelude=["true"]), tmp_path)
    assert code == 127
    assert "exec: nosuchpython: not found" in err
    assert "potato-ray" not in err


@pytest.mark.parametrize(
    ("arguments", "cluster"),
    [
        ([], ""),
        (["--clusters=far"], "far"),
        (["--clusters", "far"], "far"),
        (["--exclusive", "-M far"], "far"),
        (["-Mfar", "--nice"], "far"),
        (["--cluster=near", "-M", "near,far"], "near,far"),
        (["--clusters=all"], ""),
        (["--comment='-M far'", "--cluster-constraint=x"], ""),
        (["--comment=it's", "-M far"], "far"),
    ],
)
def test_the_cluster_of_a_job_is_known_from_its_script(arguments: list[str], cluster: str) -> None:
    script = made(Path("/jobs/7.1"), sbatch_args=arguments, prelude=["#SBATCH -M none"])
    assert cluster_of(script) == cluster
