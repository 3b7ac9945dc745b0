"""Faults, one small module each, and the table that finds them by the manifest's type."""
