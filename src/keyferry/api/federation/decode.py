"""Decode a FederationConfig, and presets, strictly: unknown fields and wrong types are problems with a path."""

from __future__ import annotations

from keyferry.api.federation.v1alpha1 import (
    API_VERSION,
    KIND,
    BasicEncoding,
    CacheLifetime,
    CredentialTemplates,
    ExchangeCall,
    FederationConfig,
    FederationPreset,
    FederationRule,
    FieldEncoding,
    ParameterSource,
    PresetParameter,
    Recipe,
    SubjectSettings,
    SubjectSource,
)
from keyferry.errors import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum
    from typing import Any, TypeVar

    from keyferry._core.paths import Path
    from keyferry.api.codec import Reader

    W = TypeVar("W", bound=StrEnum)

__all__ = ["read_config", "read_preset"]


def read_config(document: object, reader: Reader) -> FederationConfig:
    """Return the config in *document*; *reader* collects the problems of its form."""
    fields = reader.struct(
        document,
        (),
        {
            "kind": reader.text,
            "apiVersion": reader.text,
            "rules": reader.list_of(lambda value, path: _read_rule(reader, value, path)),
        },
    )
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if fields.get(name) != expected:
            _note(reader, (name,), f"expected {expected!r}")
    return FederationConfig(tuple(fields.get("rules") or ()))


def read_preset(document: object, reader: Reader) -> FederationPreset:
    """Return the preset in *document*."""

    def read_parameter(value: object, path: Path) -> PresetParameter:
        texts = dict.fromkeys(("about", "default", "pattern", "expected"), reader.text)
        found = reader.struct(value, path, {**texts, "secret": reader.boolean})
        return PresetParameter(
            found.get("about", ""),
            found.get("default"),
            bool(found.get("secret")),
            found.get("pattern", ""),
            found.get("expected", ""),
        )

    fields = reader.struct(
        document,
        (),
        {
            "about": reader.text,
            "params": reader.map_of(read_parameter),
            "oneOf": reader.list_of(reader.text),
            "subject": lambda value, path: _read_subject(reader, value, path),
            **_recipe_fields(reader),
        },
    )
    return FederationPreset(
        fields.get("about", ""),
        fields.get("params") or {},
        tuple(fields.get("oneOf") or ()),
        fields.get("subject"),
        _make_recipe(fields),
    )


def _read_rule(reader: Reader, value: object, path: Path) -> FederationRule:
    fields = reader.struct(
        value,
        path,
        {
            "registries": reader.list_of(reader.text),
            "subject": lambda item, at: _read_subject(reader, item, at),
            "preset": reader.text,
            "params": reader.map_of(lambda item, at: _read_source(reader, item, at)),
            "cacheKeyType": reader.text,
            "caFile": reader.text,
            **_recipe_fields(reader),
        },
    )
    has_recipe = any(name in fields for name in ("calls", "credentials", "fromAnnotations"))
    return FederationRule(
        registries=tuple(fields.get("registries") or ()),
        subject=fields.get("subject") or SubjectSettings(),
        preset=fields.get("preset", ""),
        parameters=fields.get("params") or {},
        recipe=_make_recipe(fields) if has_recipe else None,
        lifetime=fields.get("lifetime"),
        cache_key_type=fields.get("cacheKeyType") or "Registry",
        ca_file=fields.get("caFile", ""),
    )


def _recipe_fields(reader: Reader) -> dict[str, Any]:
    return {
        "calls": reader.list_of(lambda value, path: _read_call(reader, value, path)),
        "credentials": lambda value, path: _read_credentials(reader, value, path),
        "lifetime": lambda value, path: _read_lifetime(reader, value, path),
        "fromAnnotations": reader.list_of(reader.text),
    }


def _make_recipe(fields: Mapping[str, Any]) -> Recipe:
    return Recipe(
        tuple(fields.get("calls") or ()),
        fields.get("credentials") or CredentialTemplates(),
        fields.get("lifetime") or CacheLifetime(),
        tuple(fields.get("fromAnnotations") or ()),
    )


def _read_subject(reader: Reader, value: object, path: Path) -> SubjectSettings:
    fields = reader.struct(
        value,
        path,
        {
            "from": lambda item, at: _read_word(reader, item, at, SubjectSource.KUBELET),
            "audience": reader.text,
            "issuer": reader.text,
            "file": reader.text,
            "variable": reader.text,
        },
    )
    texts = [fields.get(name, "") for name in ("audience", "issuer", "file", "variable")]
    return SubjectSettings(fields.get("from", SubjectSource.KUBELET), *texts)


def _read_source(reader: Reader, value: object, path: Path) -> ParameterSource:
    """Read a parameter: a text, or an object that says where its value is."""
    if not isinstance(value, dict):
        return ParameterSource(reader.text(value, path))
    names = ("annotation", "pattern", "file", "env")
    fields = reader.struct(value, path, dict.fromkeys(names, reader.text))
    return ParameterSource("", *(fields.get(name, "") for name in names))


def _read_call(reader: Reader, value: object, path: Path) -> ExchangeCall:
    texts = reader.map_of(reader.text)
    fields = reader.struct(
        value,
        path,
        {
            "method": reader.text,
            "url": reader.text,
            "encode": lambda item, at: _read_word(reader, item, at, FieldEncoding.FORM),
            "fields": texts,
            "headers": texts,
            "bearer": reader.text,
            "basic": lambda item, at: _read_basic(reader, item, at),
            "out": reader.map_of(lambda item, at: _read_pointers(reader, item, at)),
        },
    )
    username, password, encode = fields.get("basic") or ("", "", BasicEncoding.PLAIN)
    return ExchangeCall(
        fields.get("method") or "POST",
        fields.get("url", ""),
        fields.get("encode", FieldEncoding.FORM),
        fields.get("fields") or {},
        fields.get("headers") or {},
        fields.get("bearer", ""),
        username,
        password,
        encode,
        fields.get("out") or {},
    )


def _read_basic(reader: Reader, value: object, path: Path) -> tuple[str, str, BasicEncoding]:
    fields = reader.struct(
        value,
        path,
        {
            "username": reader.text,
            "password": reader.text,
            "encode": lambda item, at: _read_word(reader, item, at, BasicEncoding.PLAIN),
        },
    )
    return (
        fields.get("username", ""),
        fields.get("password", ""),
        fields.get("encode", BasicEncoding.PLAIN),
    )


def _read_credentials(reader: Reader, value: object, path: Path) -> CredentialTemplates:
    fields = reader.struct(value, path, {"username": reader.text, "password": reader.text})
    return CredentialTemplates(fields.get("username", ""), fields.get("password", ""))


def _read_pointers(reader: Reader, value: object, path: Path) -> tuple[str, ...]:
    """Read one JSON pointer or a list of them."""
    if isinstance(value, list):
        return tuple(reader.list_of(reader.text)(value, path) or ())
    return (reader.text(value, path),)


def _read_lifetime(reader: Reader, value: object, path: Path) -> CacheLifetime:
    fields = reader.struct(
        value,
        path,
        {
            "from": reader.list_of(reader.text),
            "margin": lambda item, at: _read_margin(reader, item, at),
            "max": reader.duration,
            "unknown": reader.duration,
        },
    )
    default = CacheLifetime()
    sources, most, unknown = fields.get("from"), fields.get("max"), fields.get("unknown")
    percent, margin = fields.get("margin", (default.margin_percent, default.margin_ns))
    return CacheLifetime(
        default.sources if sources is None else tuple(sources),
        percent,
        margin,
        default.most_ns if most is None else most,
        default.unknown_ns if unknown is None else unknown,
    )


def _read_margin(reader: Reader, value: object, path: Path) -> tuple[int | None, int]:
    """Read a percentage such as ``10%``, or a duration."""
    text = value if isinstance(value, str) else ""
    digits = text.removesuffix("%")
    if digits == text:
        return None, reader.duration(value, path) or 0
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 2):
        _note(reader, path, "expected a percentage from 0% to 99%, or a duration such as 5m")
        return None, 0
    return int(digits), 0


def _read_word(reader: Reader, value: object, path: Path, default: W) -> W:
    """Read one word of a closed set."""
    words = type(default)
    text = reader.text(value, path)
    if text in list(words):
        return words(text)
    _note(reader, path, f"found {text[:40]!r}, expected one of {', '.join(words)}")
    return default


def _note(reader: Reader, path: Path, message: str) -> None:
    reader.note(path, message, message, Kind.OTHER)
