"""The JVM of a local master: the command, who starts it, and who gets it."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.jvm import java_command, local_jvm
from zonequake_analysis.jvm.java_command import command_of, installed_spark, is_known
from zonequake_analysis.spark_pass.class_archive import ArchivedRun
from zonequake_analysis.spark_pass.settings import Size, defaults

SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "zonequake analyze",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
}


@pytest.fixture(autouse=True)
def none_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(local_jvm, "_begun", None)


def test_the_command_is_that_of_spark_s_launcher_but_for_mllib_and_logging() -> None:
    home, _ = installed_spark()
    words = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    launcher = [
        *(str(java_command.java()), "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"),
        *("org.apache.spark.deploy.SparkSubmit", *words, "pyspark-shell"),
    ]
    printed = subprocess.run(
        launcher,
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    theirs = [word.strip("\n") for word in printed.split("\0") if word.strip()]
    ours = command_of(SETTINGS, memory="1g", java_options=SETTINGS["spark.driver.extraJavaOptions"])
    place = theirs.index("-cp") + 1
    jars = {jar for entry in theirs.pop(place).split(":") for jar in Path("/").glob(entry[1:])}
    used = ours.pop(place).split(":")
    (logging,) = [word for word in ours if word.startswith("-Dlog4j2.configurationFile=")]
    assert Path(logging.partition("=")[2]).is_file()
    ours.remove(logging)
    theirs.remove("--add-modules=jdk.incubator.vector")
    assert in_any_order(ours) == in_any_order(theirs)
    # Java takes only the jars of a folder.
    (mllib,) = {jar for jar in jars if jar.suffix == ".jar"} - set(map(Path, used))
    assert mllib.name.startswith("spark-mllib_")
    assert len(used) == len(set(used))


def test_the_command_is_known_only_where_nothing_else_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert is_known()
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"):
        with monkeypatch.context() as other:
            other.setenv(name, "x")
            assert not is_known(), name
    with monkeypatch.context() as other:
        other.setenv("JAVA_HOME", str(tmp_path))
        assert not is_known()
    home, version = installed_spark()
    with monkeypatch.context() as other:
        other.setattr(java_command, "installed_spark", lambda: (home, "4.2.9"))
        assert not is_known()
    (tmp_path / "jars").mkdir()
    monkeypatch.setattr(java_command, "installed_spark", lambda: (tmp_path, version))
    assert is_known()
    (tmp_path / "conf").mkdir()
    assert not is_known()


def in_any_order(command: list[str]) -> tuple[list[str], set[tuple[str, str]]]:
    """Returns the words, and apart from them the settings, which Spark puts in no certain order."""
    settings = set(pairwise(command))
    pairs = {pair for pair in settings if pair[0] == "--conf"}
    named = {value for _, value in pairs}
    return [word for word in command if word != "--conf" and word not in named], pairs


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands for JVMs that never say where they listen; the memory of each that was started."""
    started: list[str] = []

    def command(settings: object, *, memory: str, java_options: str) -> list[str]:
        started.append(memory)
        return [sys.executable, "-c", "import sys; sys.stdin.read()"]

    monkeypatch.setattr(local_jvm, "command_of", command)
    return started


def recorded(folder: Path) -> RecordedRun:
    (folder / "history").mkdir()
    (folder / "history" / "a.jsonl").write_text("{}\n")
    return RecordedRun.of(folder)


def test_the_jvm_that_begins_early_is_told_what_the_session_will_ask_for(
    commands: list[str], tmp_path: Path
) -> None:
    local_jvm.begin(recorded(tmp_path), master="local[2]")
    begun = local_jvm._begun
    assert begun is not None
    try:
        unset = defaults(Size.SMALL, "local[2]", ArchivedRun.HISTORY)
        assert begun.options == local_jvm.options("local[2]", unset)
        assert commands == ["1g"]
    finally:
        local_jvm._end_unused()
    assert begun.process.returncode is not None
    assert not begun.file.parent.exists()


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host:443", "yarn"])
def test_no_jvm_begins_early_for_a_cluster(
    commands: list[str], tmp_path: Path, master: str
) -> None:
    local_jvm.begin(recorded(tmp_path), master=master)
    assert not commands


def test_no_jvm_begins_early_for_a_folder_without_a_history(
    commands: list[str], tmp_path: Path
) -> None:
    local_jvm.begin(RecordedRun.of(tmp_path))
    assert not commands


def test_a_jvm_of_other_options_is_ended_and_another_one_asked_for(
    commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_jvm.begin(recorded(tmp_path))
    begun = local_jvm._begun
    assert begun is not None
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr(local_jvm, "_START_S", 0.0)
    wanted = {**begun.options, "spark.driver.memory": "2g"}
    with pytest.raises(OSError, match="its JVM ended"):
        local_jvm.attach(wanted)
    assert begun.process.returncode is not None
    assert commands == ["1g", "2g"]


def test_settings_that_only_spark_s_launcher_understands_are_left_to_it(
    commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    local_jvm.attach({**SETTINGS, "spark.driver.extraClassPath": "/more.jar"})
    assert not commands


def test_no_jvm_begins_early_for_a_manifest_that_can_not_be_read(
    commands: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("expectations: {lots: 0}")
    local_jvm.begin(recorded(tmp_path))
    assert not commands
