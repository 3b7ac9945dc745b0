"""A replica's state as pairs of key and value.

    b"a"           AppliedState
    b"c" client    ClientSession
    b"k" key       Cell
    b"t" name      Prepared, Decision or Horizon

A snapshot consists of them; on disk the state's number stands before each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from zonequake_store.state.client_table import ClientSession, ClientTable
from zonequake_store.state.partition import AppliedState, Cell, decode_cell
from zonequake_store.state.transactions import TransactionTable

APPLIED, CLIENT, CELL, TRANSACTION = b"a", b"c", b"k", b"t"

EncodedPair = tuple[bytes, bytes]
"""A key, and its value."""

_encoder = msgspec.msgpack.Encoder()
_state_decoder: msgspec.msgpack.Decoder[AppliedState] = msgspec.msgpack.Decoder(AppliedState)
_session_decoder: msgspec.msgpack.Decoder[ClientSession] = msgspec.msgpack.Decoder(ClientSession)


def encode_state(state: AppliedState) -> bytes:
    """Encodes the value under `APPLIED`."""
    return _encoder.encode(state)


def decode_state(value: bytes | None) -> AppliedState:
    """Decodes the value under `APPLIED`; without one, nothing was applied."""
    return AppliedState() if value is None else _state_decoder.decode(value)


def encode_session(session: ClientSession) -> bytes:
    """Encodes a value under `CLIENT`."""
    return _encoder.encode(session)


def decode_session(value: bytes) -> ClientSession:
    """Decodes the value under `CLIENT`."""
    return _session_decoder.decode(value)


def cells_of(pairs: Iterable[EncodedPair]) -> Iterator[tuple[str, bytes]]:
    """Keys and encoded cells among a snapshot's pairs, in their order."""
    for key, value in pairs:
        if key[:1] == CELL:
            yield key[1:].decode(), value


def state_in(pairs: Iterable[EncodedPair]) -> AppliedState:
    """Returns the applied state that is among a snapshot's pairs."""
    return decode_state(next((value for key, value in pairs if key == APPLIED), None))


def from_pairs(
    pairs: Iterable[EncodedPair],
) -> tuple[dict[str, Cell], ClientTable, TransactionTable, AppliedState]:
    """Builds a volatile replica's state out of a snapshot."""
    cells: dict[str, Cell] = {}
    sessions: list[tuple[str, ClientSession]] = []
    transactions: list[EncodedPair] = []
    state = AppliedState()
    for key, value in pairs:
        kind, name = key[:1], key[1:]
        if kind == CELL:
            cells[name.decode()] = decode_cell(value)
        elif kind == CLIENT:
            sessions.append((name.decode(), decode_session(value)))
        elif kind == TRANSACTION:
            transactions.append((name, value))
        else:
            state = decode_state(value)
    return cells, ClientTable(sessions), TransactionTable(transactions), state
