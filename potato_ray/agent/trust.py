"""Whom the agent believes that it talks to the server."""

from __future__ import annotations

import os
import ssl

from potato_ray.agent.errors import AgentMisconfigured


def trusting(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """What the server's certificate is checked with: the authorities in `ca_file`, or the system's.

    Raises AgentMisconfigured.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else os.fspath(ca_file))
    except OSError as failure:
        # An SSLError is an OSError, too, whose number is none of the operating system's.
        is_content = isinstance(failure, ssl.SSLError) or not failure.strerror
        why = "it holds no certificate" if is_content else failure.strerror
        raise AgentMisconfigured(
            f"The file {ca_file} cannot be used as --ca-file: {why}.",
            code="bad_ca_file",
            next_step="Give a file that holds the authority's certificate in PEM form.",
        ) from failure
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
