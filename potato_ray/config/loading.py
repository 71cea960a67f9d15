"""Reading a configuration file, YAML or JSON, with the line of every key.

Values are read as YAML 1.1 has them, which is how Potato reads them, with three differences that
spare people surprises: `12:00:00` stays text instead of becoming the number 43200, `1e-5` is a number,
and a date stays text. Keys are always text.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from potato_ray.config.document import Document, KeyPath, dotted
from potato_ray.config.findings import Code, Finding

MAX_BYTES = 16 * 2**20
MAX_VALUES = 200_000
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?0b[01_]+$|[-+]?0[0-7_]*$|[-+]?[1-9][0-9_]*$|[-+]?0x[0-9a-fA-F_]+$")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$"
    r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)


class Unreadable(Exception):
    """The file yields no mapping at all; carries the one finding that says why."""

    def __init__(self, message: str, code: Code, line: int | None = None) -> None:
        super().__init__(message)
        self.finding = Finding("error", "", message, line, code=code)


class ConfigLoader(yaml.SafeLoader):
    """SafeLoader with the three differences that the module names; it only composes nodes."""


def _resolvers() -> dict[str | None, list[tuple[str, re.Pattern[str]]]]:
    replaced = {_TAG + "int", _TAG + "float", _TAG + "timestamp"}
    return {
        first: [(tag, pattern) for tag, pattern in pairs if tag not in replaced]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


ConfigLoader.yaml_implicit_resolvers = _resolvers()
ConfigLoader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+0123456789."))
ConfigLoader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))


def read_document(path: Path) -> Document:
    """Read the file. Raises Unreadable; smaller faults become findings of the document."""
    text = _text(path)
    try:
        if path.suffix.lower() == ".json":
            return _from_json(path, text)
        return _from_yaml(path, text)
    except RecursionError:
        raise Unreadable("is nested too deeply to be a configuration", "too_large") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise Unreadable(f"There is no file {path}.", "config_unreadable") from None
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise Unreadable(f"{path} cannot be read: {reason}.", "config_unreadable") from None
    if len(raw) > MAX_BYTES:
        raise Unreadable(f"{path} is over {MAX_BYTES // 2**20} MiB; no configuration is.", "too_large")
    return _decoded(raw)


def _decoded(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("The file is UTF-16. Save it as UTF-8.", "not_utf8", 1)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        byte = raw[failure.start]
        raise Unreadable(
            f"The file is not UTF-8: byte 0x{byte:02x}. Save it as UTF-8.", "not_utf8", line
        ) from None


def _from_yaml(path: Path, text: str) -> Document:
    document = Document(path, {})
    document.data = _mapping_of(_Conversion(document).convert(_composed(text), ()))
    return document


def _from_json(path: Path, text: str) -> Document:
    """JSON is YAML but for tabs and some escapes: json gives the values, the YAML nodes the lines."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as failure:
        where = f"at column {failure.colno}"
        raise Unreadable(
            f"The file is not valid JSON {where}: {failure.msg}.", "syntax", failure.lineno
        ) from None
    except ValueError as failure:
        raise Unreadable(f"The file is not valid JSON: {failure}.", "syntax") from None
    document = Document(path, _mapping_of(values))
    _Conversion(document).convert(_composed(text.replace("\t", " ")), ())
    return document


def _mapping_of(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if value is None:
        raise Unreadable("The file is empty. It must hold the project's keys.", "not_a_mapping")
    found = "a list" if isinstance(value, list) else "a single value"
    raise Unreadable(f"The file holds {found}; it must hold a mapping of keys.", "not_a_mapping", 1)


def _composed(text: str) -> Node | None:
    try:
        loader = ConfigLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as failure:
        line = text.count("\n", 0, failure.position) + 1
        character = failure.character
        number = character if isinstance(character, int) else ord(character)
        message = f"The file holds a character that YAML does not allow (U+{number:04X})."
        raise Unreadable(message, "syntax", line) from None
    except yaml.MarkedYAMLError as failure:
        raise _syntax_error(failure) from None
    except ValueError as failure:
        # An escape beyond Unicode ("\UFFFFFFFF") comes without a mark.
        raise Unreadable(f"The file is not valid YAML: {failure}.", "syntax") from None


def _syntax_error(failure: yaml.MarkedYAMLError) -> Unreadable:
    mark = failure.problem_mark or failure.context_mark
    what = ", ".join(part for part in (failure.context, failure.problem) if part)
    if mark is None:
        return Unreadable(f"The file is not valid YAML: {what}.", "syntax")
    return Unreadable(
        f"The file is not valid YAML at column {mark.column + 1}: {what}.", "syntax", mark.line + 1
    )


class _Conversion:
    """Turns nodes into plain values and notes the line of each in the document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._constructor = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()
        self._pairs_of: dict[int, dict[str, tuple[Node, Node]]] = {}
        self._values = 0

    def convert(self, node: Node | None, path: KeyPath) -> Any:
        """The value of `node`, which stands at `path`. Raises Unreadable when there is no end to it."""
        if node is None:
            return None
        self._values += 1
        if self._values > MAX_VALUES:
            raise Unreadable("The file has too many values (aliases count each time).", "too_large")
        if id(node) in self._open:
            self._fault(node, path, "refers to itself", "syntax")
            return None
        self._open.add(id(node))
        try:
            return self._value(node, path)
        finally:
            self._open.discard(id(node))

    def _value(self, node: Node, path: KeyPath) -> Any:
        if isinstance(node, MappingNode):
            self._allow(node, path, "map")
            return {
                key: self._child(pair[1], (*path, key), pair[0])
                for key, pair in self._pairs(node, path).items()
            }
        if isinstance(node, SequenceNode):
            self._allow(node, path, "seq")
            return [self._child(item, (*path, index), item) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _child(self, node: Node, path: KeyPath, marked: Node) -> Any:
        self._document.lines[path] = marked.start_mark.line + 1
        return self.convert(node, path)

    def _pairs(self, node: MappingNode, path: KeyPath) -> dict[str, tuple[Node, Node]]:
        """Key → its node and its value's node; a mapping's own keys win over those it merges (`<<`)."""
        known = self._pairs_of.get(id(node))
        if known is not None:
            return known
        self._pairs_of[id(node)] = {}
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                for source in self._sources(value, path):
                    merged = {**self._pairs(source, path), **merged}
            elif isinstance(key, ScalarNode):
                self._take(own, key, value, path)
            else:
                self._fault(key, path, "has a key that is a list or a mapping; keys are words", "wrong_type")
        self._pairs_of[id(node)] = {**merged, **own}
        return self._pairs_of[id(node)]

    def _take(self, own: dict[str, tuple[Node, Node]], key: ScalarNode, value: Node, path: KeyPath) -> None:
        if key.value in own:
            first, second = own[key.value][0].start_mark.line + 1, key.start_mark.line + 1
            self._fault(
                key, (*path, key.value), f"stands twice, in lines {first} and {second}", "duplicate_key"
            )
            return
        own[key.value] = (key, value)

    def _sources(self, node: Node, path: KeyPath) -> list[MappingNode]:
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        mappings = [source for source in nodes if isinstance(source, MappingNode)]
        if len(mappings) < len(nodes):
            self._fault(node, path, "merges (<<) something that is no mapping", "syntax")
        return mappings

    def _scalar(self, node: Any, path: KeyPath) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "value"):
            return node.value
        self._document.words[path] = node.value
        try:
            return self._plain(kind, node, path)
        except (ValueError, KeyError, IndexError):
            self._fault(node, path, f"is no valid {kind}: {node.value[:40]}", "syntax")
            return node.value

    def _plain(self, kind: str, node: Any, path: KeyPath) -> Any:
        if kind == "null":
            return None
        if kind == "bool":
            return self._constructor.construct_yaml_bool(node)
        if kind == "int":
            return self._constructor.construct_yaml_int(node)
        if kind == "float":
            return self._constructor.construct_yaml_float(node)
        self._allow(node, path, "str")
        return node.value

    def _allow(self, node: Node, path: KeyPath, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._fault(node, path, f"has the tag {node.tag}; write a plain value instead", "syntax")

    def _fault(self, node: Node, path: KeyPath, message: str, code: Code) -> None:
        line = node.start_mark.line + 1
        self._document.findings.append(Finding("error", dotted(path), message, line, code=code))
