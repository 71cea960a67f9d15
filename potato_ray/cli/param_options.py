"""`--param name=value`: a trainer's parameters as they are written on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from potato_ray.errors import StartRefused


def parse_params(pairs: Sequence[str]) -> dict[str, Any]:
    """`["C=2", "lora.r=8"]` → `{"C": 2, "lora": {"r": 8}}`; values are read as those of a configuration.

    A dotted name sets one member of a mapping, which may stand before it as a whole or as true; of equal
    names the last one counts. Raises StartRefused (bad_params).
    """
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        path = [part.strip() for part in name.split(".")]
        if not equals or not all(path):
            raise _refused(
                f"--param {pair} is not of the form name=value.", "Write for example --param min_instances=5."
            )
        _put(params, path, _value(name, text))
    return params


def _put(params: dict[str, Any], path: list[str], value: Any) -> None:
    mapping = params
    for depth, part in enumerate(path[:-1], 1):
        if mapping.get(part, True) is True:
            mapping[part] = {}
        mapping = mapping[part]
        if not isinstance(mapping, dict):
            above = ".".join(path[:depth])
            raise _refused(
                f"--param {'.'.join(path)} is part of {above}, which another --param sets to {mapping!r}.",
                f"Leave out one of the two, or write --param {above}=true.",
            )
    mapping[path[-1]] = value


def _value(name: str, text: str) -> Any:
    import yaml

    from potato_ray.config.loading import ConfigLoader

    try:
        loader = ConfigLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:
        raise _refused(
            f"The value of --param {name} cannot be read as YAML.",
            "Put the value in quotes.",
            str(error).splitlines()[0],
        ) from None


def _refused(message: str, next_step: str, evidence: str = "") -> StartRefused:
    return StartRefused(message, code="bad_params", evidence=evidence, next_step=next_step)
