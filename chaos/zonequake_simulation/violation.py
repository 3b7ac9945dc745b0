"""The exception that a broken rule raises."""

from __future__ import annotations


class Violation(Exception):
    """A rule was broken: `rule` says which, `facts` how."""

    def __init__(self, rule: str, **facts: object) -> None:
        super().__init__(rule, facts)
        self.rule = rule
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.rule}: " + ", ".join(f"{name}={fact}" for name, fact in self.facts.items())


def require(condition: bool, rule: str, **facts: object) -> None:
    """Raises Violation unless `condition` holds."""
    if not condition:
        raise Violation(rule, **facts)
