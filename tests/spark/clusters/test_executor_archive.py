"""The archive of `zonequake executor-archive` runs on a machine that has no Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.spark.clusters.machines import DATA, SPARK, Machine, network

pytestmark = [pytest.mark.spark, pytest.mark.long]

FROM_SPARK = ":".join(
    f"{SPARK}/python/lib/{file.name}"
    for file in sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
)
OF_THE_C_LIBRARY = {
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libdl.so.2", "libm.so.6",
    "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1",
}  # fmt: skip
IMPORTS = """
import sys
import pyspark.daemon, pyspark.worker
import bz2, ctypes, hashlib, lzma, sqlite3, ssl
import cramjam, jinja2, pandas, pyarrow.fs, pyarrow.parquet, yaml
import zonequake_analysis.checks.register_zones, zonequake_analysis.metrics.data_source
import zonequake_analysis.metrics.stored_tables, zonequake_analysis.spark_pass.ingest
modules = {module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)}
mapped = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
print(sys.prefix)
for path in sorted(modules | mapped):
    if not path.startswith((sys.argv[1] + "/", "/opt/spark/")):
        print(path)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    code = "from zonequake_analysis.executors.command import app; app()"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=True
    )
    assert (
        f"next: zonequake analyze RUN --master spark://HOST:7077 --archives {out}" in ended.stderr
    )
    return out


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Machine]:
    """A machine with the archive unpacked, at a place that is nobody else's."""
    with network(tmp_path_factory.mktemp("network")) as wire:
        found = wire.machine("worker")
        place = found.folder / "some place" / "here"
        place.mkdir(parents=True)
        subprocess.run(["tar", "-xzf", archive, "-C", place], check=True)
        yield found


def on(machine: Machine, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        machine.command(*command),
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": FROM_SPARK},
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_that_executors_import_comes_from_the_archive_and_from_spark(machine: Machine) -> None:
    here = f"{DATA}/some place/here"
    ended = on(machine, "sh", "-c", f'cd "{DATA}/some place" && exec ./here/bin/python "$@"',
               "sh", "-c", IMPORTS, here)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    prefix, *elsewhere = ended.stdout.splitlines()
    assert prefix == here
    assert {Path(path).name for path in elsewhere} <= OF_THE_C_LIBRARY


def test_the_machine_has_no_python_and_none_of_the_drivers_paths(machine: Machine) -> None:
    paths = [sys.executable, sys.prefix, sys.base_prefix + "/bin", str(Path(__file__).parents[3])]
    for path in [*paths, "/usr/bin/python3", f"/usr/lib/python{sys.version_info.major}"]:
        ended = on(machine, "ls", path)
        assert ended.returncode != 0, path
        assert "No such file or directory" in ended.stderr
