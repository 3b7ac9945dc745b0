"""The places of zonequake's own files: in a checkout, or beside the installed packages.

in a checkout                  installed from a wheel
operator/zonequake_operator    site-packages/zonequake_operator
Dockerfile, charts/…           site-packages/zonequake_cluster/shipped/Dockerfile, charts/…
.zonequake/                    ~/.zonequake/
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import FileNotShipped

_PACKAGES = Path(__file__).resolve().parents[1]
_SHIPPED = Path(__file__).resolve().parent / "shipped"
_FOLDERS_OF_PACKAGES = ("operator", "chaos", "workloads", "analysis")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFiles:
    """The files of one checkout, or of one installed wheel (`checkout` is None)."""

    checkout: Path | None

    def find(self, name: str) -> Path:
        """Returns the file or folder with the path `name` in the repository. Raises
        FileNotShipped."""
        folder, _, rest = name.partition("/")
        if self.checkout is not None:
            found = self.checkout / name
        elif folder in _FOLDERS_OF_PACKAGES:
            found = _PACKAGES / rest
        else:
            found = _SHIPPED / name
        if not found.exists():
            raise FileNotShipped(
                f"zonequake's own file {name} is missing: it was looked for at {found}. "
                "Install zonequake again, from its wheel or in a clone by `make setup`."
            )
        return found

    @property
    def root(self) -> Path:
        """The folder that holds `.zonequake`: the checkout, else the user's home."""
        return self.checkout or Path.home()

    @property
    def state(self) -> Path:
        """The folder of zonequake's state on this machine: built programs, images, embedded
        clusters.
        """
        return state_folder(self.root)

    @property
    def archives(self) -> Path:
        """The folder of finished OCI archives, one file per image, and the base as a plain tar."""
        return self.state / "images"

    @property
    def wheels(self) -> Path:
        """The folder of downloaded wheels, one folder per lock file's content."""
        return self.state / "wheels"

    @property
    def buildah(self) -> Path:
        """The folder of buildah's private storage."""
        return self.state / "buildah"


def state_folder(root: Path) -> Path:
    """Returns the folder of `OwnFiles.state`, below a checkout or a home."""
    return root / ".zonequake"


def find_own_files() -> OwnFiles:
    """Returns the installation that this module was imported from."""
    root = _PACKAGES.parent
    return OwnFiles(checkout=root if (root / "pyproject.toml").is_file() else None)
