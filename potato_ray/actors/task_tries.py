"""A Ray task whose process was lost is given to another one; a task that failed is not."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import ray.exceptions

from potato_ray.actors.failures import task_failure

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_TRIES: Final = 3


@dataclass(frozen=True)
class TaskTries:
    """What is done for a run, in words ("building the bundle"), and the code of its failure."""

    run_id: str
    doing: str
    code: str

    async def answer(self, submit: Callable[[], Awaitable[T]], tries: int = MAX_TRIES) -> T:
        """What `submit` answers; it is called again where the process was lost.

        Raises what the task raised, or RunFailed with the code.
        """
        for left in reversed(range(tries)):
            try:
                return await submit()
            except ray.exceptions.RayTaskError as error:
                raise task_failure(error, self.code, self.doing) from error
            except ray.exceptions.RayError as error:
                if not left:
                    raise task_failure(error, self.code, self.doing) from error
                logger.warning(
                    "run %s: the process %s was lost (%s)", self.run_id, self.doing, type(error).__name__
                )
        raise AssertionError("unreachable: the loop returns or raises")
