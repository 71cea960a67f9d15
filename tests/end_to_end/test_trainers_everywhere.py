"""Every trainer on every backend, with its real libraries and a tiny model."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess
from parts import need_module
from server_process import API
from slurm_cluster import SlurmCluster
from slurm_lab import SlurmLab, slurm_lab
from sshd import ALIAS
from tiny_models import tiny_bert, tiny_sentence_model
from whole_runs import ended, folder_of

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

need_module("torch", "transformers", "peft", "accelerate", "sentence_transformers", "setfit", "rdkit")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(600),
]

LOCAL, SSH, SLURM, AGENT = "local", "server", "cluster", "ws"
BACKENDS = (LOCAL, SSH, SLURM, AGENT)
DEADLINE_S = 420.0
"""Four processes that import torch at once, beside other tests."""
THREADS = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True)
class Case:
    """A trainer with its parameters, what it says in the log, and files that its model has."""

    trainer: str
    params: Mapping[str, Any]
    says: str
    files: tuple[str, ...]


class Bench:
    """One server, the four places where its runs execute, and the models that they begin from."""

    def __init__(self, lab: SlurmLab, workdir: Path, models: Path) -> None:
        self.lab = lab
        self._add_molecules()
        token = lab.post(f"/api/training/backends/{AGENT}/register", {})["token"]
        self.agent = AgentProcess(lab.server.url, str(token), workdir, backend=AGENT)
        self._models = models
        self._runs: dict[str, dict[str, str]] = {}

    def _add_molecules(self) -> None:
        """Each item gets a molecule of its own, but every twentieth what is none."""
        (path,) = self.lab.config.data_paths
        items = json.loads(path.read_text("utf-8"))
        rings = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccsc1", "C1CCNCC1", "c1ccc2ccccc2c1")
        made = ("C" * n + ring + end for n, end, ring in product(range(1, 11), ("", "O", "N", "Cl"), rings))
        for number, (item, smiles) in enumerate(zip(items, made, strict=True)):
            item["smiles"] = smiles if number % 20 else "no molecule"
        path.write_text(json.dumps(items), "utf-8")

    @cached_property
    def bert(self) -> str:
        return str(tiny_bert(self._models / "bert"))

    @cached_property
    def sentences(self) -> str:
        return str(tiny_sentence_model(self._models / "sentences"))

    def run(self, case: Case, backend: str) -> Run:
        """The run of a case, ended; the runs of a case are started together."""
        if case.trainer not in self._runs:
            self._runs[case.trainer] = {each: self._start(case, each) for each in BACKENDS}
        run = ended(self.lab.config, self._runs[case.trainer][backend], DEADLINE_S)
        said = (run.error, run.error_evidence, self.lab.log(run.run_id), self.agent.said)
        assert run.state == State.SUCCESS, said
        return run

    def _start(self, case: Case, backend: str) -> str:
        body = {
            "trainer": case.trainer,
            "schemas": ["sentiment"],
            "params": dict(case.params),
            "backend": backend,
        }
        return str(self.lab.post(f"{API}/runs", body)["run_id"])

    def model(self, run: Run) -> Path:
        """Where the model's files are: at home, or where the agent has left them."""
        where = run.artifact_uri.partition(":")[2]
        return Path(where) if where else folder_of(self.lab.config, run.run_id).artifacts


def hf_text(bench: Bench) -> Case:
    params = {"model_name": bench.bert, "epochs": 2, "learning_rate": 1e-3}
    return Case("hf-text-classification", params, "fine-tuning", ("model/model.safetensors",))


def setfit(bench: Bench) -> Case:
    params = {"model_name": bench.sentences, "max_steps": 20}
    return Case("setfit", params, "pairs", ("model/model.safetensors",))


def embeddings(bench: Bench) -> Case:
    vectorizer = {"vectorizer": "sentence-transformers", "vectorizer_kwargs": {"model_name": bench.sentences}}
    return Case("sklearn-text", vectorizer, "Embeddings of ", ("model.skops",))


def molecules(bench: Bench) -> Case:
    params = {"smiles_field": "smiles", "n_estimators": 20, "calibrate": False}
    return Case("rdkit-property", params, "They were left out.", ("model.skops",))


CASES: tuple[Callable[[Bench], Case], ...] = (hf_text, setfit, embeddings, molecules)


@pytest.fixture(scope="module")
def bench(module_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    env = {**THREADS, "POTATO_MODEL_CACHE": str(tmp_path_factory.mktemp("cache"))}
    one = {"num_threads": 1}  # several would wait for each other where the machine is busy
    variants = {
        SSH: {
            **one,
            "type": "ssh",
            "host": ALIAS,
            "python": sys.executable,
            "remote_dir": str(tmp_path_factory.mktemp("host") / "training"),
            "env": env,
        },
        # Its env without the torch of tests that is none.
        SLURM: {
            **one,
            "mem": "1900M",
            "env": {**env, **module_slurm.env, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        },
        AGENT: {"type": "agent"},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        published = {"schemas": ["sentiment"], "min_confidence": 0.0, "include_unlabeled": True}
        with slurm_lab(module_slurm, variants, writeback=published, **one) as lab:
            made = Bench(lab, tmp_path_factory.mktemp("agent"), tmp_path_factory.mktemp("models"))
            with contextlib.closing(made.agent):
                yield made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make_case", CASES, ids=lambda made: made.__name__)
def test_a_trainer_runs_to_its_score_and_its_model_is_kept(
    bench: Bench, make_case: Callable[[Bench], Case], backend: str
) -> None:
    case = make_case(bench)
    run = bench.run(case, backend)
    assert run.headline is not None
    assert run.headline["n_items"] > 0
    # They have come home; of runs side by side, those of the newest are published.
    assert run.writeback is not None
    assert re.search(r"\b[1-9]\d* (of \d+ predictions|replaced by a newer run)", run.writeback["summary"])
    kept = bench.model(run)
    card = json.loads((kept / "model_card.json").read_text("utf-8"))
    assert card["trainer"] == case.trainer
    assert [name for name in case.files if not (kept / name).is_file()] == []
    assert case.says in bench.lab.log(run.run_id)
