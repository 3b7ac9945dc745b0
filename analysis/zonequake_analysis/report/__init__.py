"""The report of a run: HTML, Markdown, JSON and JUnit, from one Judgement."""

from zonequake_analysis.report.write import write_report

__all__ = ["write_report"]
