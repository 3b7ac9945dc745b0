"""A toy as a target: a store of one process that keeps its writes in memory for a second."""
