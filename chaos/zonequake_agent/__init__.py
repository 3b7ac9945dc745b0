"""The fault agent: what must be done on the node that carries a pod. Standard library alone.

It runs in a privileged pod of a namespace of its own, or on the machine of an embedded cluster. It
listens to nobody: each command is a process of its own that ends with its answer (docs/agent.md).
"""
