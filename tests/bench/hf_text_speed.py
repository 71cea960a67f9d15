#!/usr/bin/env python3
"""How fast hf-text-classification trains and predicts, beside transformers' Trainer as people write it.

    python tests/bench/hf_text_speed.py PROJECT --model FOLDER [--predict 10000]

PROJECT is a folder with Potato's config.yaml. The same model, texts, batch size and number of epochs, in
turn, each in a process of its own: ours, and ours in 32 bits as the others are; a Trainer whose tokenizer
pads every text to max_length (ours is taken: what 99 of 100 texts need); and one that pads each batch to its
longest text. What is timed is training alone, evaluation and saving left out, then the prediction of many
texts. Peak memory is the process's own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from text_trainers import Quiet, Study

OURS, OURS_FP32, FIXED, DYNAMIC = "ours", "ours in fp32", "fixed padding", "dynamic padding"
EPOCHS, BATCH, RATE = 1, 16, 5e-5
TIMEOUT_S = 1800


def texts_of(project: Path, n_predicted: int) -> tuple[Study, list[str]]:
    study = Study.of(project, None)
    known = [row["text"] for rows in study.rows.values() for row in rows]
    return study, [known[number % len(known)] for number in range(n_predicted)]


def ours(study: Study, predicted: list[str], model: str, precision: str) -> dict[str, float]:
    from potato_ray.trainers.base import FitContext
    from potato_ray.trainers.hf_text import HfTextClassification
    from potato_ray.trainers.params import complete

    params = {
        "model_name": model,
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "learning_rate": RATE,
        "precision": precision,
    }
    with tempfile.TemporaryDirectory() as folder:
        context = FitContext(
            scheme=study.scheme,
            params=complete(HfTextClassification, params, {"calibrate": False}),
            rows=lambda split: (dict(row) for row in study.rows["train"] if split == "train"),
            n_rows={"train": len(study.rows["train"])},
            artifacts=Path(folder),
            media=Path(folder),
            seed=0,
            device="cpu",
            reporter=Quiet(),
        )
        trainer = HfTextClassification()
        speed = trainer.fit(context)["train_examples_per_s"]
    began = time.perf_counter()
    said = list(trainer.predict({"instance_id": str(n), "text": text} for n, text in enumerate(predicted)))
    return {"train": speed, "predict": len(said) / (time.perf_counter() - began)}


def plain(study: Study, predicted: list[str], model: str, padding: str) -> dict[str, float]:
    import transformers

    from potato_ray.trainers.token_data import usual_length

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    train, name = study.rows["train"], study.scheme.name
    labels = list(study.scheme.labels)
    most = int(tokenizer.model_max_length)
    length = usual_length(tokenizer, [(row["text"],) for row in train], most)

    def encoded(texts: list[str], targets: list[int] | None = None) -> list[dict[str, Any]]:
        pad = False if padding == DYNAMIC else "max_length"
        coded = tokenizer(texts, truncation=True, max_length=length, padding=pad)
        items = [{key: coded[key][n] for key in coded} for n in range(len(texts))]
        return items if targets is None else [{**i, "labels": t} for i, t in zip(items, targets, strict=True)]

    targets = [labels.index(str(row["targets"][name])) for row in train]
    with tempfile.TemporaryDirectory() as folder:
        learner = transformers.Trainer(
            model=transformers.AutoModelForSequenceClassification.from_pretrained(
                model, num_labels=len(labels)
            ),
            args=transformers.TrainingArguments(
                output_dir=folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=2 * BATCH,
                learning_rate=RATE,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=encoded([row["text"] for row in train], targets),
            data_collator=transformers.DataCollatorWithPadding(tokenizer) if padding == DYNAMIC else None,
        )
        began = time.perf_counter()
        learner.train()
        trained = time.perf_counter() - began
        began = time.perf_counter()
        learner.predict(encoded(predicted))
        return {
            "train": EPOCHS * len(train) / trained,
            "predict": len(predicted) / (time.perf_counter() - began),
        }


def measure_here(way: str, project: Path, model: str, n_predicted: int) -> None:
    study, predicted = texts_of(project, n_predicted)
    if way in (OURS, OURS_FP32):
        found = ours(study, predicted, model, "fp32" if way == OURS_FP32 else "auto")
    else:
        found = plain(study, predicted, model, way)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def measure(way: str, arguments: argparse.Namespace, n_predicted: int) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, str(arguments.project), "--model", arguments.model]
    command += ["--here", way, "--predict", str(n_predicted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--predict", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure_here(arguments.here, arguments.project, arguments.model, arguments.predict)
        return
    ways = [OURS, OURS_FP32, FIXED, DYNAMIC]
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(arguments.pairs):
        turn = ways if number % 2 == 0 else ways[::-1]
        rounds.append({way: measure(way, arguments, arguments.predict) for way in turn})
    print("| | training, texts a second | prediction, texts a second | peak memory, MB | ours is faster |")
    print("|---|---|---|---|---|")
    for way in ways:
        cells = [
            statistics.median(each[way][key] for each in rounds) for key in ("train", "predict", "peak_mb")
        ]
        ratios = [
            statistics.median(each[OURS][key] / each[way][key] for each in rounds)
            for key in ("train", "predict")
        ]
        faster = "" if way == OURS else f"{ratios[0]:.2f} and {ratios[1]:.2f} times"
        print(f"| {way} | {cells[0]:.1f} | {cells[1]:.0f} | {cells[2]:.0f} | {faster} |")


if __name__ == "__main__":
    main()
