"""Mutual TLS between the parts of a release: identities and their permissions (docs/tls.md).

The standard library's `ssl` does all of the cryptography. This package decides which clients are
admitted, reads the files again when they change, and logs which were refused and why.
"""
