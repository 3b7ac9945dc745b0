"""Mutual TLS between the parts of a release: identities and their permissions (docs/tls.md).

The standard library's `ssl` does all of the cryptography. What is here decides who is let in, reads
the files again when they change, and says who was refused and why.
"""
