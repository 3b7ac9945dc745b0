"""The client of an Ignite; mounted into the load pods, and so without the rest of its package."""

from zonequake_target_ignite.client.target import connect

__all__ = ["connect"]
