"""Traces for bug reports: record one request to a plugin and its response without secrets, and replay them."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import tempfile
from collections.abc import Iterable

from keyferry import __version__
from keyferry._core.bounded import read_path
from keyferry._core.clock import time_ns
from keyferry._core.gotext import go_strerror
from keyferry._core.json import dumps, loads, loads_with_duplicates
from keyferry._core.paths import format_path
from keyferry._core.program.start import describe_start_problem
from keyferry._core.secrets import MASK, mask_arguments, printable, redact, secret_values
from keyferry._core.values import Value, field
from keyferry.api.meta import format_instant, parse_time
from keyferry.clusters.auth.credential import read_credential
from keyferry.errors import (
    DocumentError,
    EnvironmentProblem,
    KeyferryError,
    Kind,
    PluginProtocolError,
    TimeError,
    signal_name,
)
from keyferry.images.provider.cache import CACHE_KEY_TYPES
from keyferry.images.provider.plugin import decode_response, go_exit_text
from keyferry.invoke.run import Ending, Limits, ProcessOutcome
from keyferry.kit.lab.experiments import Experiment, Surroundings, environment, repeat_command
from keyferry.kit.lab.launch import Launch, launch
from keyferry.kit.lab.requests import normal_request
from keyferry.kit.lab.secrets import MIN_LENGTH, Secrets, describe, secrets_in, shown_key, skeleton
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from keyferry.show.documents import API_VERSION, as_yaml, make_document
from keyferry.show.text import fold
from keyferry.show.writer import style

__all__ = ["KIND", "PLACEHOLDER", "Replay", "load_trace", "record", "replay", "trace_text"]

KIND = "PluginTrace"
PLACEHOLDER = "keyferry-placeholder"
_SECRETS = ("password", "token", "clientKeyData", "clientCertificateData")
# Fields of the protocols that contain no secret; the rest of a response is masked.
_PLAIN = ("kind", "apiVersion", "cacheKeyType", "cacheDuration", "expirationTimestamp", "username")
_MAX_BYTES = 4096
_MAX_STDERR_LINES = 50
_MAX_FILE_BYTES = 64 * 1024 * 1024
_SECOND = 1_000_000_000
# The end of the year 9999; later times cannot be written in RFC 3339.
_END_NS = 253_402_300_800 * _SECOND

Json = dict[str, object]
_LACKS = {
    Kind.MISSING_KIND: "decoding stdout: Object 'Kind'",
    Kind.MISSING_API_VERSION: "decoding stdout: Object 'apiVersion'",
}


def record(plugin: PluginUnderTest) -> Json:
    """Run a plugin once, and return its request, its response and how Kubernetes handles it.

    Raise EnvironmentProblem if the plugin cannot be started.
    """
    experiment = normal_request(plugin)
    outcome, names = _run(plugin, experiment)
    known = {plugin.token, *secret_values(plugin.env)} | secrets_in(outcome.stdout)
    secrets = Secrets(texts=frozenset(text for text in known if len(text) >= MIN_LENGTH))
    now = time_ns()
    return make_document(
        KIND,
        keyferry=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        recordedAtSeconds=now // _SECOND,
        protocol=str(plugin.kind),
        command=plugin.path,
        args=[secrets.hide(word) for word in mask_arguments(plugin.args)],
        environmentNames=sorted(names),
        request=loads(experiment.shown),
        repeat=repeat_command(plugin, experiment, secrets.texts),
        ending=str(outcome.ending),
        status=outcome.status,
        seconds=round(outcome.seconds, 3),
        stdout=_stdout(outcome.stdout, now),
        stderr=_stderr(outcome.stderr, secrets),
        verdict=_verdict(plugin, experiment, outcome, secrets),
    )


def _run(plugin: PluginUnderTest, experiment: Experiment) -> tuple[ProcessOutcome, Iterable[str]]:
    """Run the plugin once, with the user's own HOME, because its content may cause the bug."""
    folder = tempfile.mkdtemp(prefix="keyferry-trace-")
    try:
        home = os.environ.get("HOME", folder)
        environ = environment(
            plugin, Surroundings(home=home, temporary=folder, environ=os.environ), experiment
        )
        limits = Limits(timeout_seconds=plugin.timeout_seconds)
        what = Launch(
            argv=(plugin.path, *plugin.args), environ=environ, stdin=experiment.stdin, limits=limits
        )
        return launch(what).outcome, environ
    except (OSError, ValueError) as error:
        reason = describe_start_problem(plugin.path, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise EnvironmentProblem(f"plugin {plugin.path!r} {reason}")


def _stdout(data: bytes, now_ns: int) -> Json:
    """Return the response with placeholders and the forms of its secrets; only a skeleton if it is not JSON."""
    masked: object = None
    shapes: dict[str, str] = {}
    try:
        document, repeated = loads_with_duplicates(data)
        masked = _mask(document, (), shapes, now_ns)
    except (DocumentError, RecursionError):
        pass
    if not isinstance(masked, dict):
        text = skeleton(data[:_MAX_BYTES].decode("utf-8", "replace"))
        return {"bytes": len(data), "isJson": False, "skeleton": text}
    return {
        "bytes": len(data),
        "isJson": True,
        "document": masked,
        "shapes": shapes,
        "repeatedFields": len(repeated),
    }


def _mask(value: object, path: tuple[str | int, ...], shapes: dict[str, str], now_ns: int) -> object:
    name = path[-1] if path else ""
    if isinstance(value, dict):
        names = {key: shown_key(key) if name == "auth" else _field(key) for key in value}
        return {names[key]: _mask(item, (*path, names[key]), shapes, now_ns) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, (*path, index), shapes, now_ns) for index, item in enumerate(value)]
    if not isinstance(value, str) or not value:
        return value
    if name in _PLAIN and len(value) <= 100:  # valid values are shorter
        return redact(value)
    shapes[format_path(path)] = describe(value, now_ns)
    return PLACEHOLDER if name in _SECRETS else MASK


def _field(name: str) -> str:
    """Return the name of a field, masked if it may contain a secret."""
    return redact(name) if len(name) <= 100 else MASK  # longer than any field of the protocols


def _stderr(data: bytes, secrets: Secrets) -> list[str]:
    """Return the last lines; secrets are masked before the text is cut, so that no part of one remains."""
    lines = secrets.hide(data.decode("utf-8", "replace").replace("\r\n", "\n")).split("\n")
    kept = [line for line in lines if line.strip()][-_MAX_STDERR_LINES:]
    return [line[:400] for line in kept]


def _verdict(
    plugin: PluginUnderTest, experiment: Experiment, outcome: ProcessOutcome, secrets: Secrets
) -> Json:
    """Return how the kubelet or client-go handles the response, and its log message."""
    who = "the kubelet" if plugin.kind == PluginKind.IMAGE else "client-go"
    text, log = _judge(plugin, experiment, outcome)
    return {
        "accepted": not log,
        "text": secrets.hide(text or f"{who} accepts this response{_reserve(plugin)}"),
        "log": secrets.hide(log),
    }


def _reserve(plugin: PluginUnderTest) -> str:
    """Return what limits an acceptance: a request that is not the kubelet's, which has a token."""
    if not plugin.cache_type or plugin.token:
        return ""
    return (
        ", but to a request without a service account token: the kubelet sends one, by tokenAttributes of the "
        "provider; give it with --service-account-token-file"
    )


def _judge(plugin: PluginUnderTest, experiment: Experiment, outcome: ProcessOutcome) -> tuple[str, str]:
    if outcome.ending is not Ending.EXITED or outcome.status != 0:
        return _failure(plugin, experiment, outcome)
    try:
        if plugin.kind != PluginKind.IMAGE:
            read_credential(experiment.api_version, outcome.stdout, plugin=plugin.name)
            return "", ""
        response = decode_response(plugin.name, experiment.api_version, outcome.stdout)
    except KeyferryError as error:
        text = error.problem if isinstance(error, PluginProtocolError) else str(error)
        # client-go quotes the whole response if its kind or version is missing.
        lack = _LACKS.get(error.document_kind) if isinstance(error, PluginProtocolError) else None
        return text, error.kubernetes_text if lack is None or plugin.kind == PluginKind.IMAGE else lack
    if response.cache_key_type not in CACHE_KEY_TYPES:
        prefix = "credential provider plugin did not return a valid cacheKeyType: "
        return "cacheKeyType is not Image, Registry or Global", prefix + response.cache_key_type[:40]
    return "", ""


def _failure(plugin: PluginUnderTest, experiment: Experiment, outcome: ProcessOutcome) -> tuple[str, str]:
    if outcome.ending is Ending.TIMED_OUT:
        cause, text = "context deadline exceeded", f"it did not exit within {plugin.timeout_seconds:g} s"
    elif outcome.ending is Ending.EXITED and outcome.status is not None:
        cause, status = go_exit_text(outcome.status), outcome.status
        text = (
            f"it exited with status {status}" if status >= 0 else f"it was killed by {signal_name(-status)}"
        )
    else:
        cause, text = str(outcome.ending), f"it {outcome.ending}"
    if plugin.kind != PluginKind.IMAGE:
        return text, f"exec: executable {plugin.name} failed with exit code {max(outcome.status or 0, -1)}"
    said = outcome.stderr.decode("utf-8", "replace")[-_MAX_BYTES:]
    where = f"error execing credential provider plugin {plugin.name} for image {experiment.image}"
    return text, f"{where}: {cause}: {said}"


def trace_text(trace: Json) -> str:
    """Return a trace for people: what they look for first, and last the names of the variables, which are many."""
    shown = {**{name: trace[name] for name in ("verdict", "stderr")}, **trace}
    names = shown.pop("environmentNames")
    status = trace["status"]
    if isinstance(status, int) and status < 0:
        shown["ending"] = f"killed by {signal_name(-status)}"
        del shown["status"]
    parts = []
    for name, value in shown.items():
        body = as_yaml(value) if isinstance(value, dict | list) and value else str(value)
        lines = [printable(line) for line in body.removesuffix("\n...").split("\n")]
        is_short = len(lines) == 1 and not isinstance(value, dict | list)
        title = style(name, "bold")
        parts += [f"{title}: {lines[0]}"] if is_short else [f"{title}:", *(f"  {line}" for line in lines)]
    variables = ", ".join(map(str, names)) if isinstance(names, list) else ""
    parts += [style("environmentNames", "bold") + ":", *fold(printable(variables), "  ", "  ")]
    return "\n".join(parts)


class Replay(Value):
    """The output and the exit status of a replay."""

    stdout: str = field(repr=False)
    stderr: str
    status: int


def load_trace(path: str) -> Json:
    """Read a trace; raise EnvironmentProblem if the file is not one."""
    try:
        document = loads(read_path(path, _MAX_FILE_BYTES))
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{path} cannot be read: {go_strerror(error)}") from None
    except DocumentError as error:
        raise EnvironmentProblem(f"{path} is not a trace: {error.message}") from None
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (
        API_VERSION,
        KIND,
    ):
        raise EnvironmentProblem(f"{path} is not a trace, expected kind {KIND} of {API_VERSION}")
    return document


def replay(trace: Json, now_ns: int | None = None) -> Replay:
    """Return the output of a trace's plugin; its expiry has the same distance from now as when it was recorded."""
    now = time_ns() if now_ns is None else now_ns
    stdout = trace.get("stdout")
    text = ""
    if isinstance(stdout, dict):
        document = stdout.get("document")
        if isinstance(document, dict):
            text = dumps(_shift(document, trace, now)) + "\n"
        else:
            text = str(stdout.get("skeleton") or "")
    lines = trace.get("stderr")
    said = "".join(f"{line}\n" for line in lines) if isinstance(lines, list) else ""
    return Replay(stdout=text, stderr=said, status=_status(trace))


def _status(trace: Json) -> int:
    """Return the exit status; 128 and the signal's number for a signal, as a shell reports it."""
    status = trace.get("status")
    if trace.get("ending") != "exited" or not isinstance(status, int):
        return 128 + signal.SIGKILL
    return status if status >= 0 else 128 - status


def _shift(document: Json, trace: Json, now_ns: int) -> Json:
    status, recorded = document.get("status"), trace.get("recordedAtSeconds")
    if not isinstance(status, dict) or not isinstance(recorded, int):
        return document
    try:
        then = parse_time(str(status.get("expirationTimestamp")))
    except TimeError:
        return document
    moved = then + (now_ns // _SECOND - recorded) * _SECOND
    if not 0 <= moved < _END_NS:
        return document
    return {**document, "status": {**status, "expirationTimestamp": format_instant(moved)}}
