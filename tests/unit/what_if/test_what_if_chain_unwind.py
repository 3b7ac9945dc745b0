"""`high-availability`, Chain unwind, by hole 9 alone: a few lines of the text beside the rules.

From the newest link back, the first of which a node of its own set reports a user entry above the
link's own (term, index); a link is judged once a majority of its set has reported.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

NODES = "ABCDEFG"
RESTARTS = 120


def restart(seed: int) -> dict[str, Any]:
    """A chain of resets, each to a minority of the set before, and restarts of ever more nodes."""
    rng = random.Random(seed)
    chain: list[dict[str, Any]] = []
    nodes, index = sorted(rng.sample(NODES, rng.randint(3, 7))), rng.randint(1, 5)
    for term in range(1, rng.randint(2, 5)):
        chain.append({"nodes": nodes, "term": term, "index": index})
        nodes = sorted(rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 2))))
        index += rng.randint(1, 4)
    logs = {}
    for node in rng.sample(NODES, rng.randint(3, 7)):
        terms = [link["term"] for link in chain if node in link["nodes"]] or [0]
        user = rng.randint(0, index + 3)
        logs[node] = {
            "term": max(terms),
            "index": user + rng.randint(0, 5),
            "lastUserCmdTerm": rng.choice(terms),
            "lastUserCmdIdx": user,
        }
    events, alive = [], set[str]()
    for at in range(1, rng.randint(2, 4)):
        alive |= set(rng.sample(NODES, rng.randint(1, 4)))
        started = {"partition": 0, "alive": sorted(alive)}
        events.append({"at": at, "groupRestart": started})
    given = {"stable": chain[-1]["nodes"], "chain": chain}
    if rng.random() < 0.3:
        given["pending"] = {"nodes": [rng.choice(chain[-1]["nodes"])], "force": True}
    return {
        "topology": {node: {} for node in NODES},
        "zone": {"partitions": 1, "replicas": 7, "consistencyMode": "HighAvailability"},
        "partitions": {0: given},
        "replicas": {0: logs},
        "events": events,
        "until": len(events) + 0.5,
    }


def unwound(question: dict[str, Any], alive: set[str]) -> tuple[str, str] | None:
    """Pending and planned by the text; None: a link can't be judged yet."""
    logs = question["replicas"][0]

    def user(node: str) -> tuple[int, int]:
        said = logs.get(node, {})
        return said.get("lastUserCmdTerm", 0), said.get("lastUserCmdIdx", 0)

    chain = question["partitions"][0]["chain"]
    for link in reversed(chain):
        heard = [node for node in link["nodes"] if node in alive]
        if len(heard) < len(link["nodes"]) // 2 + 1:
            return None
        above = any(user(node) > (link["term"], link["index"]) for node in heard)
        if above or link is chain[0]:
            source = min(heard, key=lambda node: (-user(node)[0], -user(node)[1], node))
            return f"{source}!", "".join(heard) + "*" if heard != [source] else ""
    raise AssertionError("a chain has links")


@pytest.mark.parametrize("seed", range(RESTARTS))
def test_a_restarted_group_forms_where_the_text_says(ask: Any, seed: int) -> None:
    question = restart(seed)
    answer = ask(yaml.safe_dump(question))
    waiting = answer.sets(0)[1:]
    for event in question["events"]:
        expected = unwound(question, set(event["groupRestart"]["alive"]))
        if len(question["partitions"][0]["chain"]) == 1:
            return  # ordinary recovery
        assert answer.sets(event["at"])[1:] == (waiting if expected is None else expected)
        if expected is not None:
            return


def test_the_restarts_wait_unwind_to_old_links_and_to_new_ones() -> None:
    found = [
        unwound(question, set(question["events"][-1]["groupRestart"]["alive"]))
        for question in map(restart, range(RESTARTS))
    ]
    assert sum(one is None for one in found) > RESTARTS // 20
    assert len({one for one in found if one is not None}) > RESTARTS // 4


@pytest.mark.parametrize(("user", "formed"), [(4, ("A!", "AB*")), (6, ("A!", ""))])
def test_entries_above_a_link_stop_an_unwind_only_if_a_client_wrote_one(
    ask: Any, user: int, formed: tuple[str, str]
) -> None:
    """A was reset alone at 5, and its leader wrote up to 9: a client's entry at 6, or none."""
    answer = ask(
        "topology: {A: {}, B: {}, C: {}}\n"
        "zone: {partitions: 1, replicas: 3, consistencyMode: HighAvailability}\n"
        "partitions: {0: {stable: [A], chain: [{nodes: [A, B, C], term: 1, index: 1},"
        " {nodes: [A], term: 2, index: 5}]}}\n"
        f"replicas: {{0: {{A: {{term: 2, index: 9, lastUserCmdTerm: {1 if user < 5 else 2},"
        f" lastUserCmdIdx: {user}}}, B: {{term: 1, index: 4, lastUserCmdTerm: 1,"
        " lastUserCmdIdx: 4}}}\n"
        "events: [{at: 1, groupRestart: {partition: 0, alive: [A, B]}}]\n"
        "until: 1.5\n"
    )
    assert answer.sets(1)[1:] == formed
