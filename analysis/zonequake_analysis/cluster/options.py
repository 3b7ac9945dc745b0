"""Refuses options of where Spark runs that can be seen to be wrong, before anything else is done.

Nothing of Spark is imported here, and nothing is asked over the network but a name's address.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from zonequake_analysis.cluster.connect_url import connect_server, without_options
from zonequake_analysis.cluster.masters import check_master
from zonequake_analysis.cluster.yarn import configuration
from zonequake_analysis.errors import SessionError
from zonequake_analysis.executors.manifest import ENVIRONMENT, PYTHON, check_fits
from zonequake_analysis.run_argument import SPARK_REMOTE
from zonequake_analysis.spark_pass.settings import LOCAL, is_local

_OF_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""The variable by which `spark-submit` tells its Python of its JVM."""


def check_options(
    master: str | None, remote: str | None, driver_host: str | None, archives: Path | None
) -> None:
    """Raises SessionError for an option that can't be meant: one that is malformed, a file that is
    missing or doesn't fit, an address of another machine, or two that exclude each other.
    """
    check_together(master, remote, driver_host, archives)
    if master is not None:
        check_master(master)
    if master == "yarn":
        configuration(os.environ)
    if driver_host is not None and _OF_SUBMIT not in os.environ:  # it may listen elsewhere
        check_own_address(driver_host)


def wrong_option(
    master: str | None, remote: str | None, driver_host: str | None, archives: Path | None
) -> str | None:
    """Returns what `check_options` refuses, in words; None for nothing."""
    try:
        check_options(master, remote, driver_host, archives)
    except SessionError as error:
        return str(error)
    return None


def check_together(
    master: str | None, remote: str | None, driver_host: str | None, archives: Path | None
) -> None:
    """Raises SessionError for options of which one excludes the other, for a malformed `remote`,
    and for `archives` that don't fit this process.
    """
    if remote is not None:
        connect_server(remote)
        for option, value in (("--master", master), ("--driver-host", driver_host)):
            if value is not None:
                raise SessionError(
                    f"found {option} beside --remote, expected one of them: a Spark Connect server "
                    "has a master and a driver of its own"
                )
    elif SPARK_REMOTE in os.environ:  # PySpark refuses it, in words that hold its token
        raise SessionError(
            f"found {SPARK_REMOTE} in the environment, expected no such variable here: only "
            "`zonequake analyze` without --master and --driver-host takes it"
        )
    if archives is not None:
        _check_archives(archives, master, remote)


def check_own_address(host: str) -> None:
    """Raises SessionError if this process can't listen at the address that executors are told.

    Spark says so, too, but not which address, after 16 tries.
    """
    try:
        known = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except OSError as error:
        refusals = [error]
    else:
        refusals = []
        for family, kind, _, _, address in known:
            try:
                with socket.socket(family, kind) as listening:
                    listening.bind(address)
            except OSError as error:
                refusals.append(error)
            else:
                return
    raise SessionError(
        f"--driver-host (spark.driver.host) {host}: this process can't listen there "
        f"({refusals[0]}), expected an address of this machine that executors reach; if it is "
        "translated on the way, give spark-submit this machine's own as spark.driver.bindAddress"
    )


def _check_archives(archives: Path, master: str | None, remote: str | None) -> None:
    if _OF_SUBMIT in os.environ:
        raise SessionError(
            f"found archives={archives} under spark-submit, expected its own options: --archives "
            f"{archives}#{ENVIRONMENT} --conf spark.pyspark.python={PYTHON} "
            f"--conf spark.pyspark.driver.python={sys.executable}"
        )
    if remote is not None or is_local(master or LOCAL):
        where = without_options(remote or master or LOCAL)
        raise SessionError(
            f"found --archives {archives} with {where}, expected --master of a cluster: on a local "
            "master tasks run in this Python, and Spark Connect's server has its own"
        )
    check_fits(archives)
