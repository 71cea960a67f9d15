"""One mistake each: it is found, alone, at its key and line. The mark `# !` is on the expected line."""

from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.config import Validation, validate

SSH = "backends: {gpu: {type: ssh, host: g, KEY}}  # !"
SLURM = "backends: {c: {type: slurm, host: l, remote_dir: /shared, job_python: python3, KEY}}  # !"
AGENT = "backends: {a: {type: agent, KEY}}  # !"
RAY = "backends: {r: {type: ray, KEY}}  # !"
AUTO = "auto_retrain: {enabled: true, trainer: sklearn-text, schemas: [sentiment], KEY}  # !"


def of(backend: str, written: str) -> str:
    return backend.replace("KEY", written)


TRAINING = [
    # a key or type that is wrong, at every level
    ("modle: 1  # !", "modle", "no such key"),
    ("min_confidence: 0.5  # !", "min_confidence", "it is a key of model_training.writeback"),
    ("enabled: maybe  # !", "enabled", 'must be true or false, not "maybe"'),
    ("enabled: 1  # !", "enabled", "must be true or false"),
    ("backend: 3  # !", "backend", 'must be text, not 3 (did you mean "3"?)'),
    ("backend: gpu  # !", "backend", "there is no backend gpu; the backends are local"),
    ("backends: [gpu]  # !", "backends", "must be a mapping of keys"),
    ("max_concurrent_runs: 0  # !", "max_concurrent_runs", "must be 1 or more"),
    ("queue_max: -1  # !", "queue_max", "must be 0 or more"),
    ("queue_max: 2.5  # !", "queue_max", "must be a whole number"),
    ("max_wall_seconds: 0  # !", "max_wall_seconds", "must be above 0"),
    (
        "max_wall_seconds: '3600'  # !",
        "max_wall_seconds",
        'must be a number, not "3600" (did you mean 3600?)',
    ),
    ("max_wall_seconds: .inf  # !", "max_wall_seconds", "must be a finite number"),
    ("grace_seconds: -1  # !", "grace_seconds", "must be 0 or more"),
    ("grace_seconds: soon  # !", "grace_seconds", "must be a number"),
    ("grace_seconds: true  # !", "grace_seconds", "must be a number"),
    ("grace_seconds: .nan  # !", "grace_seconds", "must be a finite number"),
    ("grace_seconds:  # !", "grace_seconds", "has no value"),
    ("max_ram_mb: 8GB  # !", "max_ram_mb", "must be a whole number"),
    ("survive_s: -5  # !", "survive_s", "must be 0 or more"),
    ("num_threads: 0  # !", "num_threads", "must be 1 or more"),
    ("device: gpu  # !", "device", "did you mean cuda?"),
    ("device: 'cuda:'  # !", "device", "cuda:N"),
    ("split_seed: -1  # !", "split_seed", "must be 0 or more"),
    ("split_seed: 1.5  # !", "split_seed", "must be a whole number"),
    ("retain_runs: -1  # !", "retain_runs", "must be 0 or more"),
    ("retain_runs: lots  # !", "retain_runs", "must be a whole number"),
    ("max_predictions_mb: 0  # !", "max_predictions_mb", "must be above 0"),
    ("aggregation: magic  # !", "aggregation", "must be consensus or majority"),
    ("group_key: [author]  # !", "group_key", "must be text"),
    ("group_key: autor  # !", "group_key", "did you mean author?"),
    ("retry_lost: -1  # !", "retry_lost", "must be 0 or more"),
    # splits
    ("splits: [0.7, 0.3]  # !", "splits", "must be a mapping"),
    ("splits: {train: 0.8, validation: 0.2}  # !", "splits.validation", "did you mean val?"),
    ("splits: {train: 0.8, val: -0.2}  # !", "splits.val", "must be 0 or more"),
    ("splits: {train: most, val: 0.2}  # !", "splits.train", "must be a number"),
    ("splits: {train: 0, val: 0, test: 0}  # !", "splits", "add up to 0"),
    ("splits: {val: 0.5, test: 0.5}  # !", "splits.train", "there is no train split"),
    ("splits: {train: 0, val: 0.5, test: 0.5}  # !", "splits.train", "nothing would be trained on"),
    # writeback
    ("writeback: {min_conf: 0.5}  # !", "writeback.min_conf", "did you mean min_confidence?"),
    (
        "writeback: {accept_license: true}  # !",
        "writeback.accept_license",
        "accept_licence is a key of model_training.auto_retrain",
    ),
    (
        "retan_runs: 5  # !",
        "retan_runs",
        "did you mean retain_runs?",
    ),
    (
        "writeback: {retan_runs: 5}  # !",
        "writeback.retan_runs",
        "retain_runs is a key of model_training",
    ),
    ("writeback: {schemas: sentiment}  # !", "writeback.schemas", "did you mean [sentiment]?"),
    ("writeback: {schemas: [sentimnt]}  # !", "writeback.schemas[0]", "did you mean sentiment?"),
    ("writeback: {schemas: [sentiment, 3]}  # !", "writeback.schemas[1]", "must be text"),
    ("writeback: {min_confidence: 5}  # !", "writeback.min_confidence", "must be 1 or less"),
    ("writeback: {min_confidence: -0.1}  # !", "writeback.min_confidence", "must be 0 or more"),
    ("writeback: {min_confidence: high}  # !", "writeback.min_confidence", "must be a number"),
    ("writeback: {include_unlabeled: 'yes'}  # !", "writeback.include_unlabeled", "did you mean true?"),
    ("writeback: {field: ''}  # !", "writeback.field", "must not be empty"),
    ("writeback: {field: text}  # !", "writeback.field", "pre-labels would overwrite it"),
    ("writeback: {gate: warm}  # !", "writeback.gate", "did you mean warn?"),
    ("writeback: {gate: on}  # !", "writeback.gate", "must be off, warn or block"),
    ("writeback: {score_blind_only: head}  # !", "writeback.score_blind_only", "report, headline or off"),
    # auto_retrain
    (of(AUTO, "accept_license: true"), "auto_retrain.accept_license", "did you mean accept_licence?"),
    (of(AUTO, "min_interval_s: -1"), "auto_retrain.min_interval_s", "must be 0 or more"),
    (of(AUTO, "update_frequency: 0"), "auto_retrain.update_frequency", "must be 1 or more"),
    (of(AUTO, "accept_licence: aye"), "auto_retrain.accept_licence", "must be true or false"),
    (of(AUTO, "backend: gpu"), "auto_retrain.backend", "there is no backend gpu"),
    (of(AUTO, "params: [1]"), "auto_retrain.params", "must be a mapping"),
    (
        of(AUTO, "params: {clasifier: x}"),
        "auto_retrain.params.clasifier",
        "sklearn-text does not take clasifier",
    ),
    (of(AUTO, "params: {calibrate: aye}"), "auto_retrain.params.calibrate", "must be true or false"),
    ("auto_retrain: {enabled: 3}  # !", "auto_retrain.enabled", "must be true or false"),
    ("auto_retrain: {enabled: true, schemas: [sentiment]}  # !", "auto_retrain.trainer", "name the trainer"),
    ("auto_retrain: {enabled: true, trainer: sklearn-text}  # !", "auto_retrain.schemas", "name the scheme"),
    (
        "auto_retrain: {enabled: true, trainer: sklearntext, schemas: [sentiment]}  # !",
        "auto_retrain.trainer",
        "there is no trainer sklearntext",
    ),
    ("trainer_params: {hf-text: {}}  # !", "trainer_params.hf-text", "did you mean hf-text-classification?"),
    (
        "auto_retrain: {enabled: true, trainer: llm-sft, schemas: [sentiment]}  # !",
        "auto_retrain.trainer",
        "trainer llm-sft is not part of this version",
    ),
    (
        "auto_retrain: {enabled: true, trainer: sklearn-text, schemas: [mood]}  # !",
        "auto_retrain.schemas[0]",
        "there is no scheme mood",
    ),
    (
        "auto_retrain: {enabled: true, trainer: sklearn-text, schemas: [evidence]}  # !",
        "auto_retrain.schemas[0]",
        "sklearn-text cannot learn evidence (span)",
    ),
    (
        "auto_retrain: {enabled: true, trainer: sklearn-text, schemas: sentiment}  # !",
        "auto_retrain.schemas",
        "must be a list",
    ),
    # trainer_params
    ("trainer_params: [sklearn-text]  # !", "trainer_params", "must be a mapping"),
    ("trainer_params: {sklearn-text: 3}  # !", "trainer_params.sklearn-text", "must be a mapping"),
    ("trainer_params: {sklearn_text: {}}  # !", "trainer_params.sklearn_text", "did you mean sklearn-text?"),
    (
        "trainer_params: {sklearn-text: {epochs: 3}}  # !",
        "trainer_params.sklearn-text.epochs",
        "sklearn-text does not take epochs; it takes ",
    ),
    (
        "trainer_params: {sklearn-text: {min_instances: few}}  # !",
        "trainer_params.sklearn-text.min_instances",
        "must be a whole number",
    ),
    (
        "trainer_params: {sklearn-text: {vectorizer: sentence-transformers, vectorizer_kwargs: {m: x}}}  # !",
        "trainer_params.sklearn-text",
        "sentence-transformers does not take m;",
    ),
    (
        "trainer_params: {llm-sft: {epochs: 3}}  # !",
        "trainer_params.llm-sft",
        "trainer llm-sft is not part of this version",
    ),
    # notify, tiling
    ("notify: {url: 'ftp://x', secret_env: S}  # !", "notify.url", "must be an http:// or https:// address"),
    ("notify: {secret_env: S}  # !", "notify.url", "model_training.notify needs it"),
    ("notify: {url: 'https://x:99999/'}  # !", "notify.url", "must be an http:// or https:// address"),
    ("notify: {url: 'https:///hook'}  # !", "notify.url", "must be an http:// or https:// address"),
    ("notify: {url: 'https://x y/'}  # !", "notify.url", "must not contain blanks"),
    ("notify: {url: 'https://x', secret_env: se-cret}  # !", "notify.secret_env", "environment variable"),
    ("notify: {url: 'https://x', secret_env: S, to: me}  # !", "notify.to", "no such key"),
    ("tiling: {enabled: 1}  # !", "tiling.enabled", "must be auto, true or false"),
    ("tiling: {tile_px: 0}  # !", "tiling.tile_px", "must be 1 or more"),
    ("tiling: {overlap_px: -1}  # !", "tiling.overlap_px", "must be 0 or more"),
    ("tiling: {overlap_px: 1024}  # !", "tiling.overlap_px", "must be below tile_px"),
    ("tiling: {min_side_px: big}  # !", "tiling.min_side_px", "must be a whole number"),
    ("tiling: {max_tiles: 0}  # !", "tiling.max_tiles", "must be 1 or more"),
    ("tiling: {tile_pix: 5}  # !", "tiling.tile_pix", "did you mean tile_px?"),
    # backends
    ("backends: {gpu: ssh}  # !", "backends.gpu", "must be a mapping"),
    ("backends: {gpu: {host: g}}  # !", "backends.gpu.type", "must be ssh, slurm, agent or ray"),
    ("backends: {gpu: {typ: ssh, host: g}}  # !", "backends.gpu.typ", "did you mean type?"),
    ("backends: {gpu: {type: shh, host: g}}  # !", "backends.gpu.type", "did you mean ssh?"),
    ("backends: {gpu: {type: [ssh]}}  # !", "backends.gpu.type", "must be ssh, slurm, agent or ray"),
    ("backends: {here: {type: local}}  # !", "backends.here.type", "local is always there"),
    ("backends: {local: {type: ssh, host: g}}  # !", "backends.local", "reserved"),
    ("backends: {a/b: {type: agent}}  # !", "backends.a/b", "stands in addresses"),
    ("backends: {gpu: {type: ssh}}  # !", "backends.gpu.host", "the type ssh needs it"),
    ("backends: {gpu: {type: ssh, hots: g}}  # !", "backends.gpu.hots", "did you mean host?"),
    (
        "backends: {gpu: {type: ssh, host: -oProxyCommand=x}}  # !",
        "backends.gpu.host",
        "must not begin with -",
    ),
    ("backends: {gpu: {type: ssh, host: 'a b'}}  # !", "backends.gpu.host", "must not contain blanks"),
    ("backends: {gpu: {type: ssh, host: 7}}  # !", "backends.gpu.host", "must be text"),
    (of(SSH, "pyhton: /opt/python"), "backends.gpu.pyhton", "did you mean python?"),
    (of(SSH, "description: [x]"), "backends.gpu.description", "must be text"),
    (of(SSH, "user: -x"), "backends.gpu.user", "must not begin with -"),
    (of(SSH, "port: 70000"), "backends.gpu.port", "must be 65535 or less"),
    (of(SSH, "port: '22'"), "backends.gpu.port", "did you mean 22?"),
    (of(SSH, "identity_file: 1"), "backends.gpu.identity_file", "must be text"),
    (of(SSH, "python: ''"), "backends.gpu.python", "must not be empty"),
    (of(SSH, "remote_dir: 5"), "backends.gpu.remote_dir", "must be text"),
    (of(SSH, "env: {A: [1]}"), "backends.gpu.env.A", "must be text"),
    (of(SSH, "env: {A: yes}"), "backends.gpu.env.A", 'did you mean "yes"?'),
    (of(SSH, "env: {A-B: x}"), "backends.gpu.env.A-B", "name of an environment variable"),
    (of(SSH, "num_threads: 0"), "backends.gpu.num_threads", "must be 1 or more"),
    (of(SSH, "gpus: all"), "backends.gpu.gpus", "must be auto, none, or GPU indices"),
    (of(SSH, "gpus: -1"), "backends.gpu.gpus", "must be auto, none, or GPU indices"),
    (of(SSH, "gpus: '0,0'"), "backends.gpu.gpus", "must not name a GPU twice"),
    (of(SSH, "gpus: true"), "backends.gpu.gpus", "must be auto, none, or GPU indices"),
    (of(SSH, "gpus: ~"), "backends.gpu.gpus", "must be auto, none, or GPU indices"),
    (of(SSH, "min_free_gpu_mb: -1"), "backends.gpu.min_free_gpu_mb", "must be 0 or more"),
    (of(SSH, "packages: torch"), "backends.gpu.packages", "did you mean [torch]?"),
    (of(SSH, "fetch_artifacts: never"), "backends.gpu.fetch_artifacts", "must be true or false"),
    (of(SSH, "keep_remote: 1"), "backends.gpu.keep_remote", "must be true or false"),
    (of(SSH, "max_artifact_mb: big"), "backends.gpu.max_artifact_mb", "must be a number"),
    (of(SSH, "heartbeat_timeout_s: 0"), "backends.gpu.heartbeat_timeout_s", "must be above 0"),
    (of(SSH, "connect_timeout_s: 0"), "backends.gpu.connect_timeout_s", "must be above 0"),
    (of(SSH, "partition: gpu"), "backends.gpu.partition", "it is a key of the backend type slurm"),
    (of(SSH, "queue_timeout_s: 5"), "backends.gpu.queue_timeout_s", "it is a key of the backend type agent"),
    ("backends: {c: {type: slurm, host: l, job_python: p}}  # !", "backends.c.remote_dir", "is missing"),
    ("backends: {c: {type: slurm, remote_dir: /s, job_python: p}}  # !", "backends.c.host", "is missing"),
    (
        "backends: {c: {type: slurm, host: l, remote_dir: /tmp/x, job_python: p}}  # !",
        "backends.c.remote_dir",
        "local to each node",
    ),
    (
        "backends: {c: {type: slurm, host: l, remote_dir: /a/../var//tmp, job_python: p}}  # !",
        "backends.c.remote_dir",
        "local to each node",
    ),
    (
        "backends: {c: {type: slurm, host: l, remote_dir: /s}}  # !",
        "backends.c.job_python",
        "will run python3, the value of python",
    ),
    (of(SLURM, "gpus: auto"), "backends.c.gpus", "the GPUs come from gres"),
    (of(SLURM, "packages: [x]"), "backends.c.packages", "point job_python at one that they have"),
    (of(SLURM, "partition: 1"), "backends.c.partition", "must be text"),
    (of(SLURM, "account: 'a b'"), "backends.c.account", "must not contain blanks"),
    (of(SLURM, "qos: []"), "backends.c.qos", "must be text"),
    (of(SLURM, "gres: 1"), "backends.c.gres", "must be text"),
    (of(SLURM, "time: soon"), "backends.c.time", "must be a SLURM time"),
    (of(SLURM, "time: 1.5"), "backends.c.time", "must be text"),
    (of(SLURM, "mem: 16 GB"), "backends.c.mem", "must not contain blanks"),
    (of(SLURM, "cpus_per_task: 0"), "backends.c.cpus_per_task", "must be 1 or more"),
    (of(SLURM, "constraint: true"), "backends.c.constraint", "must be text"),
    (of(SLURM, "nodelist: [n1]"), "backends.c.nodelist", "must be text"),
    (of(SLURM, "exclude: 3"), "backends.c.exclude", "must be text"),
    (of(SLURM, "reservation: 3"), "backends.c.reservation", "must be text"),
    (of(SLURM, "sbatch_args: --nice"), "backends.c.sbatch_args", "did you mean [--nice]?"),
    (of(SLURM, "sbatch_args: [gpu]"), "backends.c.sbatch_args", "must begin with a flag of sbatch"),
    (of(SLURM, "partition: 'gpu#2'"), "backends.c.partition", "must not contain quotes, backslashes or #"),
    (of(SLURM, "prelude: module load cuda"), "backends.c.prelude", "did you mean [module load cuda]?"),
    (of(SLURM, "poll_interval_s: 0"), "backends.c.poll_interval_s", "must be above 0"),
    (of(SLURM, "env: [A]"), "backends.c.env", "must be a mapping"),
    (of(SLURM, "node: n1"), "backends.c.node", "it is a key of the backend type ray"),
    (
        of(AGENT, "host: h"),
        "backends.a.host",
        "it is a key of the backend types ssh and slurm",
    ),
    (of(AGENT, "queue_timeout_s: 0"), "backends.a.queue_timeout_s", "must be above 0"),
    (of(AGENT, "heartbeat_timeout_s: x"), "backends.a.heartbeat_timeout_s", "must be a number"),
    (of(AGENT, "gpus: auto"), "backends.a.gpus", "no such key"),
    (of(RAY, "node: 7"), "backends.r.node", "must be text"),
    (of(RAY, "gpus: some"), "backends.r.gpus", "must be auto, none, or GPU indices"),
    (
        of(RAY, "keep_remote: true"),
        "backends.r.keep_remote",
        "it is a key of the backend types ssh and slurm",
    ),
    (of(RAY, "env: {A: 1.5}"), "backends.r.env.A", 'did you mean "1.5"?'),
]


def only_finding(folder: Path, text: str) -> tuple[str, int | None, str]:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    found: Validation = validate(path)
    assert len(found.findings) == 1, found.as_text()
    finding = found.findings[0]
    return finding.key, finding.line, finding.text


def line_of_mark(text: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if "# !" in line)


@pytest.mark.parametrize(("lines", "key", "message"), TRAINING, ids=[case[0][:60] for case in TRAINING])
def test_a_mistake_in_model_training_is_found_at_its_key_and_line(
    project: str, folder: Path, lines: str, key: str, message: str
) -> None:
    text = f"{project}model_training:\n  retain_runs: 5\n  {lines}\n"
    text = text.replace("  retain_runs: 5\n", "") if lines.startswith("retain_runs") else text
    found_key, found_line, found_text = only_finding(folder, text)
    assert (found_key, found_line) == (f"model_training.{key}", line_of_mark(text))
    assert message in found_text


PROJECTS = [
    ("annotation_task_name: a study", "annotation_task_name: 2024  # !", "annotation_task_name", '"2024"'),
    (
        "annotation_task_name: a study",
        "anotation_task_name: a study  # !",
        "anotation_task_name",
        "did you mean",
    ),
    ("task_dir: .", "task_dir: [x]  # !", "task_dir", "must be text"),
    ("[data/items.json]", "data/items.json  # !", "data_files", "did you mean [data/items.json]?"),
    (
        "[data/items.json]",
        "[data/nope.json]  # !",
        "data_files[0]",
        "Data file not found: data/nope.json (resolved to: /",
    ),
    ("[data/items.json]", "[data/items.json, {url: x}]  # !", "data_files[1]", "a mapping that has a path"),
    ("[data/items.json]", "[data]  # !", "data_files[0]", "Data file is a folder: data"),
    ("[data/items.json]", "[]  # !", "data_files", "must not be empty"),
    ("[data/items.json]", "[config.yaml]  # !", "data_files[0]", "has a format that is not read"),
    ("id_key: id, text_key: text}", "text_key: text}  # !", "item_properties.id_key", "is missing"),
    (
        "id_key: id, text_key: text}",
        "id_kee: id, text_key: text}  # !",
        "item_properties.id_kee",
        "did you mean id_key?",
    ),
    (
        "id_key: id, text_key: text}",
        "id_key: ID, text_key: text}  # !",
        "item_properties.id_key",
        "has no field ID",
    ),
    (
        "id_key: id, text_key: text}",
        "id_key: id, text_key: txt}  # !",
        "item_properties.text_key",
        "did you mean text?",
    ),
    (
        "output_annotation_dir: annotation_output",
        "output_annotation_dir: 1  # !",
        "output_annotation_dir",
        "text",
    ),
    (
        "annotation_type: radio, ",
        "",
        "annotation_schemes[0].annotation_type",
        "every scheme needs annotation_type",
    ),
    ("name: sentiment, ", "", "annotation_schemes[0].name", "every scheme needs name"),
    ("description: How it is, ", "", "annotation_schemes[0].description", "every scheme needs description"),
    ("name: evidence", "name: sentiment", "annotation_schemes[1].name", "annotation_schemes[0] has the name"),
    (
        "[good, bad]",
        "[Yes, bad]",
        "annotation_schemes[0].labels[0]",
        "YAML reads the label Yes as the boolean true",
    ),
    ("[good, bad]", "[good, {name: off}]", "annotation_schemes[0].labels[1].name", 'did you mean "off"?'),
    ("[good, bad]", "[good, bad, good]", "annotation_schemes[0].labels[2]", "labels[0] is the label good"),
    ("[good, bad]", "[1, '1']", "annotation_schemes[0].labels[1]", "labels[0] is the label 1 already"),
    ("[good, bad]", "[{name: good}, good]", "annotation_schemes[0].labels[1]", "is the label good already"),
    (
        "annotation_type: radio",
        "annotation_type: []",
        "annotation_schemes[0].annotation_type",
        "must be text",
    ),
    (", labels: [good, bad]", "", "annotation_schemes[0].labels", "radio needs labels, and they are missing"),
    ("[good, bad]", "[]", "annotation_schemes[0].labels", "radio needs labels, and there are none"),
    ("[good, bad]", "good", "annotation_schemes[0].labels", 'must be a list, not "good"'),
    ("labels: [good", "lables: [good", "annotation_schemes[0].lables", "did you mean labels?"),
    (
        "annotation_type: radio",
        "annotation_type: raido",
        "annotation_schemes[0].annotation_type",
        "did you mean radio?",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "key", "message"), PROJECTS)
def test_a_mistake_at_the_top_is_found_at_its_key(
    project: str, folder: Path, right: str, wrong: str, key: str, message: str
) -> None:
    text = project.replace(right, wrong, 1)
    assert text != project
    found_key, found_line, found_text = only_finding(folder, text)
    assert found_key == key
    assert message in found_text
    assert found_line is not None
    assert "# !" not in text or found_line == line_of_mark(text)


ADDED = [
    ("modle_training: {}", "modle_training", "did you mean model_training?"),
    ("debug: 'no'", "debug", "did you mean false?"),
    ("require_password: 3", "require_password", "must be true or false"),
    ("admin_api_key: 12345", "admin_api_key", "must be text; put it in quotes"),
    ("user_config: {allow_all_users: all}", "user_config.allow_all_users", "must be true or false"),
    ("user_config: {users: ann}", "user_config.users", "did you mean [ann]?"),
    ("datasets: {enabled: 1}", "datasets.enabled", "must be true or false"),
    ("ai_support: [holdout]", "ai_support", "must be a mapping"),
    ("pre_annotation: {enabled: 1}", "pre_annotation.enabled", "must be true or false"),
    ("pre_annotation: {field: 1}", "pre_annotation.field", "must be text"),
    ("media_directory: 1", "media_directory", "must be text"),
    ("active_learning: 3", "active_learning", "must be a mapping"),
    ("model_training: yes", "model_training", "must be a mapping of keys, not true"),
    ("validation: {acknowledge: long enough text}", "validation.acknowledge", "must be a list"),
    ("validation: {acknowlege: []}", "validation.acknowlege", "did you mean acknowledge?"),
    ("validation: true", "validation", "must be a mapping"),
]


@pytest.mark.parametrize(("line", "key", "message"), ADDED)
def test_a_wrong_top_level_key_that_we_read_is_found(
    project: str, folder: Path, line: str, key: str, message: str
) -> None:
    found_key, found_line, found_text = only_finding(folder, f"{project}{line}\n")
    assert (found_key, found_line) == (key, 9)
    assert message in found_text


@pytest.mark.parametrize(
    "key", ["data_files", "item_properties", "output_annotation_dir", "annotation_task_name"]
)
def test_a_key_that_every_project_needs_is_missed(project: str, folder: Path, key: str) -> None:
    text = "".join(line for line in project.splitlines(keepends=True) if not line.startswith(key))
    found_key, found_line, found_text = only_finding(folder, text)
    assert (found_key, found_line) == (key, None)
    assert "is missing" in found_text


@pytest.mark.parametrize(
    ("dp", "key", "message"),
    [
        ("target_epsilon: 0", "target_epsilon", "must be above 0, not 0"),
        ("target_delta: 1", "target_delta", "must be above 0 and below 1, not 1"),
        ("max_grad_norm: -2", "max_grad_norm", "must be above 0, not -2"),
        ("noise_multiplier: .nan", "noise_multiplier", "must be a number"),
        ("target_epsilon: small", "target_epsilon", "must be a number"),
        ("target_epsilom: 3", "target_epsilom", "did you mean target_epsilon?"),
    ],
)
def test_every_key_of_dp_has_its_range(project: str, folder: Path, dp: str, key: str, message: str) -> None:
    text = f"{project}model_training: {{trainer_params: {{llm-sft: {{dp: {{{dp}}}}}}}}}\n"
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    [error] = validate(path).errors
    assert error.key == f"model_training.trainer_params.llm-sft.dp.{key}"
    assert message in error.text


def test_a_delta_in_short_scientific_notation_is_a_number(project: str, folder: Path) -> None:
    path = folder / "config.yaml"
    dp = "{target_epsilon: 8, target_delta: 1e-5}"
    path.write_text(
        f"{project}model_training: {{trainer_params: {{llm-sft: {{dp: {dp}}}}}}}\n", encoding="utf-8"
    )
    assert not validate(path).errors


@pytest.mark.parametrize("where", ["backend: gpu", "auto_retrain: {backend: gpu}"])
def test_decision_calibrate_may_not_retrain_off_this_machine(project: str, folder: Path, where: str) -> None:
    auto = "enabled: true, trainer: decision-calibrate, schemas: [sentiment]"
    lines = f"  {where}\n  auto_retrain: {{{auto}}}\n"
    if "auto_retrain" in where:
        lines = f"  auto_retrain: {{{auto}, backend: gpu}}\n"
    path = folder / "config.yaml"
    backends = "  backends: {gpu: {type: ssh, host: g}}\n"
    path.write_text(f"{project}model_training:\n{lines}{backends}", encoding="utf-8")
    assert "decision-calibrate runs only on local, not on gpu" in validate(path).as_text()


def test_a_pre_annotation_block_must_look_where_write_back_writes(project: str, folder: Path) -> None:
    block = "pre_annotation: {enabled: true, field: hints}\n"
    text = f"{project}{block}model_training: {{writeback: {{schemas: [sentiment]}}}}\n"
    key, line, message = only_finding(folder, text)
    assert (key, line) == ("pre_annotation.field", 9)
    assert "no pre-label from training would be shown (did you mean predictions?)" in message


def test_one_file_with_ten_mistakes_reports_ten(project: str, folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(
        project.replace("bad]", "No]") + "modle_trainig: 1\n"
        "model_training:\n"
        "  enabled: maybe\n"
        "  retain_runs: -1\n"
        "  backend: gpux\n"
        "  splits: {train: 0.8, dev: 0.2}\n"
        "  writeback: {schemas: [mood], min_confidence: 5}\n"
        "  trainer_params: {sklearn-text: {epochs: 3}}\n"
        "  backends:\n"
        "    gpu: {type: ssh, host: g, pyhton: python3}\n",
        encoding="utf-8",
    )
    found = validate(path)
    assert [(finding.line, finding.key) for finding in found.findings] == [
        (7, "annotation_schemes[0].labels[1]"),
        (9, "modle_trainig"),
        (11, "model_training.enabled"),
        (12, "model_training.retain_runs"),
        (13, "model_training.backend"),
        (14, "model_training.splits.dev"),
        (15, "model_training.writeback.min_confidence"),
        (15, "model_training.writeback.schemas[0]"),
        (16, "model_training.trainer_params.sklearn-text.epochs"),
        (18, "model_training.backends.gpu.pyhton"),
    ]
