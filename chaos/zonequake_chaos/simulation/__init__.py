"""A deterministic simulation of data nodes, their disks, network, operator and clients."""
