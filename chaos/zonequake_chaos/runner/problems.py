"""What stood in a run's way, and the verdict that the harness makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonequake_chaos.record.outcome import RunVerdict, worst
from zonequake_chaos.record.run_folder import HarnessReport


@dataclass(slots=True, kw_only=True)
class Problems:
    """The problems so far; `unclean`: those that say that something may be left."""

    verdicts: list[RunVerdict] = field(default_factory=lambda: [RunVerdict.PASSED])
    texts: list[str] = field(default_factory=list)
    unclean: list[str] = field(default_factory=list)

    def add(self, verdict: RunVerdict, text: str) -> None:
        self.verdicts.append(verdict)
        self.texts.append(text)
        if verdict is RunVerdict.CLEANUP_NOT_PROVEN:
            self.unclean.append(text)

    def report(self) -> HarnessReport:
        return HarnessReport(
            verdict=worst(self.verdicts),
            problems=self.texts,
            work=worst(v for v in self.verdicts if v is not RunVerdict.CLEANUP_NOT_PROVEN),
            unclean=self.unclean,
        )
