"""What a host that is reached by ssh tells of itself: its interpreter, its GPUs, its disk, its packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from potato_ray.backends.gpus import FIELDS, Listing, list_cards
from potato_ray.backends.torch_build import TorchBuild
from potato_ray.errors import RunFailed
from potato_ray.job.command import Answer

SMI: Final = (f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
"""What nvidia-smi is asked in the same breath as everything else."""

MIN_DISK_MB: Final = 50.0
"""Below this no run starts, and the check says so."""

AskSmi = Callable[[Sequence[str], float], Answer]


@dataclass(frozen=True)
class HostReport:
    """One answer of a host. Memory and disk are in MiB; "" and None mean unknown or not asked for.

    `python` is the interpreter of a run: that of the environment with the backend's packages, once it is
    built (`has_environment`). `modules` are those that were asked for with their versions, None for one that
    is not there, "" for one whose version is unknown; `commands` those that were looked for, each with its
    path, None for one that is not on PATH. `trial` is what sbatch said to a job like a run's. `problem` says
    why remote_dir cannot be used, `runs_no_programs` that its disk is mounted noexec. `smi` holds what
    nvidia-smi said, by its arguments.
    """

    host: str
    python: str
    version: str
    remote_dir: str = ""
    user: str = ""
    search_path: str = ""
    problem: str = ""
    free_disk_mb: float | None = None
    runs_no_programs: bool = False
    has_code: bool = False
    has_environment: bool = False
    torch: TorchBuild | None = None
    modules: Mapping[str, str | None] = field(default_factory=dict)
    commands: Mapping[str, str | None] = field(default_factory=dict)
    trial: Answer | None = None
    smi: Mapping[tuple[str, ...], Answer] = field(default_factory=dict)

    @classmethod
    def from_json(cls, body: Mapping[str, Any], asked: Sequence[Sequence[str]] = (SMI,)) -> HostReport:
        """`asked` are the calls of nvidia-smi. Raises RunFailed (ssh_failed) where it cannot be read."""
        try:
            return cls(
                host=str(body["host"]),
                python=str(body.get("python") or body["executable"]),
                version=str(body["version"]),
                remote_dir=str(body.get("remote_dir") or ""),
                user=str(body.get("user") or ""),
                search_path=str(body.get("path") or ""),
                problem=str(body.get("problem") or ""),
                free_disk_mb=_number(body.get("free_disk_mb")),
                runs_no_programs=bool(body.get("noexec")),
                has_code=bool(body.get("has_code")),
                has_environment=body.get("python") not in (None, body["executable"]),
                torch=_torch(body.get("torch")),
                modules=_texts(body.get("modules")),
                commands=_texts(body.get("commands")),
                trial=_answer(body["trial"]) if body.get("trial") else None,
                smi={
                    tuple(arguments): _answer(said)
                    for arguments, said in zip(asked, body.get("smi") or (), strict=False)
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as failure:
            raise RunFailed(
                "What the host says of itself cannot be read.",
                code="ssh_failed",
                evidence=f"{type(failure).__name__}: {failure}"[:300],
                next_step="Look whether something on that host changes the output of its commands.",
            ) from failure

    def listing(self, ask: AskSmi) -> Listing:
        """The GPUs; `ask` runs nvidia-smi there for whatever was not in the report (older drivers, MIG)."""

        def run_smi(arguments: Sequence[str], timeout_s: float) -> Answer:
            told = self.smi.get(tuple(arguments))
            return told if told is not None else ask(arguments, timeout_s)

        return list_cards(run_smi)


def _answer(said: Mapping[str, Any]) -> Answer:
    code = said.get("code")
    return Answer(int(code) if code is not None else None, str(said.get("out") or ""))


def _torch(said: Any) -> TorchBuild | None:
    if not said:
        return None
    cuda = str(said.get("cuda") or said.get("hip") or "")
    return TorchBuild(str(said["version"]), cuda, tuple(map(str, said.get("architectures") or ())))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _texts(said: Any) -> dict[str, str | None]:
    return {str(name): None if value is None else str(value) for name, value in (said or {}).items()}
