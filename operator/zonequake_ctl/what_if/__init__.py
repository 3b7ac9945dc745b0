"""Shows what the operator would do: runs its rules over a file, in virtual time, without a
cluster.
"""
