"""The Raft core: sans-IO, deterministic, the same in the simulation and on a cluster.

The modules `state`, `leader`, `handover`, `reads` and `reconfigure` import each other in a
circle, the only one of the product. They are one state machine, cut into files by topic: a replica
owns its leadership as long as it leads, and a leadership changes its replica's term, log and role.
An interface between them would repeat nearly all that both have, for one implementation each.
"""
