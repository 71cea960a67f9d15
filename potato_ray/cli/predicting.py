"""`potato-ray predict`: a trained model on new texts."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from potato_ray import run_lookup
from potato_ray.cli.output import say
from potato_ray.cli.runs import LATEST, find_run
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import Conflict, NotFound, ProjectUnreadable
from potato_ray.job.folder import JobFolder
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.records import FileRole, read_records
from potato_ray.project.text_fields import clean, joined, readable
from potato_ray.registry.runs import Run

LINES = frozenset({".txt", ".text", ""})
RECORDS = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
FORMATS = f".txt or .text (one text a line), {', '.join(RECORDS)}, or - for lines on standard input"
UNREADABLE = "input_unreadable"
"""The code for a file of texts; project_unreadable would send people to their annotations."""

NEW_TEXTS = FileRole(
    noun="file",
    when_missing="Name a file of texts.",
    when_torn="Repair the file.",
    when_no_object="Give every record a text field.",
)


def run_predict(run: str, file: Path, config: Path, output: Path | None) -> int:
    """Print one line a text: {"id", "payload", "confidence"}; `run` is a run's id or its folder."""
    from potato_ray.trainers.base import TrainerError
    from potato_ray.trainers.model_files import read_card
    from potato_ray.trainers.registry import load_trainer

    folder, paths = _where(run, config)
    try:
        with _said_warnings():
            trainer = load_trainer(folder.artifacts)
        fields = trainer.item_fields(read_card(folder.artifacts).get("params") or {})
        with _opened(output) as stream, _said_warnings():
            for prediction in trainer.predict(_said_when_empty(rows_of(file, paths, fields))):
                line = {
                    "id": prediction.instance_id,
                    "payload": dict(prediction.payload),
                    "confidence": prediction.confidence,
                }
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    except TrainerError as error:
        say(f"Error ({error.code}): {error.message}\n  {error.next_step}")
        return 1
    return 0


@contextlib.contextmanager
def _said_warnings() -> Iterator[None]:
    """What a trainer or its library warns of in the block is one line, without the place in the code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {' '.join(str(message).split())}")
        yield


def _said_when_empty(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        say("0 texts")


def _where(run: str, config: Path) -> tuple[JobFolder, ProjectPaths]:
    if Path(run).is_dir():
        here = Path.cwd()
        return JobFolder(run), ProjectPaths(task_dir=here, data_paths=(), output_dir=here)
    loaded = load(config)
    found = _successful(loaded, run)
    folder = JobFolder(loaded.training_dir / "runs" / found.run_id)
    if not (folder.artifacts / "model_card.json").is_file():
        raise _no_model(loaded, found)
    return folder, ProjectPaths.from_config(loaded)


def _no_model(config: ProjectConfig, run: Run) -> NotFound:
    """The error for a run whose model is elsewhere, or nowhere."""
    from potato_ray.backends.left_on_host import are_gone

    host, _, artifacts = run.artifact_uri.partition(":")
    if artifacts and not are_gone(run, config.training_dir / "runs" / run.run_id):
        evidence = f"Its files stay on {host}: {artifacts}"
        copied = f"scp -r {host}:{Path(artifacts).parent} ."
        next_step = f"Copy that folder here and name it in place of the run: {copied}"
        if _can_be_fetched(config, run):
            next_step = f"Fetch them: potato-ray training fetch {run.run_id}"
    else:
        evidence = f"Its folder holds no artifacts/model_card.json; the run is {run.state}."
        next_step = "Choose a successful run: potato-ray training runs."
    return NotFound(f"Run {run.run_id} has no model on this machine.", evidence=evidence, next_step=next_step)


def _can_be_fetched(config: ProjectConfig, run: Run) -> bool:
    from potato_ray.backends.left_on_host import left_on_host

    try:
        left_on_host(config, run, config.training_dir / "runs" / run.run_id)
    except Conflict:
        return False
    return True


def _successful(config: ProjectConfig, run: str) -> Run:
    """The run of that id, or the newest success. Raises NotFound, which names the folder of a pruned run."""
    if run == LATEST:
        return find_run(config, run, status="success")
    try:
        return find_run(config, run)
    except NotFound as missing:
        folder = run_lookup.run_folder(config, run)
        if folder is not None and (folder / "artifacts" / "model_card.json").is_file():
            missing.next_step = f"Predict with the folder in place of the run: potato-ray predict {folder} …"
        raise


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    """Standard output as UTF-8, or a file that appears only when it is complete."""
    if output is None:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as stream:
            yield stream
        return
    if not output.parent.is_dir():
        raise NotFound(f"There is no folder {output.parent}.", next_step="Make it, or write elsewhere.")
    part = output.with_name(output.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            yield stream
        part.replace(output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def rows_of(file: Path, paths: ProjectPaths, fields: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """One row a text, as a bundle would hold it; a record without an id is named by its number, from 1.

    `fields` are those that the trainer reads; a line of a text file has none, and its text stands for them.
    Blank lines of a text file are left out, and records with an empty text; the others keep their numbers.
    """
    if str(file) == "-" or file.suffix.lower() in LINES:
        yield from _lines(file)
        return
    if not file.is_file():
        raise _no_file(file)
    if file.suffix.lower() not in RECORDS:
        raise ProjectUnreadable(
            f"The file {file.name} has a format that is not read.",
            code="input_unreadable",
            evidence=f"Read are {FORMATS}.",
            next_step="Name a file of texts in one of these formats.",
        )
    empty = 0
    for number, record in _records(file):
        row = _row(number, record, paths, fields, file)
        parts = [*row.get("texts", [row["text"]]), *row.get("fields", {}).values()]
        if any(part.strip() for part in parts):
            yield row
        else:
            empty += 1
    if empty:
        say(f"left out {empty} record{'' if empty == 1 else 's'} with an empty text")


def _records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from read_records(file, file.name, NEW_TEXTS)
    except ProjectUnreadable as unreadable:
        if unreadable.code == ProjectUnreadable.default_code:
            unreadable.code = UNREADABLE
        raise


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    # The shell's <(…) gives a pipe, which is read as a file of lines is.
    if str(file) != "-" and not (file.is_file() or file.is_fifo()):
        raise _no_file(file)
    blank = 0
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if str(file) == "-" else stack.enter_context(file.open("rb"))
        for number, line in enumerate(stream, start=1):
            text = clean(_decoded(line, number, file).rstrip("\r\n"))
            if text.strip():
                yield {"instance_id": str(number), "text": text}
            else:
                blank += 1
    if blank:
        say(f"left out {blank} blank line{'' if blank == 1 else 's'}")


def _decoded(line: bytes, number: int, file: Path) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        name = "standard input" if str(file) == "-" else file.name
        raise ProjectUnreadable(
            f"Line {number} of {name} is not UTF-8.",
            code=UNREADABLE,
            evidence=f"Byte {error.start + 1} of the line is 0x{line[error.start]:02x}.",
            next_step="Save the texts as UTF-8, for example with iconv.",
        ) from None


def _row(
    number: int, record: dict[str, Any], paths: ProjectPaths, fields: Sequence[str], file: Path
) -> dict[str, Any]:
    carried = {name: clean(readable(record.get(name))) for name in fields}
    key = paths.text_key if paths.text_key in record else "text"
    if key not in record and not any(carried.values()):
        raise ProjectUnreadable(
            f"Record {number} of {file.name} has no text.",
            code=UNREADABLE,
            evidence=f"It has the fields {', '.join(map(str, record)) or 'none'}.",
            next_step=f"Give each record a field '{fields[0] if fields else paths.text_key}'.",
        )
    value = record.get(key)
    row: dict[str, Any] = {"instance_id": str(record.get(paths.id_key, record.get("id", number)))}
    if carried:
        row["fields"] = carried
    if isinstance(value, list):
        row["texts"] = [clean(readable(part)) for part in value]
        return {**row, "text": joined(row["texts"], paths.list_prefix)}
    return {**row, "text": clean(readable(value))}


def _no_file(file: Path) -> NotFound:
    message = f"{file} is no file of texts." if file.exists() else f"There is no file {file}."
    return NotFound(message, next_step="Name a file of texts, or - for standard input.")
