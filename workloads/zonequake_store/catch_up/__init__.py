"""Catch-up by demand and supply (documents `rebalance`, `update-counters`; design §4).

    leader                                        peer that lacks something
    Ready.supplies ─► Supplier.begin
                   ── Invite ──────────────────►  Demander.invited
                   ◄── Demand(index, counters) ─  what it has stored
    the log reaches back:
                   ── Supply(APPEND) ──────────►  its own core checks and stores it
                   ◄── Demand ─────────────────   … until nothing is missing; then it is kept
    it does not:
        state opened at an index
                   ── Piece(0, 1, 2, …) ───────►  staged durably, one after the other
                   ◄── Demand(position) ───────
                   ── Piece(end) ──────────────►  whole: SNAPSHOT in its own core, installed
                   ◄── Demand ─────────────────   … and on from the log

`Supplier` and `Demander` are sans-IO: frames and ticks in, calls of an edge out. Their driver (the
node in `edge`, or a simulation) must

- call `Supplier.begin` for each `Ready.supplies`, and `close` when the replica no longer leads;
- hand `Demand` to `Supplier.demanded`, and `Invite`, `Supply`, `Piece`, `Dismissal` to
  `Demander.invited`, `.supplied`, `.piece`, `.dismissed`;
- call `advance()` and `progressed()` after each turn of their replica, `tick()` with its core's;
- keep the log from `Supplier.lowest_index_needed` on;
- when the core's Ready has a snapshot: install what `Demander.staging` names, in one commit with
  the log, then call `Demander.installed()`.

The Raft index alone decides what is missing. Counters ride along and are compared wherever both
sides know them at the same index; unequal ones break the replica that asks (`comparison` for the
members of a group, which ask no supplier while they follow).

Anything may be lost, doubled, late or restarted. A demander repeats itself; each repetition opens a
new **round**, and what belongs to an older one is ignored. A supplier forgets nothing it needs:
each demand says all of where the demander stands.
"""
