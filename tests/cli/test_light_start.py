"""Commands that only look start at once: they load neither Ray nor any numerical library."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from training_libraries import EXTRAS, NUMERICAL

CONFIG = Path(__file__).parent.parent / "projects" / "review-sentiment" / "config.yaml"
HEAVY = NUMERICAL | {"ray", "fastapi", "paramiko", "huggingface_hub"}
PROGRAM = """
import sys
from potato_ray.cli import main
try:
    main()
except SystemExit:
    pass
print("LOADED", *{name.partition(".")[0] for name in sys.modules})
"""


def loaded_by(*arguments: str) -> set[str]:
    """The top-level modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("training", "--help"),
        ("training", "run", "--help"),
        ("validate", str(CONFIG)),
        ("validate", "--json", str(CONFIG)),
        ("training", "runs", str(CONFIG)),
    ],
)
def test_a_command_that_only_looks_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(*arguments)
    assert "potato_ray" in loaded
    assert loaded & HEAVY == set()


def distributions(name: str, seen: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """A distribution and all that its base install brings, by normalised name."""
    key = name.lower().replace("_", "-")
    if key not in seen:
        seen[key] = metadata.distribution(name)
        for line in seen[key].requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                distributions(need.name, seen)
    return seen


def size_bytes(distribution: metadata.Distribution) -> int:
    paths = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def test_the_base_install_stays_under_700_mb() -> None:
    sizes = {name: size_bytes(each) for name, each in distributions("potato-ray", {}).items()}
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:5]
    assert sum(sizes.values()) < 700e6, {name: sizes[name] for name in largest}


def test_the_base_install_brings_nothing_that_only_some_trainers_need() -> None:
    brought = {name.replace("-", "_") for name in distributions("potato-ray", {})}
    assert brought & EXTRAS == set()
