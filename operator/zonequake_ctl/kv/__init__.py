"""`zonequake kv`: single keys and transactions through the load's client library.

cli          the commands
words        a transaction's steps as words
credentials  the certificate for it
forwards     port-forwards to data nodes
"""
