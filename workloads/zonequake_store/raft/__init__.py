"""The Raft core: sans-IO, deterministic, the same in the simulation and on a cluster."""
