"""The key that opens the admin pages and the API (the X-API-Key header)."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.errors import ProjectUnreadable

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig

VARIABLE = "POTATO_ADMIN_API_KEY"
FILE_NAME = "admin_api_key.txt"


def find_admin_key(config: ProjectConfig, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key that is set: in the configuration, the environment, or the file of an earlier start."""
    return config.admin_api_key or environ.get(VARIABLE, "").strip() or _stored(config.task_dir / FILE_NAME)


def ensure_admin_key(config: ProjectConfig, environ: Mapping[str, str] = os.environ) -> str:
    """The key that is set, or a new one, kept in `<task_dir>/admin_api_key.txt` (mode 0600).

    Raises ProjectUnreadable when the file can be neither read nor written.
    """
    return find_admin_key(config, environ) or _created(config.task_dir / FILE_NAME)


def _stored(path: Path) -> str | None:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as failure:
        raise _unusable(path, failure) from None
    # Potato leaves this file open to everybody on the machine.
    with contextlib.suppress(OSError):
        path.chmod(0o600)
    return key or None


def _created(path: Path) -> str:
    """A new key, unless another process was faster; an empty file left by a crash is replaced."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(secrets.token_urlsafe(32) + "\n")
        if path.exists() and not path.read_text(encoding="utf-8").strip():
            path.unlink()
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        return path.read_text(encoding="utf-8").strip()
    except OSError as failure:
        raise _unusable(path, failure) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _unusable(path: Path, failure: Exception) -> ProjectUnreadable:
    reason = getattr(failure, "strerror", None) or "it is not UTF-8"
    return ProjectUnreadable(
        f"The admin key's file {path.name} cannot be used.",
        code="admin_key_unusable",
        evidence=f"{path}: {reason}.",
        next_step=f"Set admin_api_key in the configuration, or {VARIABLE} in the environment.",
    )
