from __future__ import annotations

from zonequake_ctl.zq.screens.progress import catching_up_text
from zonequake_protocol.admin import CatchUpProgress, PeerName


def progress(**sizes: int) -> CatchUpProgress:
    return CatchUpProgress(
        peer=PeerName("zq-default-3", "00"),
        fraction=0.43,
        bytes_sent=sizes.pop("sent", 0),
        match_index=7,
        by="snapshot",
        **sizes,
    )


def test_a_catching_up_peer_is_shown_with_the_bytes_of_its_transfer() -> None:
    shown = catching_up_text(
        progress(sent=20_000_000, bytes_done=12_000_000, bytes_total=28_100_000)
    )
    assert shown == "zq-default-3 43%, 12.0 MB of 28.1 MB of the snapshot"


def test_a_peer_whose_transfer_hasnt_begun_is_shown_without_sizes() -> None:
    assert catching_up_text(progress()) == "zq-default-3 43%"
