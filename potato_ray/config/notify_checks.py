"""Checks of model_training.notify beyond its values: the environment, and the way to the receiver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from potato_ray.config.document import Document, KeyPath
from potato_ray.config.training_checks import TRAINING
from potato_ray.loopback import is_this_machine

NOTIFY: KeyPath = (TRAINING, "notify")


def check_notify(document: Document, environ: Mapping[str, str] = os.environ) -> None:
    """Warn of a secret that is not there, and of a way that others can read."""
    variable = document.text(*NOTIFY, "secret_env")
    reported = [finding.key for finding in document.findings]
    if any(key.startswith(".".join(map(str, NOTIFY))) for key in reported):
        return
    if variable and not environ.get(variable):
        message = (
            f"the environment variable {variable} is not set here, and nothing is sent without the secret"
        )
        document.warn((*NOTIFY, "secret_env"), message, "secret_missing")
    address = urlsplit(document.text(*NOTIFY, "url"))
    if address.scheme == "http" and not is_this_machine(address.hostname or ""):
        message = "it is http:// to another machine, so what is sent is not encrypted; use https://"
        document.warn((*NOTIFY, "url"), message, "not_encrypted")
