"""Lists of the API server for tests: selectors, pages, and the tokens of pages, which may expire.

A test may add pods that are made when their page is asked for, so that many of them cost no memory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

Json = dict[str, object]
Objects = Mapping[tuple[str, str, str, str], Json]

# The fields that the real server selects objects by, for the resources that have any beyond the name.
_FIELDS = {
    "pods": ("spec.nodeName", "spec.serviceAccountName", "status.phase"),
    "events": ("involvedObject.name", "involvedObject.kind", "involvedObject.uid", "reason", "type"),
    "secrets": ("type",),
}
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter"
)
_REST = (
    ", or use the continue token in this response to retrieve the remainder of the results. Continuing with the "
    "provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)


class ListRefused(Exception):
    """A list that the server refuses; *rest* is the token that it offers for the rest of one that expired."""

    def __init__(self, code: int, message: str, rest: str = "") -> None:
        super().__init__(code, message, rest)
        self.code = code
        self.message = message
        self.rest = rest


@dataclass
class Lists:
    """Lists of *objects*, in the order of their keys, as etcd has it.

    ``made`` pods come after all others: how many, and what makes the pod of a number. ``expiries`` are those of the
    next tokens that are used: whether the server offers the rest of the list, or None for a token that is valid.
    """

    objects: Objects
    made: tuple[int, Callable[[int], Json]] | None = None
    expiries: list[bool | None] = field(default_factory=list)

    def page(self, group: str, resource: str, namespace: str, query: Mapping[str, str]) -> Json:
        """Return the metadata and items of a page, which is a whole list without a limit."""
        fields = _pairs(query.get("fieldSelector", ""))
        labels = _pairs(query.get("labelSelector", ""))
        known = ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ()))
        for name, _, _ in fields:
            if name not in known:
                raise ListRefused(400, f"field label not supported: {name}")
        start = self._start(query.get("continue", ""))
        selected = (
            (key, document)
            for key, document in self._from(start, group, resource, namespace)
            if all(_selects(document, *pair) for pair in fields)
            and all(_has_label(document, *pair) for pair in labels)
        )
        limit = int(query.get("limit", "0")) or None
        found = list(islice(selected, limit))
        is_more = limit is not None and next(selected, None) is not None
        metadata = {"resourceVersion": "1", **({"continue": _token(found[-1][0])} if is_more else {})}
        items = [
            {name: value for name, value in document.items() if name not in ("kind", "apiVersion")}
            for _, document in found
        ]
        return {"metadata": metadata, "items": items}

    def _start(self, token: str) -> str:
        """Return the key that a page starts after."""
        if not token:
            return ""
        try:
            start = str(json.loads(base64.b64decode(token))["start"])
        except (ValueError, KeyError):
            raise ListRefused(400, f"continue key is not valid: {token}") from None
        expiry = self.expiries.pop(0) if self.expiries else None
        if expiry is None:
            return start
        raise ListRefused(410, f"{_TOO_OLD}{_REST if expiry else '.'}", token if expiry else "")

    def _from(self, start: str, group: str, resource: str, namespace: str) -> Iterator[tuple[str, Json]]:
        """Yield the objects after a key, each with its key."""
        keys = sorted(
            (f"{place}/{name}", (own_group, own_resource, place, name))
            for own_group, own_resource, place, name in self.objects
            if (own_group, own_resource) == (group, resource) and namespace in ("", place)
        )
        yield from ((key, self.objects[place]) for key, place in keys if key > start)
        if self.made is None or resource != "pods":
            return
        count, make = self.made
        # A tilde comes after all characters of names, and the numbers have one length.
        first = int(start[1:]) + 1 if start.startswith("~") else 0
        for at in range(first, count):
            document = make(at)
            if namespace in ("", value_at(document, "metadata.namespace")):
                yield f"~{at:07d}", document


def _token(key: str) -> str:
    return base64.b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": key}).encode()).decode()


def _pairs(selector: str) -> list[tuple[str, str, bool]]:
    """Return the terms of a selector: name, value, and whether it must be equal."""
    terms = []
    for term in filter(None, selector.split(",")):
        name, _, value = term.partition("=")
        terms.append((name.rstrip("!"), value.lstrip("="), not name.endswith("!")))
    return terms


def _selects(document: Json, name: str, value: str, is_equal: bool) -> bool:
    return (str(value_at(document, name) or "") == value) is is_equal


def _has_label(document: Json, name: str, value: str, is_equal: bool) -> bool:
    labels = value_at(document, "metadata.labels") or {}
    assert isinstance(labels, dict)
    return (labels.get(name) == value) is is_equal


def value_at(document: Json, path: str) -> object:
    """Return the value at a path with dots; None if there is none."""
    found: object = document
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
