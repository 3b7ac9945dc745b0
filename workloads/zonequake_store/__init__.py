"""The data node: Raft groups, partitions, storage and the protocols to reach them."""
