from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from potato_ray.job import events, folder, follow, supervisor
from potato_ray.job.limits import DATA_LIMIT_FACTOR

PAGE = (Path(__file__).parents[2] / "docs" / "job-folder.md").read_text("utf-8")
NAMED = set(re.findall(r"`([^`\s]+)`", PAGE))


def test_the_page_names_every_file_of_the_folder():
    job = folder.JobFolder("job")
    paths = [
        getattr(job, name) for name, kind in vars(folder.JobFolder).items() if isinstance(kind, property)
    ]
    names = {path.name for path in paths}
    assert {name for name in names if not {name, name + "/"} & NAMED} == set()


def test_the_page_names_every_event_reason_and_phase():
    assert {*events.NAMES, *folder.REASONS, *events.PHASES} - NAMED == set()


def test_the_page_names_every_field_of_process_and_exit():
    kinds = (folder.Exit, folder.ProcessId, folder.Processes)
    assert {field.name for kind in kinds for field in dataclasses.fields(kind)} - NAMED == set()


def test_the_page_lists_the_exit_codes_and_no_others():
    listed = {int(code) for code in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)}
    codes = {value for name, value in vars(events).items() if name.startswith("EXIT_")}
    assert listed == codes


def test_the_figures_on_the_page_are_those_of_the_code():
    assert f"has not changed for {follow.SILENT_HOST_S:.0f} seconds" in PAGE
    assert (supervisor.ORPHAN_PATIENCE_S, DATA_LIMIT_FACTOR) == (0.5, 4)
