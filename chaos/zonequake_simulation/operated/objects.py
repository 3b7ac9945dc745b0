"""The API server's objects: written by compare-and-swap, with their former versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Object = dict[str, Any]


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Objects:
    """Objects by resource and name. What is stored or read is never changed in place.

    `written` gets each write: resource, the object before, the object now.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.written: list[Callable[[str, Object | None, Object | None], None]] = []
        self._now_us = now_us
        self._versions: dict[str, dict[str, list[tuple[int, Object | None]]]] = {}
        self._version = 0

    def get(self, plural: str, name: str, *, at_us: int | None = None) -> Object | None:
        """Returns an object as it is, or as it was."""
        versions = self._versions.get(plural, {}).get(name, [])
        if at_us is None:
            return versions[-1][1] if versions else None
        return next((found for since_us, found in reversed(versions) if since_us <= at_us), None)

    def since(self, plural: str, name: str, *, at_us: int) -> Iterator[Object | None]:
        """Yields an object as it was then, and each later version."""
        yield self.get(plural, name, at_us=at_us)
        for since_us, found in self._versions.get(plural, {}).get(name, []):
            if since_us > at_us:
                yield found

    def all(self, plural: str, *, at_us: int | None = None) -> Iterator[Object]:
        """Yields all objects of a resource, by name."""
        for name in sorted(self._versions.get(plural, {})):
            found = self.get(plural, name, at_us=at_us)
            if found is not None:
                yield found

    def put(self, plural: str, obj: Object | None, name: str) -> Object | None:
        """Stores an object under a new version, or removes it (None)."""
        versions = self._versions.setdefault(plural, {}).setdefault(name, [])
        before = versions[-1][1] if versions else None
        self._version += 1
        if obj is not None:
            meta = {**obj["metadata"], "resourceVersion": str(self._version)}
            obj = {**obj, "metadata": meta}
        versions.append((self._now_us(), obj))
        for told in self.written:
            told(plural, before, obj)
        return obj

    # ── as HTTP has it ───────────────────────────────────────────────────────────────────────

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Object | None,
        at_us: int | None = None,
    ) -> Object:
        """Carries out one request; reads return the state at `at_us`. Raises Refused."""
        plural, name, subresource = _parts(path)
        if method == "GET" and name is None:
            items = [o for o in self.all(plural, at_us=at_us) if _selected(o, query)]
            return {"items": items, "metadata": {}}
        if method == "POST":
            assert body is not None, "a POST has a body"
            name = body["metadata"]["name"]
        assert name is not None, f"{method} {path} names an object"
        found = self.get(plural, name, at_us=at_us if method == "GET" else None)
        if method == "POST":
            if found is not None:
                raise Refused(409, f"{plural} {name} exists")
            assert body is not None, "a POST has a body"
            return self._stored(plural, body, name)
        if found is None:
            raise Refused(404, f"no {plural} {name}")
        match method:
            case "GET":
                return found
            case "DELETE":
                wanted = (body or {}).get("preconditions", {})
                if any(found["metadata"].get(key) != value for key, value in wanted.items()):
                    raise Refused(409, f"{plural} {name} is another one than {wanted}")
                self.put(plural, None, name)
                return found
            case "PUT":
                assert body is not None, "a PUT has a body"
                version = body["metadata"].get("resourceVersion")
                if version != found["metadata"]["resourceVersion"]:
                    raise Refused(409, f"{plural} {name} is not at {version}")
                if subresource is None:
                    return self._stored(plural, {**body, "status": found.get("status")}, name)
                return self._stored(plural, {**found, subresource: body[subresource]}, name)
            case "PATCH":
                assert body is not None, "a PATCH has a body"
                uid = found["metadata"].get("uid")
                if body.get("metadata", {}).get("uid", uid) != uid:
                    raise Refused(409, f"{plural} {name} is another one by now")
                return self._stored(plural, _merged(found, body), name)
        raise AssertionError(f"{method} is not spoken here")

    def _stored(self, plural: str, obj: Object, name: str) -> Object:
        stored = self.put(plural, obj, name)
        assert stored is not None, "it was not removed"
        return stored


def _parts(path: str) -> tuple[str, str | None, str | None]:
    """Returns resource, name and subresource."""
    segments = path.strip("/").split("/")
    if "namespaces" in segments:
        segments = segments[segments.index("namespaces") + 2 :]
    else:
        segments = segments[segments.index("v1") + 1 :]
    plural, name, subresource = (*segments, None, None)[:3]
    assert plural is not None, "a path names a resource"
    return plural, name, subresource


def _selected(obj: Object, query: Mapping[str, str]) -> bool:
    labels = obj["metadata"].get("labels", {})
    wanted = query.get("labelSelector")
    return not wanted or all(
        labels.get(key) == value
        for key, _, value in (term.partition("=") for term in wanted.split(","))
    )


def _merged(found: Object, patch: Object) -> Object:
    """Returns a strategic merge for conditions, and a JSON merge patch for all else."""
    merged = dict(found)
    for key, value in patch.items():
        if key == "conditions":
            types = {each["type"] for each in value}
            merged[key] = [c for c in merged.get(key, []) if c["type"] not in types] + value
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
