"""Take the pictures of docs/pages.md: python tests/bench/page_pictures.py

The project is a copy of tests/projects/multi-scheme with a past that is written into its registry.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "testbeds"))

from browser import NARROW, WIDE, chromium, page_of, served  # noqa: E402
from many_runs import a_run_and_a_queue, thirty_runs  # noqa: E402
from registry_link import RegistryLink  # noqa: E402

from potato_ray.config import ProjectConfig, load  # noqa: E402
from potato_ray.registry.reading import RegistryReader  # noqa: E402
from potato_ray.registry.store import Registry  # noqa: E402
from potato_ray.server.app import create_app  # noqa: E402
from potato_ray.server.context import ServerContext  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
KEY = "fixture-admin-key"
LAB = {"type": "ssh", "host": "gpu.example.org", "description": "Two A6000 in the lab, shared with others"}
FINE_TUNING = "hf-text-classification"
STEP_S = 1.7
TICKS = 190
LOOKS = (
    ("training-wide-light.png", WIDE, "light", 2080),
    ("training-narrow-dark.png", NARROW, "dark", 1080),
)


def project(folder: Path) -> ProjectConfig:
    """A project whose runs were made one after the other up to now."""
    shutil.copytree(ROOT / "tests" / "projects" / "multi-scheme", folder)
    path = folder / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["model_training"]["backends"] = {"lab": LAB}
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    config = load(path)
    ticks = itertools.count()
    began = time.time() - TICKS * STEP_S
    with Registry(
        config.registry_path, config.annotation_task_name, clock=lambda: began + STEP_S * next(ticks)
    ) as registry:
        thirty_runs(registry)
        a_run_and_a_queue(registry, 2)
    return config


def take(config: ProjectConfig) -> None:
    link = RegistryLink(config)
    reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
    app = create_app(ServerContext(config, reader, link, admin_key=KEY))
    headers = {"X-API-Key": KEY}
    with chromium() as browser, served(app) as url:
        for name, size, scheme, height in LOOKS:
            with page_of(browser, url, size=size, scheme=scheme, extra_http_headers=headers) as page:
                page.goto("/admin/training")
                page.wait_for_timeout(800)
                clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
                page.screenshot(path=PICTURES / name, full_page=True, clip=clip)
        with page_of(browser, url, size=WIDE, scheme="light", extra_http_headers=headers) as page:
            page.goto("/admin/training")
            page.select_option("#trainer", FINE_TUNING)
            fields = page.locator(f"fieldset[data-of-trainer={FINE_TUNING}]")
            fields.get_by_label("lora", exact=True).check()
            fields.get_by_text("Parameters of lora").click()
            page.locator("section", has=page.locator("#trainer")).screenshot(
                path=PICTURES / "form-wide-light.png"
            )
    link.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="prt-", dir="/tmp") as scratch:
        take(project(Path(scratch) / "p"))
