"""The tables of an analyzed run, for SQL: `open_tables(spark, "runs/x")`."""

from zonequake_analysis.tables.opened import open_tables

__all__ = ["open_tables"]
