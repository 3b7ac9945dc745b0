"""The archive of the JVM's classes: who reads which, and who may write one."""

import os
import time
from importlib.util import module_from_spec
from pathlib import Path

import pytest

from zonequake_analysis.spark_pass import class_archive
from zonequake_analysis.spark_pass.class_archive import ArchivedRun, archive_options, keep_at_exit
from zonequake_analysis.spark_pass.settings import Size, defaults


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    java.chmod(0o755)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "zonequake"


def written(options: str) -> Path:
    (option,) = [word for word in options.split() if word.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def kept(kind: ArchivedRun) -> Path:
    """Makes an archive, as an analysis of this kind of run leaves it."""
    of_this_process = written(archive_options(kind))
    file = of_this_process.with_suffix("")
    file.write_text("")
    return file


def test_only_who_records_writes_an_archive(cache: Path) -> None:
    assert archive_options(None) == ""
    file = written(archive_options(ArchivedRun.HISTORY))
    assert file.parent == cache
    assert f"-history.jsa.{os.getpid()}-" in file.name
    assert written(archive_options(ArchivedRun.HISTORY)) == file


def test_two_processes_of_one_number_write_two_files(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of two containers with one home folder."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    one = written(archive_options(ArchivedRun.HISTORY))
    spec = class_archive.__spec__
    assert spec is not None
    assert spec.loader is not None
    other = module_from_spec(spec)
    spec.loader.exec_module(other)
    assert written(other.archive_options(other.ArchivedRun.HISTORY)) != one


def test_an_archive_of_a_run_with_metrics_serves_all(cache: Path) -> None:
    fewer = kept(ArchivedRun.HISTORY)
    assert f"={fewer} " in archive_options(ArchivedRun.HISTORY)
    assert f"={fewer} " in archive_options(None)
    more = kept(ArchivedRun.METRICS)  # the one of fewer classes doesn't keep it from being written
    for recorded in (None, *ArchivedRun):
        assert archive_options(recorded).startswith(f"-XX:SharedArchiveFile={more} ")


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host:443"])
def test_a_driver_on_a_cluster_reads_an_archive_and_writes_none(cache: Path, master: str) -> None:
    option = "spark.driver.extraJavaOptions"
    assert "jsa" not in defaults(Size.SMALL, master, ArchivedRun.METRICS)[option]
    file = kept(ArchivedRun.METRICS)
    assert f"={file} " in defaults(Size.SMALL, master, ArchivedRun.METRICS)[option]


def test_another_spark_has_another_archive(cache: Path, tmp_path: Path) -> None:
    kept(ArchivedRun.METRICS)
    os.utime(tmp_path / "spark" / "jars", (1, 1))
    assert "ArchiveClassesAtExit" in archive_options(ArchivedRun.METRICS)


def test_without_java_or_a_folder_to_write_there_is_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.write_text("no folder")
    assert archive_options(ArchivedRun.METRICS) == ""
    keep_at_exit(ArchivedRun.METRICS)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert archive_options(ArchivedRun.METRICS) == ""


@pytest.mark.parametrize("name", ["my cache", 'a"b', "a\\b"])
def test_in_a_folder_whose_path_no_option_can_hold_there_is_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    assert archive_options(ArchivedRun.METRICS) == ""
    assert not (tmp_path / name).exists()


def test_an_archive_left_behind_is_removed_after_an_hour(cache: Path) -> None:
    file = kept(ArchivedRun.HISTORY)
    old, new = (file.with_name(f"{file.name}.{number}") for number in (1, 2))
    for left in (old, new):
        left.write_text("")
    an_hour_ago = time.time() - class_archive._LEFT_BEHIND_S - 1
    os.utime(old, (an_hour_ago, an_hour_ago))
    archive_options(ArchivedRun.METRICS)
    assert [left.exists() for left in (old, new, file)] == [False, True, True]


def test_an_archive_unread_for_a_week_is_removed_by_the_session_that_writes_another(
    cache: Path, tmp_path: Path
) -> None:
    longest_s = class_archive._UNREAD_S

    def age(file: Path, age_s: float) -> None:
        os.utime(file, (time.time() - age_s, time.time() - age_s))

    file = kept(ArchivedRun.METRICS)
    unread, read = (file.with_name(f"spark-{name}-metrics.jsa") for name in ("older", "newer"))
    for other, age_s in ((unread, longest_s + 60), (read, longest_s - 60)):
        other.write_text("")
        age(other, age_s)
    with unread.open() as mapped:  # as a JVM that goes on with it
        age(file, longest_s + 60)
        assert f"={file} " in archive_options(None)
        assert unread.exists(), "who only reads removes none"
        os.utime(tmp_path / "spark" / "jars", (1, 1))  # another Spark
        assert "ArchiveClassesAtExit" in archive_options(ArchivedRun.METRICS)
        assert [one.exists() for one in (unread, read, file)] == [False, True, True]
        assert mapped.read() == ""
