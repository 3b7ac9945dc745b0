"""The command by which Spark starts its JVM for a local master, but without MLlib, and quiet.

Where nothing but PySpark's own package says what it is: this version of Spark, nothing in the
environment or in a folder `conf`. MLlib is left out since each session calls its registration of
functions, which goes through Scala's reflection and a thousand classes; no analysis calls them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_VERSION = "4.3."
_HARMLESS = {
    "PYSPARK_PYTHON",
    "SPARK_LOCAL_IP",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
}
"""Variables that say nothing about the JVM: this process, or PySpark, sets them for Python."""
OF_LAUNCHER = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
)
"""Settings of which Spark's launcher makes options that aren't known here."""

_LEFT_OUT = "spark-mllib_"
_NUMBER = re.compile(r"^__version__.*?=\s*[\"'](.+?)[\"']", re.MULTILINE)
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
OPTIONS = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""The options that Spark's launcher gives each JVM, but the vector module, which MLlib uses and of
which each start would print a warning."""


def is_known() -> bool:
    """Returns whether the command is known for this process, its environment and its Spark."""
    if any(map(_changes_command, os.environ)):
        return False
    with suppress(OSError):
        home, version = installed_spark()
        java()
        others = any((home / name).exists() for name in ("conf", "spark-distribution"))
        return version.startswith(_VERSION) and not others and (home / "jars").is_dir()
    return False


def _changes_command(variable: str) -> bool:
    of_spark = variable.startswith(("SPARK_", "HADOOP_", "YARN_", "PYSPARK_"))
    return of_spark and variable not in _HARMLESS


def command_of(settings: Mapping[str, str], *, memory: str, java_options: str) -> list[str]:
    """Returns the command for these settings of Spark. Raises OSError without Java or Spark."""
    return [
        str(java()),
        "-cp",
        class_path(),
        f"-Xmx{memory}",
        *shlex.split(java_options),
        *OPTIONS,
        "org.apache.spark.deploy.SparkSubmit",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]


def class_path() -> str:
    """Returns the jars of Spark, the logging interface first, as in Spark's own command."""
    jars = sorted((installed_spark()[0] / "jars").glob("*.jar"))
    used = [jar for jar in jars if not jar.name.startswith(_LEFT_OUT)]
    used.sort(key=lambda jar: not jar.name.startswith("slf4j-api-"))
    return ":".join(map(str, used))


def java() -> Path:
    """Returns the program that Spark starts. Raises FileNotFoundError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        raise FileNotFoundError("java")
    return Path(found).resolve()


def installed_spark() -> tuple[Path, str]:
    """Returns the folder of PySpark and its version, and imports neither. Raises OSError."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise FileNotFoundError("pyspark")
    package = Path(found.origin).parent
    version = _NUMBER.search((package / "version.py").read_text(encoding="utf-8"))
    if version is None:
        raise FileNotFoundError("pyspark.version")
    return package, version[1]
