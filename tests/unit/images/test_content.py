from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from zonequake_cluster.images.content import IMAGES, ImageSpec, content_hash, source_files

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "one.py").write_text("1")
    (tmp_path / "package" / "two.py").write_text("2")
    return tmp_path


def hash_of(tree: Path) -> str:
    return content_hash(source_files("package", tree / "package"), ["fact"])


def test_the_hash_is_the_same_in_another_checkout(tree: Path, tmp_path: Path) -> None:
    before = hash_of(tree)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tree / "package").rename(moved / "package")
    assert hash_of(moved) == before


def test_the_hash_changes_with_content_name_and_fact(tree: Path) -> None:
    seen = {hash_of(tree)}
    seen.add(content_hash(source_files("package", tree / "package"), ["another fact"]))
    (tree / "package" / "one.py").write_text("changed")
    seen.add(hash_of(tree))
    (tree / "package" / "two.py").rename(tree / "package" / "three.py")
    seen.add(hash_of(tree))
    assert len(seen) == 4


def test_a_byte_that_moves_to_the_next_file_changes_the_hash(tree: Path) -> None:
    (tree / "package" / "one.py").write_text("ab")
    (tree / "package" / "two.py").write_text("c")
    before = hash_of(tree)
    (tree / "package" / "one.py").write_text("a")
    (tree / "package" / "two.py").write_text("bc")
    assert hash_of(tree) != before


def test_byte_code_is_no_part_of_an_image(tree: Path) -> None:
    before = hash_of(tree)
    (tree / "package" / "__pycache__").mkdir()
    (tree / "package" / "__pycache__" / "one.cpython-311.pyc").write_bytes(b"x")
    assert hash_of(tree) == before


STARTED = {
    "agent": {"zonequake_agent"},
    "analysis": {"zonequake_analysis"},
    "operator": {"zonequake_operator"},
    "patroni": {"zonequake_load", "zonequake_target_patroni"},
    "store": {"zonequake_load", "zonequake_store"},
}
"""The packages whose programs pods start, by image."""


@pytest.mark.parametrize("image", [i for i in IMAGES if i.sources], ids=lambda i: i.name)
def test_an_image_holds_what_its_programs_import_of_ours_and_nothing_else(image: ImageSpec) -> None:
    imported = {
        Path(source).parts[1]: {
            name
            for file in source_files(source, ROOT / source)
            if file.path.suffix == ".py"
            for name in imports(file.path)
            if name.startswith("zonequake_")
        }
        for source in image.sources
    }
    needed, more = set[str](), STARTED[image.name]
    while more - needed:
        needed |= more
        more = {name for package in needed for name in imported.get(package, set())}
    assert needed == imported.keys()


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_what_an_image_is_made_of_reaches_a_docker_build() -> None:
    """`docker build .` sees of the checkout only what .dockerignore lets through."""
    let_through = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    for spec in IMAGES:
        for source in spec.sources:
            assert any(f"{source}/".startswith(f"{path}/") for path in let_through), source


KEPT = re.compile(r"^RUN (cd /app && rm -rf (?:.|\n)+?)\n(?!    )", re.MULTILINE)
COPIED = re.compile(r"^COPY ((?!--from).+) (/app\S*)$", re.MULTILINE)


@pytest.mark.parametrize("image", [i for i in IMAGES if i.sources], ids=lambda i: i.name)
def test_a_docker_build_of_the_checkout_holds_the_same_packages(
    image: ImageSpec, tmp_path: Path
) -> None:
    """Copies what the Dockerfile copies, and removes what it removes."""
    dockerfile = (ROOT / image.dockerfile).read_text()
    copied = COPIED.findall(dockerfile)
    assert copied
    for sources, target in copied:
        for source in map(Path, sources.split()):
            # Of a folder the content is copied; a package is named by its own folder.
            inside = packages(source) if target == "/app/" else [Path(target).relative_to("/app")]
            for each in inside:
                (tmp_path / each).mkdir(parents=True)
    for command in KEPT.findall(dockerfile):
        subprocess.run(
            ["sh", "-ec", command.replace("/app", str(tmp_path))],
            env={"PATH": os.defpath, "EXTRA": image.extra or ""},
            check=True,
        )
    held = {Path(source).parts[1] for source in image.sources}
    assert {path.name for path in tmp_path.iterdir()} == held


def packages(root: Path) -> list[Path]:
    """Returns the packages below a folder of the checkout that a build sees."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    seen = [Path(line[1:]) for line in ignored if line[:1] == "!"]
    return [
        path.relative_to(ROOT / root)
        for path in sorted((ROOT / root).iterdir())
        if path.name.startswith("zonequake_")
        and any(
            each in (root, root / path.name) or root / path.name in each.parents for each in seen
        )
    ]
