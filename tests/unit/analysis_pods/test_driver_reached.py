"""An executor's pod that can't reach its driver says so at once, and its driver ends with that."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.unit.analysis_pods.test_pods_of_an_analysis import EXECUTOR, pod_with
from zonequake_analysis.cluster.reach import CONNECT_S
from zonequake_analysis.errors import DriverUnreached
from zonequake_analysis.pods import driver_reached
from zonequake_analysis.pods.__main__ import main
from zonequake_analysis.pods.driver_reached import check_driver
from zonequake_analysis.pods.waiting import why_it_fails
from zonequake_analysis.spark_pass.placement import OTHERS_S
from zonequake_analysis.verdict import EXIT_CODES, Verdict


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reached, "TRIED_S", 0.0)


def url(port: int) -> str:
    return f"spark://CoarseGrainedScheduler@127.0.0.1:{port}"


def test_the_limits_leave_a_minute_for_pod_and_driver_together() -> None:
    assert driver_reached.TRIED_S + CONNECT_S + OTHERS_S < 60


def test_a_driver_that_listens_is_reached_and_nothing_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_driver(url(server.getsockname()[1]), message=tmp_path / "message")
        server.setblocking(False)
        server.accept()[0].close()  # raises if nothing has connected
    assert not (tmp_path / "message").exists()


def test_a_driver_whose_network_comes_late_is_tried_again(tmp_path: Path) -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        timer = threading.Timer(0.2, late.listen)
        timer.start()
        check_driver(url(late.getsockname()[1]), message=tmp_path / "message")
        timer.join()
    assert not (tmp_path / "message").exists()


@pytest.mark.usefixtures("quick")
def test_the_driver_of_a_pod_that_is_barred_tells_the_address_and_the_cause(tmp_path: Path) -> None:
    message = tmp_path / "message"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(DriverUnreached, match=f"127.0.0.1:{port} .*refused"):
            check_driver(url(port), message=message)
    pod = pod_with({"terminated": {"exitCode": 255, "message": message.read_text()}})
    told = why_it_fails(pod)
    assert told is not None
    assert f"pod p can't reach the driver at 127.0.0.1:{port} (" in told
    assert "a network policy or a firewall bars the way" in told


@pytest.mark.usefixtures("quick")
def test_a_message_that_can_not_be_written_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DriverUnreached):
        check_driver("spark://d@127.0.0.1:1", message=tmp_path / "no" / "folder")


@pytest.mark.parametrize("odd", ["spark://d", "spark://d@h:port", "", "spark://[::1"])
def test_a_url_that_is_no_address_is_left_to_spark(odd: str, tmp_path: Path) -> None:
    check_driver(odd, message=tmp_path / "message")
    assert not (tmp_path / "message").exists()


def test_an_executor_starts_no_java_without_its_driver(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def barred(url: str) -> None:
        asked.append(url)
        raise DriverUnreached("can't reach the driver at d:1 (timed out)")

    monkeypatch.setattr("zonequake_analysis.pods.__main__.check_driver", barred)
    monkeypatch.setattr("os.execvp", lambda *_: pytest.fail("Java started"))
    assert main(["executor"], EXECUTOR) == EXIT_CODES[Verdict.HARNESS_FAILED]
    assert asked == [EXECUTOR["SPARK_DRIVER_URL"]]
    assert capsys.readouterr().err == (
        "zonequake/analysis: can't reach the driver at d:1 (timed out)\n"
    )


def test_an_executor_that_reaches_its_driver_becomes_java(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def becomes(program: str, _: list[str]) -> None:
        assert asked == [EXECUTOR["SPARK_DRIVER_URL"]]
        raise SystemExit(program)

    monkeypatch.setattr("zonequake_analysis.pods.__main__.check_driver", asked.append)
    monkeypatch.setattr("os.execvp", becomes)
    with pytest.raises(SystemExit, match="java"):
        main(["executor"], EXECUTOR)
