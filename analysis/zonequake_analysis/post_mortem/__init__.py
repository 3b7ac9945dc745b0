"""Findings over time, with the operations and log lines around some of them, for the report."""
