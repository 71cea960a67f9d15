"""`potato-ray predict`: a trained model on new texts."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from potato_ray.cli.output import say
from potato_ray.cli.runs import find_run, reader_of
from potato_ray.config import load
from potato_ray.errors import NotFound, ProjectUnreadable
from potato_ray.job.folder import JobFolder

csv.field_size_limit(sys.maxsize)


def run_predict(run: str, file: Path, config: Path, output: Path | None) -> int:
    """Print one line a text: {"id", "payload", "confidence"}; `run` is a run's id or its folder."""
    from potato_ray.trainers.base import TrainerError
    from potato_ray.trainers.registry import load_trainer

    folder, text_key, id_key = _where(run, config)
    try:
        trainer = load_trainer(folder.artifacts)
    except TrainerError as error:
        say(f"Error ({error.code}): {error.message}\n  {error.next_step}")
        return 1
    rows = ({"instance_id": key, "text": text} for key, text in read_texts(file, text_key, id_key))
    with _opened(output) as stream:
        for prediction in trainer.predict(rows):
            line = {
                "id": prediction.instance_id,
                "payload": dict(prediction.payload),
                "confidence": prediction.confidence,
            }
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    return 0


def _where(run: str, config: Path) -> tuple[JobFolder, str, str]:
    if Path(run).is_dir():
        return JobFolder(run), "text", "id"
    loaded = load(config)
    found = find_run(reader_of(loaded), run)
    folder = JobFolder(loaded.training_dir / "runs" / found.run_id)
    if not (folder.artifacts / "model_card.json").is_file():
        raise NotFound(
            f"Run {found.run_id} has no model on this machine.",
            evidence=f"{folder.artifacts.name}/model_card.json is missing; the run is {found.state}.",
            next_step="Choose a successful run: potato-ray training runs.",
        )
    return folder, loaded.item_properties.text_key, loaded.item_properties.id_key


def _opened(output: Path | None) -> IO[str]:
    if output is None:
        return open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False)
    return output.open("w", encoding="utf-8")


def read_texts(file: Path, text_key: str, id_key: str) -> Iterator[tuple[str, str]]:
    """(id, text) of each record; a record without an id is named by its number, counted from 1."""
    for number, record in enumerate(_records(file), start=1):
        if isinstance(record, str):
            yield str(number), record
            continue
        text = record.get(text_key, record.get("text"))
        if not isinstance(text, str):
            raise ProjectUnreadable(
                f"Record {number} of {file} has no text.",
                evidence=f"It has the fields {', '.join(map(str, record)) or 'none'}.",
                next_step=f"Give each record a field '{text_key}'.",
            )
        yield str(record.get(id_key, record.get("id", number))), text


def _records(file: Path) -> Iterator[Any]:
    if str(file) == "-":
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    if not file.is_file():
        raise NotFound(f"There is no file {file}.", next_step="Name a file of texts.")
    with file.open(encoding="utf-8-sig", newline="") as handle:
        yield from _parsed(handle, file)


def _parsed(handle: IO[str], file: Path) -> Iterable[Any]:
    suffix = file.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return list(csv.DictReader(handle, delimiter="\t" if suffix == ".tsv" else ","))
    try:
        if suffix == ".json":
            body = json.load(handle)
            return body if isinstance(body, list) else [body]
        if suffix in (".jsonl", ".ndjson"):
            return [json.loads(line) for line in handle if line.strip()]
    except ValueError as error:
        raise ProjectUnreadable(
            f"{file} is no valid JSON.", evidence=str(error), next_step="Correct the file."
        ) from None
    return [line.rstrip("\r\n") for line in handle]
