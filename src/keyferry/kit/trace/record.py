"""Record one exchange with a plugin for a bug report: all of it but the secrets."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterable

from keyferry import __version__
from keyferry._core.clock import time_ns
from keyferry._core.gotext import go_strerror
from keyferry._core.json import loads, loads_with_duplicates
from keyferry._core.paths import format_path
from keyferry._core.secrets import MASK, redact, secret_values
from keyferry.clusters.auth.credential import read_credential
from keyferry.clusters.why.disclose import mask_arguments
from keyferry.errors import DocumentError, EnvironmentProblem, KeyferryError, Kind, PluginProtocolError
from keyferry.images.provider.plugin import decode_response, go_exit_text
from keyferry.images.provider.provider import CACHE_KEY_TYPES
from keyferry.invoke.process import Ending, Limits, Outcome
from keyferry.kit.lab.exec_infos import good_infos
from keyferry.kit.lab.experiments import Experiment, Surroundings, environment, repeat_command
from keyferry.kit.lab.hidden import SHORTEST, Secrets, secrets_in, shown_key
from keyferry.kit.lab.launch import Launch, launch
from keyferry.kit.lab.requests import ask
from keyferry.kit.lab.subject import IMAGE, Subject
from keyferry.kit.lab.tokens import describe, skeleton
from keyferry.show.documents import make_document

__all__ = ["KIND", "PLACEHOLDER", "record"]

KIND = "PluginTrace"
PLACEHOLDER = "keyferry-placeholder"
_SECRETS = ("password", "token", "clientKeyData", "clientCertificateData")
# Fields of the protocols whose text is no secret; the rest of an answer is masked.
_PLAIN = ("kind", "apiVersion", "cacheKeyType", "cacheDuration", "expirationTimestamp", "username")
_LONGEST = 4096
_STDERR_LINES = 50

Json = dict[str, object]
_LACKS = {
    Kind.MISSING_KIND: "decoding stdout: Object 'Kind'",
    Kind.MISSING_API_VERSION: "decoding stdout: Object 'apiVersion'",
}


def record(subject: Subject) -> Json:
    """Run a plugin once, and write down what was asked, what came back and what Kubernetes makes of it.

    Raises EnvironmentProblem if it cannot be started.
    """
    experiment = _experiment(subject)
    outcome, names = _run(subject, experiment)
    known = {subject.token, *secret_values(subject.env)} | secrets_in(outcome.stdout)
    secrets = Secrets(frozenset(text for text in known if len(text) >= SHORTEST))
    now = time_ns()
    return make_document(
        KIND,
        keyferry=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        recordedAtSeconds=now // 1_000_000_000,
        protocol=subject.kind,
        command=secrets.hide(subject.path),
        args=[secrets.hide(word) for word in mask_arguments(subject.args)],
        environmentNames=sorted(names),
        request=loads(experiment.shown),
        repeat=repeat_command(subject, experiment),
        ending=str(outcome.ending),
        status=outcome.status,
        seconds=round(outcome.seconds, 3),
        stdout=_stdout(outcome.stdout, now),
        stderr=_stderr(outcome.stderr, secrets),
        verdict=_verdict(subject, experiment, outcome, secrets),
    )


def _experiment(subject: Subject) -> Experiment:
    if subject.kind == IMAGE:
        return ask(subject, "trace", subject.images[0])
    return next(good_infos(subject))


def _run(subject: Subject, experiment: Experiment) -> tuple[Outcome, Iterable[str]]:
    """One run, in our own home: a bug may lie in what is there."""
    folder = tempfile.mkdtemp(prefix="keyferry-trace-")
    try:
        home = os.environ.get("HOME", folder)
        environ = environment(subject, Surroundings(home, folder, os.environ), experiment)
        limits = Limits(timeout_seconds=subject.timeout_seconds)
        what = Launch((subject.path, *subject.args), environ, experiment.stdin, limits)
        return launch(what).outcome, environ
    except (OSError, ValueError) as error:
        reason = go_strerror(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise EnvironmentProblem(f"plugin {subject.path!r} cannot be run: {reason}")


def _stdout(data: bytes, now_ns: int) -> Json:
    """The answer with placeholders and the shapes of its secrets; of what is no JSON only the skeleton."""
    masked: object = None
    shapes: dict[str, str] = {}
    try:
        document, repeated = loads_with_duplicates(data)
        masked = _mask(document, (), shapes, now_ns)
    except (DocumentError, RecursionError):
        pass
    if not isinstance(masked, dict):
        text = skeleton(data[:_LONGEST].decode("utf-8", "replace"))
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
    if name in _PLAIN and len(value) <= 100:  # nothing that belongs there is longer
        return redact(value)
    shapes[format_path(path)] = describe(value, now_ns)
    return PLACEHOLDER if name in _SECRETS else MASK


def _field(name: str) -> str:
    """The name of a field as it may be shown."""
    return redact(name) if len(name) <= 100 else MASK  # longer than any field's


def _stderr(data: bytes, secrets: Secrets) -> list[str]:
    """The last lines; hidden as a whole first, since a cut through a secret would leave a piece of it."""
    lines = secrets.hide(data.decode("utf-8", "replace").replace("\r\n", "\n")).split("\n")
    kept = [line for line in lines if line.strip()][-_STDERR_LINES:]
    return [line[:400] for line in kept]


def _verdict(subject: Subject, experiment: Experiment, outcome: Outcome, secrets: Secrets) -> Json:
    """What the kubelet or client-go makes of it, and what it would log."""
    who = "the kubelet" if subject.kind == IMAGE else "client-go"
    text, log = _judge(subject, experiment, outcome)
    return {
        "accepted": not log,
        "text": secrets.hide(text or f"{who} takes this answer"),
        "log": secrets.hide(log),
    }


def _judge(subject: Subject, experiment: Experiment, outcome: Outcome) -> tuple[str, str]:
    if outcome.ending is not Ending.EXITED or outcome.status != 0:
        return _failure(subject, experiment, outcome)
    try:
        if subject.kind != IMAGE:
            read_credential(experiment.api_version, outcome.stdout, plugin=subject.name)
            return "", ""
        response = decode_response(subject.name, experiment.api_version, outcome.stdout)
    except KeyferryError as error:
        text = error.problem if isinstance(error, PluginProtocolError) else str(error)
        # client-go quotes the whole answer where its kind or version is missing.
        lack = _LACKS.get(error.document_kind) if isinstance(error, PluginProtocolError) else None
        return text, error.kubernetes_text if lack is None or subject.kind == IMAGE else lack
    if response.cache_key_type not in CACHE_KEY_TYPES:
        prefix = "credential provider plugin did not return a valid cacheKeyType: "
        return "cacheKeyType is none of Image, Registry, Global", prefix + response.cache_key_type[:40]
    return "", ""


def _failure(subject: Subject, experiment: Experiment, outcome: Outcome) -> tuple[str, str]:
    if outcome.ending is Ending.TIMED_OUT:
        cause, text = "context deadline exceeded", f"it did not end within {subject.timeout_seconds:g} s"
    elif outcome.ending is Ending.EXITED and outcome.status is not None:
        cause, text = go_exit_text(outcome.status), "it failed"
    else:
        cause, text = str(outcome.ending), f"it {outcome.ending}"
    if subject.kind != IMAGE:
        return text, f"exec: executable {subject.name} failed with exit code {max(outcome.status or 0, -1)}"
    said = outcome.stderr.decode("utf-8", "replace")[-_LONGEST:]
    where = f"error execing credential provider plugin {subject.name} for image {experiment.image}"
    return text, f"{where}: {cause}: {said}"
