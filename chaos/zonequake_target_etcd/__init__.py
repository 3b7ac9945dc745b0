"""etcd as a target: a cluster of its own for each run."""
