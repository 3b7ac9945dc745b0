"""The words that `--target` takes; apart, because what belongs to them takes long to load."""

OURS = "zonequake"
ETCD = "etcd"
TARGETS = (OURS, ETCD)
