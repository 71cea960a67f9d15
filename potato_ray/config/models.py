"""The configuration of a project: the keys of Potato's file that we read, and model_training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from potato_ray.config.backends import (
    AgentBackend,
    Backend,
    RayBackend,
    SlurmBackend,
    SshBackend,
)
from potato_ray.config.blocks import PotatoBlock
from potato_ray.config.training import AutoRetrain, ModelTraining, Notify, Splits, Tiling, Writeback
from potato_ray.config.values import DataFiles, MaybeEmpty, Schemes, Text, Texts

__all__ = [
    "AgentBackend",
    "AiSupport",
    "AutoRetrain",
    "Backend",
    "Datasets",
    "ItemProperties",
    "ModelTraining",
    "Notify",
    "PreAnnotation",
    "ProjectConfig",
    "RayBackend",
    "SlurmBackend",
    "Splits",
    "SshBackend",
    "Tiling",
    "UserConfig",
    "Writeback",
]


class ItemProperties(PotatoBlock):
    """The fields of an item that hold its id and its text."""

    id_key: Text
    text_key: Text


class UserConfig(PotatoBlock):
    """Who may annotate."""

    allow_all_users: bool = True
    users: Texts = ()


class Datasets(PotatoBlock):
    """Whether splits can be kept as dataset versions."""

    enabled: bool = False


class AiSupport(PotatoBlock):
    """`holdout` describes the control group that is shown no pre-label; Potato defines its form."""

    holdout: Any = None


class PreAnnotation(PotatoBlock):
    """Potato's own display of pre-labels that came with the data."""

    enabled: bool = False
    field: Text = "predictions"


class ProjectConfig(PotatoBlock):
    """A configuration without errors. `path` is the absolute path of its file.

    `task_dir` is relative to that file's folder, as Potato has it; the other paths are relative to
    `task_dir`, and all that end in _dir, _path or _paths are absolute here.
    """

    path: Path
    annotation_task_name: Text
    task_dir_as_written: Text = Field(default=".", alias="task_dir")
    data_files: DataFiles
    item_properties: ItemProperties
    output_annotation_dir: Text
    annotation_schemes: Schemes
    admin_api_key: Text | None = Field(default=None, repr=False)
    user_config: Annotated[UserConfig, MaybeEmpty] = UserConfig()
    require_password: bool = True
    debug: bool = False
    datasets: Annotated[Datasets, MaybeEmpty] = Datasets()
    ai_support: Annotated[AiSupport, MaybeEmpty] = AiSupport()
    pre_annotation: Annotated[PreAnnotation, MaybeEmpty] = PreAnnotation()
    media_directory: Text | None = None
    list_as_text: Any = None
    active_learning: Annotated[dict[str, Any], MaybeEmpty] = Field(default_factory=dict)
    model_training: Annotated[ModelTraining, MaybeEmpty] = ModelTraining()

    @property
    def task_dir(self) -> Path:
        """The project's folder."""
        return (self.path.parent / self.task_dir_as_written).resolve()

    @property
    def data_paths(self) -> tuple[Path, ...]:
        """The data files, in their order."""
        return tuple(self.task_dir / name for name in self.data_files)

    @property
    def output_dir(self) -> Path:
        """The folder with one folder per annotator."""
        return self.task_dir / self.output_annotation_dir

    @property
    def training_dir(self) -> Path:
        """The folder of all runs."""
        return self.output_dir / "training"

    @property
    def registry_path(self) -> Path:
        """The project's database."""
        return self.task_dir / "project.sqlite"

    @property
    def state_dir(self) -> Path:
        """The folder for what only a running server needs: lock, tokens, Ray's session."""
        return self.task_dir / ".potato_ray"
