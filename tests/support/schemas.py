"""Validate keyferry's own documents against their schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import keyferry
from keyferry.show.documents import API_VERSION

FOLDER = Path(keyferry.__file__).parent / "show" / "schemas"
SHARED = "common"


def kinds() -> list[str]:
    """Return the kinds that have a schema."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != SHARED)


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema as published: a document may have additional fields."""
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return schema


def closed(schema: Any) -> Any:
    """Return the schema for tests: a field that it does not name is refused."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closing = {"additionalProperties": False} if "properties" in schema else {}
    # What stands under "properties" are names, which may be any word.
    return closing | {
        key: {name: closed(each) for name, each in value.items()} if key == "properties" else closed(value)
        for key, value in schema.items()
    }


@cache
def validator(kind: str) -> Draft202012Validator:
    """Return a validator for documents of one kind, with every field checked."""
    schemas = [closed(load_schema(name)) for name in (SHARED, *kinds())]
    # They refer to each other by their names.
    registry = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in schemas)
    return Draft202012Validator(closed(load_schema(kind)), registry=registry)


def check_document(document: dict[str, Any]) -> None:
    """Fail unless the document conforms to the schema of its kind."""
    problems = [
        f"{error.json_path}: {error.message}" for error in validator(document["kind"]).iter_errors(document)
    ]
    assert problems == [], document["kind"]


def check_output(text: str) -> None:
    """Check the output of a command, if it is one of keyferry's own documents, as JSON or YAML."""
    if not text.lstrip("{\n ").startswith((f'"apiVersion": "{API_VERSION}"', f"apiVersion: {API_VERSION}")):
        return
    check_document(json.loads(text) if text.startswith("{") else yaml.safe_load(text))
