"""The settings of a data node from the environment (docs/interfaces.md, "Data node").

Pure: the environment is handed in as a mapping, so that a test needs none.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from zonequake_store.errors import SettingsError
from zonequake_tls.settings import TlsSettings, TlsSettingsError, tls_from

HEARTBEAT_TICKS = 4
"""400 ms: two heartbeats in the shortest election time-out, half of it left for the later one."""

PLANTED_FAULTS_ALLOWED = "yes-for-a-test"

# A DNS label, because the name is one half of the peer's host name.
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# LMDB reserves address space, not disk: sparse maps are cheap and growing one needs all
# transactions closed.
DEFAULT_LOG_MAP_BYTES = 16 << 30
DEFAULT_DATA_MAP_BYTES = 32 << 30
_SMALLEST_MAP_BYTES = 16 << 20

DEFAULT_LEASE_S = 10
_LONGEST_LEASE_S = 3600
_MOST_HEARTBEAT_TICKS = 5
"""Half of the shortest election time-out: one heartbeat may get lost."""
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class PlantedFault(enum.StrEnum):
    """A bug put in on purpose, so that a run can show that it would find it."""

    ACK_BEFORE_COMMIT = "ack-before-commit"
    LOCAL_READS = "local-reads"
    DROP_LOG_TAIL = "drop-log-tail"
    FORGET_REQUEST_ID = "forget-request-id"
    JOINT_BEFORE_CAUGHT_UP = "joint-before-caught-up"
    IGNORE_FAILED_SYNC = "ignore-failed-sync"
    ORDER_BY_WALL_CLOCK = "order-by-wall-clock"
    LATE_HAND_OVER = "late-hand-over"
    LATE_ANSWERS = "late-answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A data node's settings; a port of 0 lets the kernel choose (tests)."""

    name: str
    data_dir: Path
    namespace: str = ""
    pod_uid: str = ""
    pod_ip: str = ""
    peer_domain: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    bind: str = "0.0.0.0"  # noqa: S104  a pod's listeners are reached by its service
    peer_port: int = 7001
    client_port: int = 7002
    admin_port: int = 8080
    orders_port: int = 7003
    tls: TlsSettings | None = None
    open_dumps: bool = False
    log_map_bytes: int = DEFAULT_LOG_MAP_BYTES
    data_map_bytes: int = DEFAULT_DATA_MAP_BYTES
    lease_s: int = DEFAULT_LEASE_S
    heartbeat_ticks: int = HEARTBEAT_TICKS
    api_server: str = ""
    credentials_dir: Path = Path(_SERVICE_ACCOUNT)
    planted_fault: PlantedFault | None = None

    @property
    def host(self) -> str:
        """The address that peers and clients receive: the pod's, or the bound one."""
        return self.pod_ip or self.bind


def settings_from(environment: Mapping[str, str]) -> NodeSettings:
    """Read a data node's settings.

    Raises SettingsError with the variable, what was found and what is expected.
    """
    name = environment.get("ZQ_NODE", "")
    if not _NODE_NAME.fullmatch(name):
        raise SettingsError(f"ZQ_NODE is {name!r}; expected the pod's name, a DNS label")
    try:
        attributes = msgspec.json.decode(
            environment.get("ZQ_ATTRIBUTES") or "{}", type=dict[str, str]
        )
    except msgspec.DecodeError as error:
        raise SettingsError(
            f"ZQ_ATTRIBUTES is not a JSON object of strings ({error}); "
            'expected for instance {"storage": "ssd"}'
        ) from error
    return NodeSettings(
        name=name,
        data_dir=Path(environment.get("ZQ_DATA_DIR") or "/data"),
        namespace=environment.get("ZQ_NAMESPACE", ""),
        pod_uid=environment.get("ZQ_POD_UID", ""),
        pod_ip=environment.get("ZQ_POD_IP", ""),
        peer_domain=environment.get("ZQ_PEER_DOMAIN", ""),
        attributes=attributes,
        bind=environment.get("ZQ_BIND") or "0.0.0.0",  # noqa: S104
        peer_port=_integer(environment, "ZQ_PEER_PORT", 7001, 0, 65535),
        client_port=_integer(environment, "ZQ_CLIENT_PORT", 7002, 0, 65535),
        admin_port=_integer(environment, "ZQ_ADMIN_PORT", 8080, 0, 65535),
        orders_port=_integer(environment, "ZQ_ORDERS_PORT", 7003, 0, 65535),
        tls=_tls(environment),
        open_dumps=_flag(environment, "ZQ_OPEN_DUMPS"),
        log_map_bytes=_integer(
            environment, "ZQ_LOG_MAP_BYTES", DEFAULT_LOG_MAP_BYTES, _SMALLEST_MAP_BYTES, 1 << 46
        ),
        data_map_bytes=_integer(
            environment, "ZQ_DATA_MAP_BYTES", DEFAULT_DATA_MAP_BYTES, _SMALLEST_MAP_BYTES, 1 << 46
        ),
        lease_s=_integer(environment, "ZQ_LEASE_SECONDS", DEFAULT_LEASE_S, 1, _LONGEST_LEASE_S),
        heartbeat_ticks=_integer(
            environment, "ZQ_HEARTBEAT_TICKS", HEARTBEAT_TICKS, 1, _MOST_HEARTBEAT_TICKS
        ),
        api_server=environment.get("ZQ_API_SERVER") or _api_server(environment),
        credentials_dir=Path(environment.get("ZQ_API_CREDENTIALS") or _SERVICE_ACCOUNT),
        planted_fault=_planted_fault(environment),
    )


def _api_server(environment: Mapping[str, str]) -> str:
    """Returns where Kubernetes tells every container it is; empty outside of it."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _integer(
    environment: Mapping[str, str], variable: str, default: int, lowest: int, highest: int
) -> int:
    text = environment.get(variable, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = lowest - 1
    if not lowest <= value <= highest:
        raise SettingsError(
            f"{variable} is {text!r}; expected an integer from {lowest} to {highest}"
        )
    return value


def _flag(environment: Mapping[str, str], variable: str) -> bool:
    text = environment.get(variable, "") or "false"
    if text not in ("true", "false"):
        raise SettingsError(f"{variable} is {text!r}; expected true or false")
    return text == "true"


def _tls(environment: Mapping[str, str]) -> TlsSettings | None:
    try:
        return tls_from(environment)
    except TlsSettingsError as error:
        raise SettingsError(str(error)) from error


def _planted_fault(environment: Mapping[str, str]) -> PlantedFault | None:
    text = environment.get("ZQ_PLANTED_FAULT", "")
    if not text:
        return None
    if environment.get("ZQ_ALLOW_PLANTED_FAULTS") != PLANTED_FAULTS_ALLOWED:
        raise SettingsError(
            f"ZQ_PLANTED_FAULT is {text!r}, but ZQ_ALLOW_PLANTED_FAULTS is not "
            f"{PLANTED_FAULTS_ALLOWED!r}; a node with a bug put in on purpose never starts by "
            "accident: set both or none"
        )
    try:
        return PlantedFault(text)
    except ValueError as error:
        raise SettingsError(
            f"ZQ_PLANTED_FAULT is {text!r}; expected one of {', '.join(PlantedFault)}"
        ) from error
