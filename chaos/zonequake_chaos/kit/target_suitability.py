"""Checks that a target has all that a scenario asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_chaos.kit.limits.member_limits import check_files, check_folders
from zonequake_chaos.kit.member_set import DATA_FOLDER, TMP_FOLDER
from zonequake_chaos.kit.target import TargetPackage
from zonequake_chaos.scenario.run import ChaosRun, RunTarget
from zonequake_kube.errors import UsageError


def check_suited(package: TargetPackage, run: ChaosRun) -> None:
    """Raises UsageError with every part of the scenario that the target does not support."""
    problems = [
        *package.refuses.of(run),
        *_unclaimed(package, run),
        *package.unsuited(run),
        *_unused_secret(package, run.spec.target.client_secret),
        *_unknown_version(package, run.spec.target),
        *_unmountable(package, run.spec.target),
    ]
    if problems:
        raise UsageError(
            f"{run.metadata.name} can't be run with --target {package.name}: " + "; ".join(problems)
        )


def _unused_secret(package: TargetPackage, secret: str | None) -> Iterator[str]:
    """Yields a Secret that the client would not use, as text; a target that is `in_release` refuses
    it by itself.
    """
    if secret is not None and not package.client.takes_secret and not package.in_release:
        yield (
            f"target.clientSecret is {secret}, and the target's client takes no Secret: leave it "
            "out"
        )


def _unknown_version(package: TargetPackage, target: RunTarget) -> Iterator[str]:
    """Yields why the version that a scenario names can't be had, as text; a target that is
    `in_release` refuses it by itself.
    """
    version = target.version
    if version is None or package.in_release:
        return
    if package.versions is None:
        yield (
            f"target.version is {version}, and the target knows no versions: leave it out; "
            "target.image names an image"
        )
    elif not package.versions.has(version):
        yield f"target.version is {version}, expected {package.versions.expected}"
    elif target.image is not None:
        yield (
            f"found target.version {version} and the image {target.image}, expected one of them: "
            "leave out either (`--set target.version=null` does, for a scenario that has it)"
        )


def _unmountable(package: TargetPackage, target: RunTarget) -> Iterator[str]:
    """Yields the files and Secrets that no set of members can mount, as text; `MemberSet` checks
    them again with the target's own files.
    """
    if package.in_release:
        return
    volumes = (DATA_FOLDER, TMP_FOLDER)
    try:
        check_files({}, target.files, folders=volumes)
        check_folders(target.secrets, taken={*volumes, *target.files})
    except UsageError as error:
        yield str(error)


def _unclaimed(package: TargetPackage, run: ChaosRun) -> Iterator[str]:
    """Yields what the load asks for and the target does not claim, as text."""
    if run.spec.load.transactions is not None and not package.claims.transactions:
        yield (
            "load.transactions asks for transactions, which it does not claim: leave it out, or "
            "choose a target that does them"
        )
