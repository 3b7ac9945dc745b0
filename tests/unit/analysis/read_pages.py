"""Reads a page as a browser does, as far as elements and their text."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser


class Page(HTMLParser):
    """Counts tags, and collects the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_data(self, data: str) -> None:
        self.text += data
