"""A project served by the real application on a port, with a controller that trains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from registry_link import RegistryLink

from potato_ray.config import load
from potato_ray.registry.reading import RegistryReader
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

KEY = "the-admin-key-of-the-tests"


class ServedProject:
    """A project on a port; `controller.write` moves its runs along, as the real controller would."""

    def __init__(self, folder: Path) -> None:
        path = folder / "config.yaml"
        body = {**yaml.safe_load(path.read_text("utf-8")), "admin_api_key": KEY}
        path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
        self.config = load(path)
        self.controller = RegistryLink(self.config)
        self.reader = RegistryReader(self.config.registry_path, project=self.config.annotation_task_name)
        self.app = create_app(ServerContext(self.config, self.reader, self.controller, admin_key=KEY))
        self.url = ""

    def write(self, method: str, *args: Any, **values: Any) -> Any:
        """Call a method of the registry."""
        return self.controller.write(getattr(self.controller.registry, method), *args, **values)

    def artifacts(self, run_id: str) -> Path:
        folder = self.config.training_dir / "runs" / run_id / "artifacts"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
