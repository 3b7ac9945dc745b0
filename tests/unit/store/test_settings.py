"""Settings from the environment: what is accepted, and what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_store.errors import SettingsError
from zonequake_store.settings import PlantedFault, settings_from


def test_a_name_is_enough() -> None:
    settings = settings_from({"ZQ_NODE": "zq-default-0"})
    assert settings.data_dir == Path("/data")
    assert (settings.peer_port, settings.client_port, settings.admin_port) == (7001, 7002, 8080)
    assert settings.planted_fault is None


def test_peers_are_told_the_pods_address() -> None:
    settings = settings_from({"ZQ_NODE": "n", "ZQ_POD_IP": "10.1.2.3"})
    assert settings.host == "10.1.2.3"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "ZQ_NODE is ''; expected the pod's name"),
        ({"ZQ_NODE": "Not_A_Label"}, "ZQ_NODE is 'Not_A_Label'"),
        ({"ZQ_NODE": "n", "ZQ_PEER_PORT": "70000"}, "ZQ_PEER_PORT is '70000'; expected an integer"),
        ({"ZQ_NODE": "n", "ZQ_LOG_MAP_BYTES": "1 GB"}, "ZQ_LOG_MAP_BYTES is '1 GB'"),
        (
            {"ZQ_NODE": "n", "ZQ_OPEN_DUMPS": "yes"},
            "ZQ_OPEN_DUMPS is 'yes'; expected true or false",
        ),
        ({"ZQ_NODE": "n", "ZQ_HEARTBEAT_TICKS": "6"}, "expected an integer from 1 to 5"),
        ({"ZQ_NODE": "n", "ZQ_ATTRIBUTES": '{"a": 1}'}, "ZQ_ATTRIBUTES is not a JSON object"),
        ({"ZQ_NODE": "n", "ZQ_PLANTED_FAULT": "local-reads"}, "ZQ_ALLOW_PLANTED_FAULTS is not"),
        (
            {
                "ZQ_NODE": "n",
                "ZQ_PLANTED_FAULT": "no-such-fault",
                "ZQ_ALLOW_PLANTED_FAULTS": "yes-for-a-test",
            },
            "expected one of ack-before-commit, local-reads",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(environment)
    assert message in str(caught.value)


def test_a_planted_fault_counts_with_both_variables() -> None:
    settings = settings_from(
        {
            "ZQ_NODE": "n",
            "ZQ_PLANTED_FAULT": "drop-log-tail",
            "ZQ_ALLOW_PLANTED_FAULTS": "yes-for-a-test",
        }
    )
    assert settings.planted_fault is PlantedFault.DROP_LOG_TAIL
