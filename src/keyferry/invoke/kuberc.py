"""Read the policy for credential plugins from kubectl's kuberc."""

import os
import re
from collections.abc import Mapping

from keyferry._core.documents import Document, read_document
from keyferry._core.gotext import go_strerror
from keyferry._core.values import Value
from keyferry.api.codec import Reader, WrongTypeError, interpret
from keyferry.api.kuberc.v1beta1 import API_VERSIONS, KIND, Preference, read_preference
from keyferry.errors import ConfigError, DocumentError, Kind, Problem
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy

__all__ = [
    "SEPARATOR",
    "LoadedKuberc",
    "find_kuberc",
    "load_kuberc",
    "load_preference",
    "policy_of",
    "read_kuberc",
]

_DEFAULT = os.path.join("~", ".kube", "kuberc")
SEPARATOR = re.compile(rb"^---[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)", re.MULTILINE)
_NO_POLICY = PluginPolicy()


class LoadedKuberc(Value):
    """A policy, the file it was read from, empty if there is none, and what kubectl would warn of."""

    policy: PluginPolicy = _NO_POLICY
    path: str = ""
    warnings: tuple[str, ...] = ()


def find_kuberc(path: str = "", environ: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """The file kubectl would read, and whether someone asked for it; raises ConfigError.

    That is *path*, or what KUBERC names, or ``~/.kube/kuberc``; ``KUBERC=off`` turns all of this off.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("KUBERC", "")
    if named == "off":
        if path:
            text = "disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive"
            raise ConfigError(
                (Problem("", "KUBERC=off and a kuberc file exclude each other", kubernetes_text=text),)
            )
        return "", False
    if path or named:
        return path or named, True
    if environ.get("KUBECTL_KUBERC", "").lower() == "false":
        return "", False
    home = environ.get("HOME", "")
    return (_DEFAULT.replace("~", home, 1) if home else os.path.expanduser(_DEFAULT)), False


def load_kuberc(path: str = "", environ: Mapping[str, str] | None = None) -> LoadedKuberc:
    """Read the policy from the kuberc that applies; without one everything is allowed.

    Raises ConfigError for a file that cannot be used and PolicyError for a policy that makes no sense.
    kubectl only warns if its default file is broken, and then runs whatever a kubeconfig names; a
    file that may hold a policy is not passed over here.
    """
    file, is_explicit = find_kuberc(path, environ)
    if not file:
        return LoadedKuberc()
    try:
        with open(file, "rb") as stream:
            data = stream.read()
    except FileNotFoundError as error:
        if not is_explicit:
            return LoadedKuberc()
        problem = _unreadable(file, error)
    except (OSError, ValueError) as error:
        problem = _unreadable(file, error)
    else:
        return read_kuberc(file, data)
    raise ConfigError((problem,))


def _unreadable(file: str, error: OSError | ValueError) -> Problem:
    reason = go_strerror(error)
    return Problem(
        "", f"cannot be read: {reason}", kubernetes_text=f"kuberc: open {file}: {reason}", file=file
    )


def read_kuberc(file: str, data: bytes) -> LoadedKuberc:
    """The first document of the file that is a Preference counts, and others are passed over."""
    problems: list[Problem] = []
    for text in SEPARATOR.split(data):
        if not text.strip():
            continue
        try:
            return load_preference(file, read_document(text, quoting=True))
        except DocumentError as error:
            # Lines are counted from the separator before, and so not named.
            problems.append(Problem("", error.message, kubernetes_text=error.kubernetes_text, file=file))
        except ConfigError as error:
            problems += error.problems
    if not problems:
        return LoadedKuberc(path=file)
    text = f"kuberc: no valid preferences found in {file}, use --v=5 to see details"
    raise ConfigError(tuple(problems), text)


def load_preference(file: str, document: Document) -> LoadedKuberc:
    """The policy in one document; raises ConfigError or PolicyError."""
    try:
        api_version, kind = interpret(document.value)
    except WrongTypeError as error:
        raise _refused(file, error.field, error.message) from None
    if kind != KIND or api_version not in API_VERSIONS:
        expected = " or ".join(map(repr, API_VERSIONS))
        raise _refused(
            file, "", f"apiVersion {api_version!r} and kind {kind!r}, expected {expected} and {KIND!r}"
        )
    reader = Reader(sort_keys=document.format == "yaml")
    preference = read_preference(document.value, reader)
    problems = [problem for _, problem in reader.problems]
    for problem in problems:
        if problem.kind is not Kind.STRICT:
            raise _refused(file, problem.path, problem.message)
    repeated = [
        f"{'.'.join(map(str, each.path))}: the key is given more than once" for each in document.duplicates
    ]
    policy = policy_of(preference)
    policy.validate()
    return LoadedKuberc(policy, file, (*map(str, problems), *repeated))


def policy_of(preference: Preference) -> PluginPolicy:
    """The policy that a preference states, not validated."""
    entries = preference.credential_plugin_allowlist
    listed = None if entries is None else tuple(AllowlistEntry(each.command, each.sha256) for each in entries)
    return PluginPolicy(preference.credential_plugin_policy, listed)


def _refused(file: str, path: str, message: str) -> ConfigError:
    return ConfigError((Problem(path, message, file=file),))
