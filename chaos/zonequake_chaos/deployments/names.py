"""The values of `--target`; in a module of their own, since the deployments load slowly."""

OURS = "zonequake"
ETCD = "etcd"
TARGETS = (OURS, ETCD)
