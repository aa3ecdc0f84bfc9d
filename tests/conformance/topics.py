"""How each topic's cases are put to keyferry: decode the case, call keyferry, hand back what it said."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

from conformance.layout import content_of, write_program
from conformance.topics_config import provider_config
from conformance.topics_exec_credential import exec_credential
from conformance.topics_keyring import keyring, provide
from conformance.topics_kubeconfig import kubeconfig
from conformance.topics_pulls import pull_decisions, pull_records
from keyferry._core.documents import read_yaml
from keyferry._core.json import decode_utf8, dumps, loads
from keyferry.api.credentialprovider import v1
from keyferry.api.meta import decode_duration, format_duration, parse_duration
from keyferry.errors import (
    DocumentError,
    DurationError,
    ImageNameError,
    KeyferryError,
    PluginError,
    PluginProtocolError,
)
from keyferry.images.match import PatternIndex, explain_match, matches
from keyferry.images.provider.plugin import ExecPlugin, decode_response
from keyferry.images.reference import parse_image, trim

Json = dict[str, object]


def durations(given: Json) -> Json:
    """Parse, decode or format a duration."""
    if given["op"] == "format":
        return {"string": format_duration(int(str(given["ns"])))}
    try:
        nanoseconds = _read_duration(str(given["op"]), str(given["text"]))
    except (DurationError, DocumentError) as error:
        return {"error": _staged(given, error), "ns": None, "string": None}
    if nanoseconds is None:
        return {"error": None, "ns": None, "string": None}
    shown = format_duration(nanoseconds)
    return {"error": None, "ns": str(nanoseconds), "string": shown, "json": dumps(shown)}


def _read_duration(op: str, text: str) -> int | None:
    if op == "parse":
        return parse_duration(text)
    if op == "json":
        return decode_duration(loads(text, quoting=True))
    document = read_yaml(text.encode(), quoting=True)
    found = document.value.get("d") if isinstance(document.value, dict) else None
    return None if found is None else decode_duration(found)


def _staged(given: Json, error: KeyferryError) -> str:
    """The stage that sigs.k8s.io/yaml names, which no part of keyferry goes through for a bare duration."""
    if given["op"] != "yaml":
        return error.kubernetes_text
    stage = "error converting YAML to JSON: " if isinstance(error, DocumentError) else ""
    return (stage or "error unmarshaling JSON: while decoding JSON: ") + error.kubernetes_text


def image_reference(given: Json) -> Json:
    """Parse an image three ways."""
    image = str(given["image"])
    return {"parse": _parsed(image), "trim": _trimmed(image), "with_default_tag": _tagged(image)}


def _parsed(image: str) -> Json:
    try:
        name = parse_image(image)
    except ImageNameError as error:
        return {"repo": None, "tag": None, "digest": None, "error": error.kubernetes_text}
    return {"repo": name.repository, "tag": name.tag, "digest": name.digest, "error": None}


def _trimmed(image: str) -> Json:
    try:
        return {"image": trim(image), "error": None}
    except ImageNameError as error:
        return {"image": None, "error": error.kubernetes_text}


def _tagged(image: str) -> str | None:
    try:
        return parse_image(image).with_default_tag().text
    except ImageNameError:
        return None


def match(given: Json) -> Json:
    """Match a glob against a target; the index must agree with the reference."""
    glob, target = str(given["glob"]), str(given["target"])
    indexed = bool(PatternIndex([(0, glob)]).match(target))
    assert indexed == matches(glob, target), "the index disagrees with the reference"
    verdict = explain_match(glob, target)
    return {"matched": verdict.matched, "error": verdict.kubernetes_text or None}


def request_encoding(given: Json) -> Json:
    """Encode a request."""
    image = str(given.get("image", ""))
    if "imageBase64" in given:
        image = decode_utf8(base64.b64decode(str(given["imageBase64"])))
    annotations = given.get("serviceAccountAnnotations") or {}
    assert isinstance(annotations, dict)
    request = v1.CredentialProviderRequest(
        image=image,
        service_account_token=str(given.get("serviceAccountToken") or ""),
        service_account_annotations=annotations,
    )
    return {"error": None, "stdin": v1.encode_request(request, str(given["apiVersion"])).decode()}


def response_decoding(given: Json) -> Json:
    """Decode a plugin's output, or run a plugin."""
    return _run_plugin(given) if given["op"] == "run" else _decode(given)


def _decode(given: Json) -> Json:
    try:
        response = decode_response("plug", str(given["apiVersion"]), content_of(given["stdout"]))
    except PluginProtocolError as error:
        return {"accepted": False, "response": None, "error": error.kubernetes_text} | _protocol_class(error)
    return {"accepted": True, "response": _response(response), "error": None}


def _protocol_class(error: PluginProtocolError) -> Json:
    """The class of what is reported, or, where Kubernetes hides the detail, of what is hidden."""
    if error.kubernetes_text.startswith("error decoding"):
        return {"decode_error_not_surfaced_class": error.document_kind}
    return {} if error.document_kind == "other" else {"error_class": error.document_kind}


def _response(response: v1.CredentialProviderResponse) -> Json:
    duration = response.cache_duration_ns
    auth = response.auth
    shown = (
        auth
        if auth is None
        else {k: {"username": a.username, "password": a.password} for k, a in auth.items()}
    )
    return {
        "cacheKeyType": response.cache_key_type,
        "cacheDuration_ns": None if duration is None else str(duration),
        "auth": shown,
    }


def _run_plugin(given: Json) -> Json:
    environ = dict(os.environb)
    with tempfile.TemporaryDirectory() as folder:
        name = str(given.get("plugin") or "plug")
        path = Path(folder, name)
        if given.get("script") is not None:
            write_program(path, given["script"], given.get("mode"))
        try:
            _extend_environment(given)
            plugin = _exec_plugin(given, name, str(path))
            answer = _answer_of(plugin, str(given["image"]))
        finally:
            os.environb.clear()
            os.environb.update(environ)
        return _localised(answer, {folder: "$BINDIR"})


def _extend_environment(given: Json) -> None:
    """What the kubelet itself has in its environment; of an entry without '=', no program sees anything."""
    for entry in given.get("environ") or []:  # type: ignore[attr-defined] # a list of strings
        name, mark, value = str(entry).partition("=")
        if name and mark:
            os.environ[name] = value


def _exec_plugin(given: Json, name: str, path: str) -> ExecPlugin:
    env = tuple((item["name"], item["value"]) for item in given.get("env") or [])  # type: ignore[attr-defined]
    return ExecPlugin(
        name=name,
        path=path,
        api_version=str(given["apiVersion"]),
        args=tuple(given.get("args") or ()),  # type: ignore[arg-type]
        env=env,
    )


def _answer_of(plugin: ExecPlugin, image: str) -> Json:
    try:
        response, _ = plugin(v1.CredentialProviderRequest(image=image))
    except PluginError as error:
        return {"accepted": False, "response": None, "error": error.kubernetes_text}
    return {"accepted": True, "response": _response(response), "error": None}


def _localised(value: object, names: dict[str, str]) -> Json:
    """Replace this machine's paths by the names the vectors use."""
    text = dumps(value)
    for path, name in names.items():
        text = text.replace(path, name)
    loaded = loads(text)
    assert isinstance(loaded, dict)
    return loaded


TOPICS = {
    "durations": durations,
    "exec_credential": exec_credential,
    "image_reference": image_reference,
    "keyring": keyring,
    "kubeconfig": kubeconfig,
    "match": match,
    "provide": provide,
    "provider_config": provider_config,
    "pull_decisions": pull_decisions,
    "pull_records": pull_records,
    "request_encoding": request_encoding,
    "response_decoding": response_decoding,
}
