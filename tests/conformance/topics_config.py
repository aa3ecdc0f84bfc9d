"""The topic provider_config: read, validate and register configs laid out in a folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from conformance.layout import lay_out, lay_out_programs
from keyferry._core.json import dumps, loads
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ConfigError
from keyferry.images.config.read import read_config
from keyferry.images.config.validate import check_executables, kubernetes_validation_text, validate
from keyferry.images.load import check_config

Json = dict[str, object]


def provider_config(given: Json) -> Json:
    """Read and validate a config, or register it with a bin dir."""
    with tempfile.TemporaryDirectory() as folder:
        _lay_out(given, Path(folder))
        path = _config_path(given, folder)
        answer = _register(given, path, folder) if given.get("op") == "register" else _read(given, path)
        return _localised(answer, folder)


def _lay_out(given: Json, folder: Path) -> None:
    folders = {f"{name}/": None for name in given.get("dirs") or ()}  # type: ignore[attr-defined] # names
    lay_out(folder, folders)
    lay_out(folder, given.get("files"))


def _config_path(given: Json, folder: str) -> str:
    kind, _, name = str(given["path"]).partition(":")
    if kind == "dir":
        return folder
    return f"{folder}/{name}" if kind == "file" else ""


def _read(given: Json, path: str) -> Json:
    read = read_config(path)
    if read.problems:
        # "other" is what the error says of itself where the recorded class may look at a file's name.
        classed = {} if read.kind == "other" else {"error_class": read.kind}
        return {"ok": False, "stage": "read", "error": read.kubernetes_text} | classed
    shown = {"hash": read.hash, "providers": [_provider(provider) for provider in read.providers]}
    problems = validate(read, service_account_tokens=bool(given.get("featureGate", True)))
    if problems:
        texts = [problem.kubernetes_text for problem in problems]
        text = kubernetes_validation_text(problems)
        return {"ok": False, "stage": "validate", "error": text, "errors": texts} | shown
    return {"ok": True, "stage": "accepted"} | shown


def _provider(provider: CredentialProvider) -> Json:
    duration = provider.default_cache_duration_ns
    env = provider.env
    return {
        "name": provider.name,
        "apiVersion": provider.api_version,
        "matchImages": _list(provider.match_images),
        "defaultCacheDuration_ns": None if duration is None else str(duration),
        "args": _list(provider.args),
        "env": None if env is None else [{"name": item.name, "value": item.value} for item in env],
        "tokenAttributes": _token_attributes(provider),
    }


def _token_attributes(provider: CredentialProvider) -> Json | None:
    attributes = provider.token_attributes
    if attributes is None:
        return None
    return {
        "serviceAccountTokenAudience": attributes.service_account_token_audience,
        "cacheType": attributes.cache_type,
        "requireServiceAccount": attributes.require_service_account,
        "requiredServiceAccountAnnotationKeys": _list(attributes.required_service_account_annotation_keys),
        "optionalServiceAccountAnnotationKeys": _list(attributes.optional_service_account_annotation_keys),
    }


def _list(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


def _register(given: Json, path: str, folder: str) -> Json:
    bin_dir = given.get("binDir")
    target = f"{folder}/bin"
    if isinstance(bin_dir, dict):
        _make_bin_dir(bin_dir, Path(target))
        target = str(bin_dir.get("path", target)).replace("$DIR", folder)
    try:
        read = check_config(path, target)
    except ConfigError as error:
        return {"error": error.kubernetes_text, "registered": _registered(path, target, error)}
    return {"error": None, "registered": [provider.name for provider in read.providers]}


def _registered(path: str, bin_dir: str, error: ConfigError) -> list[str]:
    """The providers a kubelet had taken before it stopped at an executable."""
    if not all(problem.code in ("KF141", "KF142") for problem in error.problems):
        return []
    read = read_config(path)
    checks = check_executables(read, bin_dir)
    first = next(index for index, problem in enumerate(checks) if problem is not None)
    return [provider.name for provider in read.providers[:first]]


def _make_bin_dir(bin_dir: Json, folder: Path) -> None:
    folder.mkdir()
    lay_out(folder, {f"{name}/": None for name in bin_dir.get("dirs") or ()})  # type: ignore[attr-defined] # names
    lay_out_programs(folder, bin_dir.get("files"))


def _localised(answer: Json, folder: str) -> Json:
    loaded = loads(dumps(answer).replace(folder, "$DIR"))
    assert isinstance(loaded, dict)
    return loaded
