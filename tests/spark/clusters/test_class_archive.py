"""An analysis that writes the archive of the JVM's classes, and one that reads it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.histories.synthesize import Shape, synthesize


@pytest.mark.long
def test_the_second_analysis_takes_its_classes_from_the_first(tmp_path: Path) -> None:
    run, cache = tmp_path / "run", tmp_path / "cache"
    synthesize(run, Shape(operations=500))
    first = verdict(run, XDG_CACHE_HOME=str(cache))
    (file,) = (cache / "zonequake").iterdir()
    assert file.name.endswith("-history.jsa")
    log = f"-Xlog:class+load:file={tmp_path}/classes-%p.log"
    assert verdict(run, XDG_CACHE_HOME=str(cache), JDK_JAVA_OPTIONS=log) == first
    assert list((cache / "zonequake").iterdir()) == [file]
    loaded = "".join(log.read_text() for log in tmp_path.glob("classes-*.log"))
    assert " org.apache.spark.SparkContext source: shared objects file (top)" in loaded


def verdict(run: Path, **environment: str) -> dict[str, Any]:
    """Analyzes the run in a process of its own; returns what depends on neither time nor place."""
    command = [str(Path(sys.executable).parent / "zonequake"), "analyze", str(run)]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    found: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    del found["analyzed"], found["numbers"]["analysis_s"]
    return found
