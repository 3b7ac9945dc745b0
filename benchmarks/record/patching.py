"""Applies the patches that make controls."""

from __future__ import annotations

from pathlib import Path

from zonequake_cluster.images import programs

_EXACTLY = ("--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch", "--strip=1")


def apply_patch(patch: Path, folder: Path) -> None:
    """Applies a patch to sources in a folder, if all its lines are there. Raises ImageError."""
    programs.require("patch")
    programs.run(["patch", *_EXACTLY, f"--directory={folder}", f"--input={patch}"])
