"""Faults of a pod's disk: failing and slow calls, full volumes, power losses."""
