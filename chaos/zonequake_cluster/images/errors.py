"""The exceptions of the image builder: a branch of the harness's own tree.

HarnessError (zonequake_kube.errors)
└── ImageError
    ├── ProgramMissingError   mmdebstrap, buildah, prometheus … is not installed
    ├── ProgramFailedError    one of them ended with another code than 0
    └── BaseUnusableError     the machine's distribution can't give a base for the images
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_kube.errors import HarnessError

_SHOWN_LINES = 25


class ImageError(HarnessError):
    """An image could not be built."""


class ProgramMissingError(ImageError):
    """A program that the build needs is not installed."""

    def __init__(self, program: str, package: str) -> None:
        super().__init__(
            f"the program {program} is not installed: run `make setup`, "
            f"or `apt-get install {package}`."
        )


class ProgramFailedError(ImageError):
    """A program of the build failed; its last lines are in the message."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        tail = "\n".join(output.strip().splitlines()[-_SHOWN_LINES:])
        super().__init__(f"`{' '.join(command[:6])} …` ended with code {code}:\n{tail}")


class BaseUnusableError(ImageError):
    """This machine's distribution can't give a base for the images."""
