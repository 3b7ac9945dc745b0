"""Libraries of Java that tests run, each kept below the checkout's `.zonequake`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

SPARKS_OWN = Path(pyspark.__file__).parent / "jars"
_CACHE = Path(__file__).resolve().parents[2] / ".zonequake" / "foreign"
_MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library, and what it must be."""

    group: str
    name: str
    version: str
    sha256: str

    def fetched(self) -> Path:
        """The file, from where Maven looks on this machine, or else the Ivy that PySpark brings.

        Raises AssertionError if what came is not what it should be.
        """
        kept = _CACHE / f"{self.name}-{self.version}.jar"
        if not kept.exists():
            _CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
                command = self._by_maven(folder) if shutil.which("mvn") else self._by_ivy(folder)
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                found = Path(folder, kept.name)
                assert found.exists(), f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
                found.replace(kept)
        digest = hashlib.sha256(kept.read_bytes()).hexdigest()
        assert digest == self.sha256, (
            f"{kept} has the SHA-256 {digest}, not {self.sha256}: remove it"
        )
        return kept

    def _by_maven(self, folder: str) -> list[str]:
        return [
            *("mvn", "--batch-mode", "--quiet", _MAVEN_COPY),
            *(f"-Dartifact={self.group}:{self.name}:{self.version}", f"-DoutputDirectory={folder}"),
        ]

    def _by_ivy(self, folder: str) -> list[str]:
        (ivy,) = SPARKS_OWN.glob("ivy-*.jar")
        return [
            *("java", "-jar", str(ivy), "-cache", f"{folder}/cache", "-confs", "default"),
            *("-dependency", self.group, self.name, self.version),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ]
