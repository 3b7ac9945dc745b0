"""The content of an image, as a CycloneDX bill of materials.

Built from the image's parts: the base's packages, as its own dpkg lists them, the wheels of the
lock, our packages, and a program of this machine. The same parts give the same bytes, so that a
rebuilt image is identical.
"""

from __future__ import annotations

import hashlib
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import Parser
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

VERSION = "bill 1"
"""Part of each image's hash. Raise it when the same parts must give another bill."""
PLACE = "/usr/share/sbom"
"""The folder in each image that holds its bill."""
_STATUS = "./var/lib/dpkg/status"
_RELEASE = "./usr/lib/os-release"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillItem:
    """One part of an image. `qualifiers` and `vendor` are those of the package URL."""

    kind: str
    name: str
    version: str
    vendor: str = ""
    qualifiers: tuple[tuple[str, str], ...] = ()
    sha256: str = ""


def packages_of(archive: Path) -> Iterator[BillItem]:
    """Returns the distribution's packages in a base, which is the tar of a root file system."""
    with tarfile.open(archive) as tar:
        texts = {name: _text(tar, name) for name in (_STATUS, _RELEASE)}
    release = dict(line.split("=", 1) for line in texts[_RELEASE].splitlines() if "=" in line)
    for paragraph in texts[_STATUS].split("\n\n"):
        found = Parser().parsestr(paragraph, headersonly=True)
        if found["Status"] == "install ok installed":
            yield BillItem(
                kind="deb",
                vendor=release["ID"],
                name=found["Package"],
                version=found["Version"],
                qualifiers=(
                    ("arch", found["Architecture"]),
                    ("distro", release["VERSION_CODENAME"]),
                ),
            )


def _text(tar: tarfile.TarFile, name: str) -> str:
    content = tar.extractfile(name)
    assert content is not None, f"{name} is no file"
    return content.read().decode()


def wheels_in(folder: Path) -> Iterator[BillItem]:
    """Returns the Python packages of these wheel files."""
    for path in sorted(folder.glob("*.whl")):
        name, version, *_ = path.name.split("-")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        yield BillItem(
            kind="pypi", name=name.lower().replace("_", "-"), version=version, sha256=digest
        )


def bill_of(ref: str, parts: Iterable[BillItem], *, made_s: float) -> str:
    """Returns the bill of the image `ref` as JSON. `made_s`: the time at which its oldest part was
    fetched, unix seconds.
    """
    name, _, version = ref.rpartition(":")
    image = Component(type=ComponentType.CONTAINER, name=name, version=version, bom_ref="image")
    components = [_component(part) for part in parts]
    bill = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"https://{ref}"),
        metadata=BomMetaData(component=image, timestamp=datetime.fromtimestamp(made_s, UTC)),
        components=components,
    )
    bill.register_dependency(image, components)
    return JsonV1Dot6(bill).output_as_string(indent=1) + "\n"


def _component(part: BillItem) -> Component:
    url = PackageURL(
        type=part.kind,
        namespace=part.vendor or None,
        name=part.name,
        version=part.version,
        qualifiers=dict(part.qualifiers),
    )
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else []
    return Component(
        type=ComponentType.APPLICATION if part.kind == "generic" else ComponentType.LIBRARY,
        name=part.name,
        version=part.version,
        purl=url,
        bom_ref=url.to_string(),
        hashes=hashes,
    )
