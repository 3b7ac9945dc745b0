"""Schedules written by hand, for what random ones hardly ever reach."""
