"""`--master yarn` goes by Hadoop's configuration, and says what is missing there."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from zonequake_analysis.cluster import yarn
from zonequake_analysis.cluster.yarn import check_resource_manager, resource_managers
from zonequake_analysis.errors import SessionError
from zonequake_analysis.spark_pass.placement import check_reachable
from zonequake_analysis.spark_pass.session import build_session
from zonequake_analysis.spark_pass.settings import Size

RM = "yarn.resourcemanager"


@pytest.fixture
def closed() -> Iterator[socket.socket]:
    """A port of this machine where nothing listens yet."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def configuration(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a machine with this `yarn-site.xml`."""
    entries = "".join(
        f"<property><name>{RM}.{name}</name><value>\n {value}</value></property>"
        for name, value in settings.items()
    )
    folder.mkdir(exist_ok=True)
    (folder / "yarn-site.xml").write_text(f"<configuration>{entries}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def test_without_a_configuration_the_error_names_both_variables_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*yarn.VARIABLES, "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("YARN_CONF_DIR", "")
    monkeypatch.setattr(
        "pyspark.sql.SparkSession.Builder.getOrCreate", lambda _: pytest.fail("Spark started")
    )
    with pytest.raises(
        SessionError,
        match=r"--master yarn: found neither HADOOP_CONF_DIR nor YARN_CONF_DIR in the "
        r"environment, expected one of them to name the folder of yarn-site\.xml",
    ):
        build_session(size=Size.SMALL, master="yarn")


def test_a_configuration_that_is_no_folder_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    told = re.escape(f"found YARN_CONF_DIR={missing}, expected a folder with yarn-site.xml")
    with pytest.raises(SessionError, match=told):
        check_resource_manager({"YARN_CONF_DIR": missing})


@pytest.mark.parametrize("variable", yarn.VARIABLES)
def test_a_resource_manager_where_nothing_listens_is_named_with_the_cause(
    variable: str, tmp_path: Path, closed: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"127.0.0.1:{closed.getsockname()[1]}"
    (folder,) = configuration(tmp_path / "conf", {"address": place}).values()
    for name in yarn.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, folder)
    told = rf"{place}: .*refused; by {folder}/yarn-site\.xml\); is it running there"
    with pytest.raises(SessionError, match=told):
        check_reachable("yarn")
    closed.listen()
    check_reachable("yarn")


def test_one_of_several_resource_managers_is_enough(tmp_path: Path, closed: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = closed.getsockname()[1], server.getsockname()[1]
        environment = configuration(
            tmp_path,
            {
                "ha.enabled": "true",
                "ha.rm-ids": "a, b",
                "address.a": f"127.0.0.1:{ports[0]}",
                "address.b": f"127.0.0.1:{ports[1]}",
            },
        )
        check_resource_manager(environment)
        server.setblocking(False)
        server.accept()[0].close()  # raises if nothing has connected


def test_without_a_file_hadoops_own_default_is_tried_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def refuses(host: str, port: int) -> OSError:
        asked.append((host, port))
        return ConnectionRefusedError("refused")

    monkeypatch.setattr(yarn, "refusal", refuses)
    with pytest.raises(
        SessionError, match=f"Hadoop's default, without yarn-site.xml in {tmp_path}"
    ):
        check_resource_manager({"HADOOP_CONF_DIR": str(tmp_path)})
    assert asked == [("0.0.0.0", 8032)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [("0.0.0.0", 8032)]),
        ({"hostname": "a"}, [("a", 8032)]),
        ({"hostname": "a", "address": "${yarn.resourcemanager.hostname}:1"}, [("a", 1)]),
        ({"hostname": "a", "address": "b:1"}, [("b", 1)]),
        ({"ha.enabled": "true", "ha.rm-ids": "x,y", "hostname.x": "a", "address.y": "b:1"},
         [("a", 8032), ("b", 1)]),
        ({"ha.enabled": "true"}, None),
        ({"address": "${env.HOST}:8032"}, None),
        ({"address": "${yarn.resourcemanager.address}"}, None),
        ({"address": "a:port"}, None),
    ],
)  # fmt: skip
def test_places_are_hadoops_own_and_what_is_not_understood_is_left_to_it(
    settings: dict[str, str], expected: list[tuple[str, int]] | None
) -> None:
    named = {f"{RM}.{name}": value for name, value in settings.items()}
    assert resource_managers(named) == expected


def test_a_file_that_is_no_xml_is_left_to_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    monkeypatch.setattr(yarn, "refusal", lambda *_: pytest.fail("it was tried"))
    check_resource_manager({"HADOOP_CONF_DIR": str(tmp_path)})
