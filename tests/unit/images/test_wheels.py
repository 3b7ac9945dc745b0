"""Wheels that are made here of a package's source: the lock names them by their own hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

from zonequake_cluster.images.wheels import WITHOUT_WHEEL, _packages, _with_hashes

ROOT = Path(__file__).resolve().parents[3]
LOCK = f"""\
one==1.0 \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
    # via zonequake (pyproject.toml)
pyspark==4.3.0 \\
    --hash=sha256:{"3" * 64}
    # via zonequake (pyproject.toml)
two==2.0 \\
    --hash=sha256:{"4" * 64}
"""


def test_a_lock_falls_into_published_wheels_and_sources() -> None:
    published, sources = _packages(LOCK, without=WITHOUT_WHEEL), _packages(LOCK, only=WITHOUT_WHEEL)
    assert [entry.partition("=")[0] for entry in published] == ["one", "two"]
    assert [entry.partition("=")[0] for entry in sources] == ["pyspark"]
    whole = (ROOT / "requirements" / "analysis.txt").read_text()
    assert len(_packages(whole, only=WITHOUT_WHEEL)) == 1
    assert len(_packages(whole, without=WITHOUT_WHEEL)) == whole.count("==") - 1


def test_the_lock_gets_the_hash_of_the_wheel_that_was_made(tmp_path: Path) -> None:
    wheel = tmp_path / "pyspark-4.3.0-py2.py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    changed = _with_hashes(LOCK, {wheel.name: wheel})
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert f"pyspark==4.3.0 \\\n    --hash=sha256:{digest}\n" in changed
    assert changed.replace(digest, "3" * 64) == LOCK
