"""The example projects are begun with as the pages say: copied, and valid where they lie then."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from potato_ray.config import load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "name"), [("slurm", "slurm"), ("ssh", "ssh"), ("agents", "agent")])
def test_the_example_of_a_page_is_valid_once_it_is_copied_as_the_page_says(
    tmp_path: Path, page: str, name: str
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    (copy,) = re.findall(r"`(mkdir lab && cp -r [^`]+)`", text)
    assert f"work in `lab/{name}`" in text
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    subprocess.run(["sh", "-c", copy], cwd=tmp_path, check=True, timeout=30)
    assert load(tmp_path / "lab" / name / "config.yaml").task_dir == tmp_path / "lab" / "local"
