"""The client of an etcd; mounted into the load pods, and so without the rest of its package."""

from zonequake_target_etcd.client.target import connect

__all__ = ["connect"]
