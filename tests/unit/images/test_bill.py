"""Each image's bill of materials names what the image is made of."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from zonequake_cluster.images.bill import BillItem, bill_of, packages_of, wheels_in

REF = "docker.io/zonequake/store:0123456789ab"
STATUS = """\
Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.15-2+b7
Description: GNU Bourne Again SHell
 Bash is an sh-compatible command language interpreter.

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_CODENAME=bookworm\n'


def base(folder: Path) -> Path:
    archive = folder / "base.tar"
    with tarfile.open(archive, "w") as tar:
        for name, text in (("./var/lib/dpkg/status", STATUS), ("./usr/lib/os-release", RELEASE)):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return archive


def parts(folder: Path) -> list[BillItem]:
    wheel = "lmdb-3.0.1-cp311-cp311-manylinux_2_17_x86_64.whl"
    (folder / wheel).write_bytes(b"a wheel")
    ours = BillItem(kind="generic", name="zonequake_store", version="0.1.0")
    return [*packages_of(base(folder)), *wheels_in(folder), ours]


def test_a_bill_names_packages_wheels_and_what_is_ours(tmp_path: Path) -> None:
    bill = json.loads(bill_of(REF, parts(tmp_path), made_s=0.0))
    assert sorted(each["purl"] for each in bill["components"]) == [
        "pkg:deb/debian/bash@5.2.15-2%2Bb7?arch=amd64&distro=bookworm",
        "pkg:generic/zonequake_store@0.1.0",
        "pkg:pypi/lmdb@3.0.1",
    ]
    (lmdb,) = [each for each in bill["components"] if each["name"] == "lmdb"]
    assert lmdb["hashes"][0]["alg"] == "SHA-256"
    image = bill["metadata"]["component"]
    assert (image["type"], image["name"], image["version"]) == (
        "container",
        "docker.io/zonequake/store",
        "0123456789ab",
    )


def test_a_bill_is_valid_by_its_standards_schema_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    bill = bill_of(REF, parts(tmp_path), made_s=0.0)
    assert validator.validate_str(bill) is None
    assert validator.validate_str(bill.replace('"library"', '"nonsense"')) is not None


def test_the_same_parts_give_the_same_bill_and_others_another(tmp_path: Path) -> None:
    found = parts(tmp_path)
    bill = bill_of(REF, found, made_s=0.0)
    assert bill_of(REF, reversed(found), made_s=0.0) == bill
    assert bill_of(REF, found[1:], made_s=0.0) != bill


def test_what_is_no_base_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "base.tar"
    tarfile.open(archive, "w").close()
    with pytest.raises(KeyError, match="dpkg/status"):
        list(packages_of(archive))
