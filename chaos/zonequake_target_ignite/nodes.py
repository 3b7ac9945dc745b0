"""The nodes of a run: their configuration, container and objects.

Beside each node runs `status_server`, in the container that signals are sent from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.member_set import DATA_FOLDER, MemberSet, member_objects
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.observe.view import LinkPorts
from zonequake_kube.objects import HANDS_CONTAINER, Json
from zonequake_target_ignite.settings import OWN, added, settings_of, speaks_tls
from zonequake_target_ignite.zone.definition import PERSISTENT, VOLATILE

PROGRAM = "java"
PORTS = LinkPorts(clients=2379, peers=7001)
"""Those that a release with network policies lets through (the chart's `networkPolicy.target`)."""

REST_PORT = 10300
STATUS_PORT = 8082
CONFIGURATION = "/ignite/ignite.conf"
LOGGING = "/ignite/logging.properties"
MAIN_CLASS = "org.apache.ignite.internal.app.IgniteRunner"
SOURCES = "/status-server"

_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.math", "java.time", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.util.concurrent.locks", "jdk.internal.access"),
    *("jdk.internal.misc", "jdk.internal.util", "sun.nio.ch", "sun.security.x509"),
    "sun.reflect.generics.reflectiveObjects",
)
"""Packages of `java.base` that Ignite looks into."""

_LOG = "ignite.log"
_TMP, _TMP_BESIDE = "/tmp", "/node"  # noqa: S108 - the node's volume, in both containers
LOGGING_TEXT = f"""\
handlers = java.util.logging.ConsoleHandler, java.util.logging.FileHandler
java.util.logging.FileHandler.pattern = {_TMP}/{_LOG}
java.util.logging.FileHandler.formatter = java.util.logging.SimpleFormatter
java.util.logging.SimpleFormatter.format = %1$tFT%1$tT.%1$tL%1$tz %4$s %5$s%6$s%n
"""
"""Java's logging: a line for each message, and a second copy for `status_server`."""

_HEAP = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")
_MIB = 1024 * 1024
_PERSISTENT_BYTES, _VOLATILE_BYTES = 128 * _MIB, 256 * _MIB


def configuration(members: MemberSet) -> str:
    """Returns a node's configuration, the same for all; JSON is HOCON, too. The scenario's settings
    are added. Raises UsageError for one that can't be.

    A node that fails stops, so that the kubelet starts it again; by Ignite's default it would stay,
    and serve nothing.
    """
    finder = {"netClusterNodes": [members.address(pod, PORTS.peers) for pod in members.pods]}
    persistent = {"name": PERSISTENT, "engine": "aipersist", "sizeBytes": _PERSISTENT_BYTES}
    volatile = {"name": VOLATILE, "engine": "aimem", "maxSizeBytes": _VOLATILE_BYTES}
    settings = {
        "network": {"port": PORTS.peers, "nodeFinder": {"type": "STATIC", **finder}},
        "clientConnector": {"port": PORTS.clients},
        "rest": {"port": REST_PORT},
        "raft": {"fsync": members.fsync},
        "storage": {"profiles": [persistent, volatile]},
        **OWN,
    }
    return json.dumps({"ignite": added(settings, settings_of(members.settings.args))}, indent=1)


def container(*, heap: tuple[str, ...] = _HEAP) -> Json:
    """Returns a node's container; its image has Ignite's jars where the class path says.

    Ready is a node that takes clients, which it does when it has joined a cluster. One that is shut
    out is restarted, as Ignite asks for, by the liveness probe.
    """
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    opened += [
        "--add-opens=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
        "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
    ]
    return {
        "command": [
            *(PROGRAM, *heap, *opened, "-Dio.netty.tryReflectionSetAccessible=true"),
            f"-Djava.util.logging.config.file={LOGGING}",
            *("-Dfile.encoding=UTF-8", "-cp", "/opt/ignite/lib/*"),
        ],
        "args": [
            *(MAIN_CLASS, "--config-path", CONFIGURATION, "--work-dir", DATA_FOLDER),
            *("--node-name", "$(POD)"),
        ],
        "startupProbe": {
            "httpGet": {"path": "/management/v1/node/state", "port": REST_PORT},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 150,
        },
        "readinessProbe": {
            "tcpSocket": {"port": "clients"},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "livenessProbe": {
            "httpGet": {"path": "/live", "port": STATUS_PORT},
            "periodSeconds": 3,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        },
        "resources": {
            "requests": {"cpu": "250m", "memory": "640Mi"},
            "limits": {"cpu": "2", "memory": "1536Mi"},
        },
    }


def status_server_sources(client: ClientCode) -> Mapping[str, str]:
    """Returns the files of `status_server`, by their paths in its container."""
    package = __package__
    names = ("status_server.py", "node_sight.py")
    own = {f"{package}/{name}": (files(package) / name).read_text() for name in names}
    return {f"{SOURCES}/{path}": text for path, text in {**client.files(), **own}.items()}


def node_objects(
    members: MemberSet, *, zone: str, run_id: str, installation: Installation
) -> list[Json]:
    """Returns all objects of the nodes, in the order in which to apply them."""
    settings = members.settings
    tls = speaks_tls(settings.args)
    members = replace(members, settings=msgspec.structs.replace(settings, args=[]))
    objects = member_objects(members, container(), run_id=run_id, installation=installation)
    (stateful_set,) = [each for each in objects if each["kind"] == "StatefulSet"]
    containers = stateful_set["spec"]["template"]["spec"]["containers"]
    (node,) = [each for each in containers if each["name"] == members.target]
    (hands,) = [each for each in containers if each["name"] == HANDS_CONTAINER]
    sources = {path for path in members.files if path.startswith(f"{SOURCES}/")}
    mounts = [each for each in node["volumeMounts"] if each["mountPath"] in sources]
    node["volumeMounts"] = [each for each in node["volumeMounts"] if each not in mounts]
    hands |= {
        "args": [
            *("python", "-m", f"{__package__}.status_server", "--zone", zone),
            *("--port", str(STATUS_PORT)),
            *("--rest", f"http://127.0.0.1:{REST_PORT}"),
            *("--client", f"127.0.0.1:{PORTS.clients}", "--log", f"{_TMP_BESIDE}/{_LOG}"),
            *(["--tls"] if tls else []),
        ],
        "env": [{"name": "PYTHONPATH", "value": f"/app:{SOURCES}"}],
        "ports": [{"name": "status", "containerPort": STATUS_PORT}],
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": _TMP_BESIDE, "readOnly": True}],
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "192Mi"},
        },
    }
    return objects
