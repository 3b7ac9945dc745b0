from __future__ import annotations

import ast
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


@pytest.mark.parametrize("image", [i for i in IMAGES if i.sources], ids=lambda i: i.name)
def test_an_image_holds_every_package_of_ours_that_it_imports(image: ImageSpec) -> None:
    held = {Path(source).name for source in image.sources}
    imported: set[str] = set()
    for source in image.sources:
        for file in source_files(source, ROOT / source):
            if file.path.suffix == ".py":
                imported |= imports(file.path)
    assert {name for name in imported if name.startswith("zonequake_")} <= held


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
