"""The problems of a run, and the harness's verdict on them."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import Verdict, worst


@dataclass(slots=True, kw_only=True)
class Problems:
    """The problems so far; `unclean`: those because of which something may be left."""

    verdicts: list[Verdict] = field(default_factory=lambda: [Verdict.PASSED])
    texts: list[str] = field(default_factory=list)
    unclean: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, text: str) -> None:
        self.verdicts.append(verdict)
        self.texts.append(text)
        if verdict is Verdict.CLEANUP_NOT_PROVEN:
            self.unclean.append(text)

    def report(self) -> HarnessReport:
        return HarnessReport(
            verdict=worst(self.verdicts),
            problems=self.texts,
            work=worst(v for v in self.verdicts if v is not Verdict.CLEANUP_NOT_PROVEN),
            unclean=self.unclean,
        )
