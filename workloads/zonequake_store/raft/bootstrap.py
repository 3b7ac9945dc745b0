"""A group's first configuration, written alike by each of its members, without any leader."""

from __future__ import annotations

from zonequake_protocol.terms import lineage_of, term_of
from zonequake_store.raft.errors import BootstrapRefused
from zonequake_store.raft.messages import Configuration, Entry, EntryKind, encode_configuration
from zonequake_store.raft.state import RaftState


def bootstrap(replica: RaftState, configuration: Configuration) -> bool:
    """See `Raft.bootstrap`."""
    log = replica.log
    if replica.me not in configuration.peers or configuration.is_joint:
        raise BootstrapRefused(
            f"{replica.me} must be in a first configuration, and that must not be joint: "
            f"{configuration}"
        )
    if log.last_index or log.configuration is not None:
        return False
    if configuration.lineage < lineage_of(replica.term):
        raise BootstrapRefused(
            f"{replica.me} knows of lineage {lineage_of(replica.term)}; a first configuration "
            f"must not begin an older one: {configuration}"
        )
    first = term_of(configuration.lineage, 1)
    log.append([Entry(first, 1, EntryKind.CONFIGURATION, encode_configuration(configuration))])
    replica.term = max(replica.term, first)
    return True
