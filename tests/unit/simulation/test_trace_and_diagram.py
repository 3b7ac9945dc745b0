"""What a trace shows as text and as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from zonequake_simulation.diagram import svg
from zonequake_simulation.trace import Excerpt, TraceEvent, TraceKind, excerpt, text_lines

SVG = "{http://www.w3.org/2000/svg}"


def event(
    time_ms: int,
    node: str,
    kind: TraceKind,
    text: str = "",
    *,
    key: str | None = None,
    peer: str | None = None,
    since_ms: int | None = None,
    term: int = 0,
    role: str = "",
) -> TraceEvent:
    return TraceEvent(
        time_ms=time_ms,
        node=node,
        kind=kind,
        text=text,
        key=key,
        peer=peer,
        since_ms=since_ms,
        term=term,
        role=role,
    )


STORY = [
    event(0, "n1", TraceKind.START),
    event(0, "n2", TraceKind.START),
    event(5, "n1", TraceKind.ROLE, "leader of term 2", term=2, role="leader"),
    event(7, "c1", TraceKind.INVOKE, "write k1 = 7", key="k1"),
    event(8, "c2", TraceKind.INVOKE, "write k2 = 9", key="k2"),
    event(9, "n2", TraceKind.MESSAGE, "APPEND 4..5", peer="n1", since_ms=7),
    event(10, "n1", TraceKind.LOST, "APPEND 6 <&>", peer="n2"),
    event(11, "n2", TraceKind.MESSAGE, "HEARTBEAT 5", peer="n1", since_ms=10),
    event(500, "", TraceKind.CUT, "n1 | n2"),
    event(700, "n1", TraceKind.CRASH),
    event(900, "c1", TraceKind.RETURN, "write k1 = 7: ok", key="k1", since_ms=7),
    event(950, "", TraceKind.VIOLATION, "commits agree: index=5"),
]
WHOLE = Excerpt(events=STORY)


def test_nodes_come_before_clients() -> None:
    assert WHOLE.nodes == ["n1", "n2"]
    assert WHOLE.clients == ["c1", "c2"]


def test_only_the_operations_of_the_violating_key_are_shown_and_no_heartbeats() -> None:
    told = [each.text for each in excerpt(STORY, key="k1").events]
    assert "write k2 = 9" not in told
    assert "HEARTBEAT 5" not in told
    assert "write k1 = 7: ok" in told
    assert "HEARTBEAT 5" in [each.text for each in excerpt(STORY, key="k1", quiet_too=True).events]


def test_without_a_key_only_the_replicas_are_shown() -> None:
    assert not {TraceKind.INVOKE, TraceKind.RETURN} & {each.kind for each in excerpt(STORY).events}


def test_lanes_are_in_the_order_of_their_numbers() -> None:
    many = [event(0, f"n{number}", TraceKind.START) for number in (10, 9, 1)]
    assert Excerpt(events=many).nodes == ["n1", "n9", "n10"]


def test_a_lane_begins_as_what_came_before_left_it() -> None:
    before, after = STORY[:3], STORY[5:6]
    root = ElementTree.fromstring(svg(Excerpt(events=after, earlier=before), title="later"))
    told = [each.text for each in root.iter(f"{SVG}title")]
    assert "n1: leader, term 2" in told


def test_the_last_events_are_shown() -> None:
    assert [each.time_ms for each in excerpt(STORY, key="k1", last=2).events] == [900, 950]


def test_an_operation_that_began_before_the_last_events_is_told_and_drawn() -> None:
    found = excerpt(STORY, key="k1", last=4)
    assert [each.text for each in found.pending] == ["write k1 = 7"]
    assert found.clients == ["c1"]
    assert "write k1 = 7" in text_lines(found)[1]
    drawn = svg(found, title="later", key="k1")
    assert "write k1 = 7 (from 7 ms)" in drawn


def test_an_operation_that_returned_before_the_last_events_is_not_told_again() -> None:
    assert excerpt(STORY, key="k1", last=1).pending == []


def test_a_client_is_no_node_though_only_its_messages_are_shown() -> None:
    late = event(960, "c1", TraceKind.MESSAGE, "REPLY ok", peer="n1", since_ms=950, key="k1")
    found = excerpt([*STORY, late], key="k1", last=1)
    assert (found.nodes, found.clients) == (["n1"], ["c1"])


def test_a_line_of_text_has_a_sign_in_the_lane_of_its_event() -> None:
    head, *lines = text_lines(WHOLE)
    assert head.split() == ["n1", "n2", "c1", "c2"]
    message = next(line for line in lines if "APPEND 4..5" in line)
    assert message.split() == [
        "9",
        "ms",
        "○",
        "◀",
        "│",
        "│",
        "n1",
        "→",
        "n2:",
        "APPEND",
        "4..5",
        "(2",
        "ms)",
    ]
    assert lines[-1].endswith("VIOLATION commits agree: index=5")
    assert len(lines) == len(STORY)


def test_the_picture_is_valid_xml_with_a_lane_an_arrow_and_a_bar_for_each() -> None:
    root = ElementTree.fromstring(svg(WHOLE, title="seed 7 <raft>", key="k1", violation="x < y"))
    assert root.findtext(f"{SVG}title") == "seed 7 <raft>"
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    for wanted in ("n1", "n2", "c1", "500 ms", "x < y"):
        assert wanted in texts, wanted
    for wanted in ("n1 | n2", "commits agree"):
        assert any(text.startswith(wanted) for text in texts), wanted
    arrows = [line for line in root.iter(f"{SVG}line") if line.get("marker-end")]
    assert [line.findtext(f"{SVG}title") for line in arrows] == [
        "n1 → n2: APPEND 4..5",
        "n1 → n2: HEARTBEAT 5",
    ]
    (sent, arrived) = (float(arrows[0].attrib[name]) for name in ("y1", "y2"))
    assert arrived > sent
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("rx")]
    assert [bar.get("stroke-dasharray") is None for bar in bars] == [True, False]


def test_long_quiet_time_is_squeezed_and_time_still_goes_down() -> None:
    far = [event(0, "n1", TraceKind.START), event(3_600_000, "n1", TraceKind.CRASH)]
    root = ElementTree.fromstring(svg(Excerpt(events=far), title="far"))
    assert float(root.attrib["height"]) < 500


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no events"):
        svg(Excerpt(events=[]), title="empty")
