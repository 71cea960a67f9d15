"""pandas, as far as a table is made with it."""

from __future__ import annotations

import types
from typing import Any


class FakePandas(types.ModuleType):
    """Put it into sys.modules as pandas; a DataFrame is its rows and columns."""

    def __init__(self) -> None:
        super().__init__("pandas")

    @staticmethod
    def DataFrame(rows: list[dict[str, Any]], columns: list[str] | None) -> Any:  # noqa: N802 - its name
        return {"rows": rows, "columns": columns}
