"""Where things are in a checkout: what images are built from, and where the results lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.images.errors import NotACheckoutError

_MARKS = ("Dockerfile", "requirements/store.txt", "pyproject.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The folders of one checkout."""

    root: Path

    @property
    def archives(self) -> Path:
        """Finished OCI archives, one file per image, and the base as a plain tar."""
        return self.root / ".zonequake" / "images"

    @property
    def wheels(self) -> Path:
        """Downloaded wheels, one folder per lock file's content."""
        return self.root / ".zonequake" / "wheels"

    @property
    def buildah(self) -> Path:
        """buildah's private storage."""
        return self.root / ".zonequake" / "buildah"


def find_checkout() -> Checkout:
    """The checkout that this module was imported from.

    Raises NotACheckoutError if the package was installed without its checkout.
    """
    root = Path(__file__).resolve().parents[3]
    for mark in _MARKS:
        if not (root / mark).is_file():
            raise NotACheckoutError(root, mark)
    return Checkout(root=root)
