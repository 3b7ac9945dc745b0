"""Clusters, faults, triggers, scenarios, the runner and the zonequake command."""
