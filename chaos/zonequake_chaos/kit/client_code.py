"""The code of a target's client, and how it reaches the load pods.

The module that has the client, a file or a package, is mounted into them; so the release's own load
image serves every target whose client needs nothing else than that image has. It may import
`zonequake_load`, but no other module of its own distribution: a client in several modules is a
package, a folder `client/` with an `__init__.py`, which is mounted as a whole.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zonequake_kube.errors import UsageError
from zonequake_load.pod.control import FUNCTION_NAME

MOST_BYTES = 900_000
"""A ConfigMap may hold 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCode:
    """A target's client: `connect` is the function that builds it, as MODULE:FUNCTION.

    `image`: an image with `zonequake_load`, the client and all that it needs. Default: the
    release's load image, into which the module is mounted. `takes_secret`: it uses the files of the
    Secret that a scenario names by `target.clientSecret`.
    """

    connect: str
    image: str = ""
    takes_secret: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(FUNCTION_NAME, self.connect):
            raise UsageError(f"the target's client {self.connect!r}: expected MODULE:FUNCTION")

    def files(self) -> Mapping[str, str]:
        """Returns the module's sources by their paths below a folder of Python packages; none if
        an image has them. Raises UsageError.
        """
        if self.image:
            return {}
        module = self.connect.partition(":")[0]
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            raise UsageError(
                f"the target's client {self.connect}: found no module {module}: expected a file or "
                "a package beside the target's own modules"
            )
        found = _sources(module, Path(spec.origin), package=spec.submodule_search_locations)
        _check_imports(module, found)
        return found


def _packages_above(module: str) -> dict[str, str]:
    """Returns the `__init__.py` of each package that the module is in: Python imports them first,
    and takes a folder without one only if no other path has such a package.
    """
    found = {}
    above, _, _ = module.rpartition(".")
    while above:
        spec = importlib.util.find_spec(above)
        if spec is not None and spec.origin is not None:
            found[f"{above.replace('.', '/')}/__init__.py"] = Path(spec.origin).read_text()
        above, _, _ = above.rpartition(".")
    return found


def _sources(module: str, origin: Path, *, package: list[str] | None) -> Mapping[str, str]:
    place = module.replace(".", "/")
    found = _packages_above(module)
    if package is None:
        found[f"{place}.py"] = origin.read_text()
    else:
        for path in sorted(origin.parent.rglob("*.py")):
            found[f"{place}/{path.relative_to(origin.parent).as_posix()}"] = path.read_text()
    size = sum(len(text.encode()) for text in found.values())
    if size > MOST_BYTES:
        raise UsageError(
            f"the target's client {module} has {size} bytes of source, and at most {MOST_BYTES} "
            "can be mounted: build an image with it, and name that as the client's image"
        )
    return found


def _check_imports(client: str, mounted: Mapping[str, str]) -> None:
    """Raises UsageError if a mounted module imports one of the client's distribution that isn't."""
    root = client.partition(".")[0]
    spec = importlib.util.find_spec(root)
    assert spec is not None, "it is above the client"
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    names = {_module_of(path) for path in mounted}
    for path, text in mounted.items():
        for imported in _imports(path, ast.parse(text)):
            inside, *rest = imported.split(".")
            place = "/".join(rest)
            own = any(
                (folder / f"{place}.py").exists() or (folder / place / "__init__.py").exists()
                for folder in folders
            )
            if inside == root and own and imported not in names:
                raise UsageError(
                    f"the target's client {client}: {path} imports {imported}, which is not "
                    f"mounted into the load pods, where only {client} is: move it into a package "
                    "of that name, a folder with an __init__.py, or name an image that has it"
                )


def _module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(path: str, tree: ast.Module) -> Iterator[str]:
    """Yields the names that a module imports when it runs: of modules, and of what it takes from
    them, which may be modules too.
    """
    left_out = {
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for body in node.body
        for each in ast.walk(body)
    }
    package = path.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in left_out:
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in left_out:
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{each.name}" for each in node.names)
