"""Checks that Spark runs where it was asked to, and lists the executors that did the work.

If a master or an API server can't be reached, or executors never come, Spark waits without a
message; a session that was open before keeps its own master. Each is an error here, with the likely
cause.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.cluster import reach
from zonequake_analysis.cluster.connect_url import connect_server, without_options
from zonequake_analysis.cluster.masters import (
    STANDALONE,
    api_server_place,
    check_master,
    standalone_places,
)
from zonequake_analysis.cluster.task_places import places_of
from zonequake_analysis.cluster.yarn import check_resource_manager
from zonequake_analysis.errors import SessionError
from zonequake_analysis.pods.executors import (
    is_kubernetes,
    why_none_came,
    why_none_will_come,
    why_one_is_barred,
)
from zonequake_analysis.pods.proxy import proxy_for
from zonequake_analysis.spark_pass.settings import is_local
from zonequake_analysis.text.untrusted_text import one_line

REACH_S = 60.0
"""Longest time that an executor may take to come; a pod, to start."""
REGISTER_S = 180.0
"""Longest time that an executor may take to come whose pod has started: on a busy node its Java may
take more than a minute. One that can't reach the driver says so long before.
"""
OTHERS_S = 20.0
"""Longest time that others may take to come when one says that it can't reach the driver."""
_POLL_S = 0.2
_OF_A_SERVER = ("spark.master", "spark.app.id", "spark.driver.host")
_LOOK_S = 1.0
_TLS_ALERT = b"\x15"
"""How a master answers whose own protocol is encrypted."""
_API_SERVER_S = 10.0
"""Longest time for which connections to an API server may fail: a new pod's network may come late.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A process that ran tasks. `name`: Spark's number of it, `driver` on a local master; empty if
    none could be found through Spark Connect, and `address` is a machine's name then.
    """

    name: str
    address: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place where an analysis ran. Executors that ran no task are left out.

    Through Spark Connect they are those that tasks told of, and `tasks` is the number of these: all
    that read lines, judged buckets, or read metrics and witnesses. Tasks of Spark's own code, as in
    the exact checks, tell nothing.
    """

    master: str
    application: str
    executors: tuple[Executor, ...]


def check_reachable(master: str, *, context: str | None = None) -> None:
    """Tries to connect to a standalone master, to the API server of a `k8s://` one, or to the
    resource manager of YARN.

    `context`: that of the kubeconfig, if Spark is told to use another one than the current. Raises
    SessionError if none of its hosts answers, or if it is no master that Spark knows.
    """
    if is_kubernetes(master):
        _check_api_server(master, context)
        return
    if master == "yarn":
        check_resource_manager(os.environ)
        return
    if not master.startswith(STANDALONE):
        check_master(master)
        return
    refused, foreign = [], []
    for host, port in standalone_places(master):
        try:
            said = reach.answer_to_a_partial_frame(host, port)
        except OSError as error:
            refused.append(f"{host}:{port}: {error}")
            continue
        if not said or said.startswith(_TLS_ALERT):
            return
        foreign.append(f"something answers at {host}:{port}, but it is no Spark master")
    told = []
    if foreign:
        told.append(
            f"{'; '.join(foreign)} (expected its port, 7077 as a rule; 8080 is its web page)"
        )
    if refused:
        told.append(
            f"the Spark master can't be reached ({'; '.join(refused)}); is it running there, and "
            "does a firewall let this machine connect?"
        )
    raise SessionError("; ".join(told))


def _check_api_server(master: str, context: str | None) -> None:
    """Tries to connect to an API server, which Spark's client would ask again and again.

    It is left to Spark behind a proxy, which only the client speaks to, and this is told on
    standard error. Raises SessionError.
    """
    scheme, host, port = api_server_place(master)
    proxy = proxy_for(scheme, host, context)
    if proxy is not None:
        told = f"the API server of {master} is behind a proxy ({proxy}): it is not tried before"
        print(one_line(f"{told} Spark starts"), file=sys.stderr)  # noqa: T201
        return
    ends_s = time.monotonic() + _API_SERVER_S
    while (refusal := reach.refusal(host, port)) is not None:
        if time.monotonic() >= ends_s:
            raise SessionError(
                f"the API server of {master} can't be reached ({host}:{port}: {refusal}); is this "
                "its address (`kubectl cluster-info`), and does a firewall or a network policy let "
                "this machine connect?"
            )
        time.sleep(_POLL_S)


def check_server(remote: str) -> None:
    """Tries to connect to a Spark Connect server, for which its client waits many minutes.

    Raises SessionError, without the options of the URL.
    """
    server = connect_server(remote)
    refusal = reach.refusal(server.host, server.port)
    if refusal is not None:
        raise SessionError(
            f"the Spark Connect server can't be reached ({server.host}:{server.port}: {refusal}); "
            "is it running there, and does a firewall let this machine connect?"
        )


def check_placement(spark: SparkSession, wanted: str) -> None:
    """Waits for the first executor. Raises SessionError if Spark runs elsewhere, or none comes."""
    context = spark.sparkContext
    if context.master != wanted:
        raise SessionError(
            f"asked for the master {wanted}, but a session of this process runs on "
            f"{context.master} already; stop that one, or leave the master out"
        )
    if is_local(wanted):
        return
    host = context.getConf().get("spark.driver.host", "?")
    wait = _wait_for_pods if is_kubernetes(wanted) else _wait_for_workers
    try:
        wait(spark, wanted, host)
    except Py4JError as error:
        with suppress(Py4JError):
            spark.stop()
        told = str(getattr(error, "java_exception", error)).strip().partition("\n")[0]
        raise SessionError(
            f"Spark ended before an executor of {wanted} came ({told}): they only died, as a rule "
            f"as they can't connect to this process at {host}; name an address that they reach "
            "(--driver-host), or look into `stderr` below the worker's folder work/app-…"
        ) from error


def _wait_for_workers(spark: SparkSession, wanted: str, host: str) -> None:
    """Waits for the first executor. Raises SessionError, and Py4JError if Spark has ended."""
    ends_s = time.monotonic() + REACH_S
    while not _others(spark):
        if time.monotonic() >= ends_s:
            spark.stop()
            raise SessionError(
                f"no executor of {wanted} came within {REACH_S:.0f} s: either no worker is free, "
                f"or workers can't connect to this process at {host}; name an address that they "
                "reach with --driver-host"
            )
        time.sleep(_POLL_S)


def _wait_for_pods(spark: SparkSession, wanted: str, host: str) -> None:
    """Waits for the first executor that is a pod. Raises as `_wait_for_workers` does."""
    context = spark.sparkContext
    began_s = looked_s = time.monotonic()
    ends_s = began_s + REGISTER_S
    barred: str | None = None
    while not _others(spark):
        now_s, why = time.monotonic(), None
        if now_s >= ends_s:
            why = barred or (
                f"executors of {wanted} started, and none connected to this process at {host} "
                f"within {REGISTER_S:.0f} s: has their node no time for Java to start, or, with "
                "another image than ours, does a network policy or a firewall keep them out?"
            )
        elif now_s - looked_s >= _LOOK_S:
            looked_s = now_s
            why = why_none_will_come(context)
            if why is None and now_s - began_s >= REACH_S:
                why = why_none_came(context)
            if barred is None and (barred := why_one_is_barred(context)) is not None:
                ends_s = min(ends_s, now_s + OTHERS_S)
        if why is not None:
            spark.stop()
            raise SessionError(why)
        time.sleep(_POLL_S)


def _others(spark: SparkSession) -> bool:
    """Returns whether there is an executor besides the driver."""
    return bool(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1)


def placement_of(spark: SparkSession) -> Placement | None:
    """Returns where this session has run its tasks; None if a Spark Connect server doesn't say."""
    context = getattr(spark, "_sc", None)
    if context is None:
        master, application, host = (spark.conf.get(name, "") or "" for name in _OF_A_SERVER)
        if not master or not application:
            return None
        return Placement(
            master=without_options(master),
            application=application,
            executors=_told_executors(spark, host if is_local(master) else None),
        )
    executors = executors_of(context)
    return Placement(
        master=without_options(context.master),
        application=context.applicationId,
        executors=tuple(
            sorted(
                (
                    Executor(name=e.id(), address=_host(e.hostPort()), tasks=e.totalTasks())
                    for e in executors
                    if e.totalTasks()
                ),
                key=lambda executor: executor.name,
            )
        ),
    )


def _told_executors(spark: SparkSession, driver_host: str | None) -> tuple[Executor, ...]:
    """Returns the executors that tasks told of, by name.

    `driver_host`: the server's address if it runs all tasks in its own process.
    """
    found = Counter((place.executor, place.address) for place in places_of(spark))
    if driver_host is not None and found:
        found = Counter({("driver", driver_host): found.total()})
    return tuple(
        Executor(name=name, address=address, tasks=tasks)
        for (name, address), tasks in sorted(found.items())
    )


def executors_of(context: SparkContext) -> list[Any]:
    """Returns Spark's own summaries of the driver and of all executors, dead ones too."""
    found = context._jsc.sc().statusStore().executorList(False)
    return [found.apply(number) for number in range(found.size())]


def _host(place: str) -> str:
    return re.sub(r":\d+$", "", place)
