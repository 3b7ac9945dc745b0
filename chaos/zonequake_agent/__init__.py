"""The fault agent acts on the node that runs a pod. Uses only the standard library.

It runs in a privileged pod in a separate namespace, or on the machine of an embedded cluster. It
listens on no port: each command is a process that ends with its answer (docs/agent.md).
"""
