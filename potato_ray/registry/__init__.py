"""The registry: runs, queue, predictions and reservations in `<task_dir>/project.sqlite`."""

from potato_ray.registry.items import StoredPrediction
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import NewRun, Reservation, Reserved, Run
from potato_ray.registry.states import ACTIVE, ENDED, State
from potato_ray.registry.store import Registry

__all__ = [
    "ACTIVE",
    "ENDED",
    "NewRun",
    "Registry",
    "RegistryReader",
    "Reservation",
    "Reserved",
    "Run",
    "State",
    "StoredPrediction",
]
