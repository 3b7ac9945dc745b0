"""Reads YAML that people write: plain values that end, or one kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml


class PlainLoader(yaml.SafeLoader):
    """YAML's safe values, without one that holds itself."""

    def construct_document(self, node: yaml.Node) -> Any:  # noqa: ANN401 - whatever the text holds
        """Constructs values from the inside out, which refuses one that holds itself."""
        self.deep_construct = True
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
        """Constructs a value. Raises YAMLError, also for a date or number that there can't be."""
        try:
            if node in self.recursive_objects:
                raise ValueError("expected a value that doesn't hold itself")
            return super().construct_object(node, deep)
        except (ValueError, LookupError, ArithmeticError, AttributeError) as error:
            found = f"found {node.value!r:.80}" if isinstance(node.value, str) else "found an alias"
            raise yaml.constructor.ConstructorError(
                None, None, f"{found}: {error}", node.start_mark
            ) from error


def read_yaml(text: str, loader: type[PlainLoader] = PlainLoader) -> Any:  # noqa: ANN401
    """Returns the value of the text's one document. Raises yaml.YAMLError and nothing else for any
    text.
    """
    return _within_depth(lambda: yaml.load(text, Loader=loader))  # noqa: S506 - a SafeLoader


def read_yaml_documents(text: str) -> list[Any]:
    """Returns the values of all documents. Raises yaml.YAMLError and nothing else for any text."""
    documents: list[Any] = _within_depth(lambda: list(yaml.load_all(text, Loader=PlainLoader)))
    return documents


def _within_depth(read: Callable[[], Any]) -> Any:  # noqa: ANN401
    try:
        return read()
    except RecursionError:
        raise yaml.YAMLError(
            "found lists or mappings nested too deep, expected fewer levels"
        ) from None
