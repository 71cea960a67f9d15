"""The Python client: start runs on a server and read what became of them.

    from potato_ray.client import Client

    with Client("http://127.0.0.1:8000", api_key) as client:
        run = client.train("sklearn-text", "sentiment").wait()
        print(run.headline, run.metrics)

`AsyncClient` is the same with `await`. docs/client.md has the rest.
"""

from __future__ import annotations

from potato_ray.client.async_client import AsyncClient
from potato_ray.client.async_run import AsyncPredictions, AsyncRun
from potato_ray.client.client import Client
from potato_ray.client.failures import (
    AccessRefused,
    BadRequest,
    ClientError,
    Conflict,
    KeyInTheClear,
    NotFound,
    ProtocolError,
    ServerError,
    ServerUnavailable,
    StartRefused,
    TooManyRequests,
    UnsafePath,
    WaitTimedOut,
)
from potato_ray.client.records import (
    AgentToken,
    Artifact,
    BackendInfo,
    CheckReport,
    Event,
    Headline,
    Prediction,
    RemoteFile,
    RunRecord,
    SchemaInfo,
    TrainerInfo,
)
from potato_ray.client.run import Predictions, Run
from potato_ray.errors import Cancelled, PotatoRayError, RunFailed

__all__ = [
    "AccessRefused",
    "AgentToken",
    "Artifact",
    "AsyncClient",
    "AsyncPredictions",
    "AsyncRun",
    "BackendInfo",
    "BadRequest",
    "Cancelled",
    "CheckReport",
    "Client",
    "ClientError",
    "Conflict",
    "Event",
    "Headline",
    "KeyInTheClear",
    "NotFound",
    "PotatoRayError",
    "Prediction",
    "Predictions",
    "ProtocolError",
    "RemoteFile",
    "Run",
    "RunFailed",
    "RunRecord",
    "SchemaInfo",
    "ServerError",
    "ServerUnavailable",
    "StartRefused",
    "TooManyRequests",
    "TrainerInfo",
    "UnsafePath",
    "WaitTimedOut",
]
