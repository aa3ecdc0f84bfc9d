"""Read the credential plugin policy from kubectl's kuberc."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from keyferry._core.bounded import TooLargeError, read_path
from keyferry._core.documents import Document, DocumentFormat, read_document
from keyferry._core.gotext import go_strerror
from keyferry._core.values import Value
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.api.wire import Reader
from keyferry.errors import ConfigError, DocumentError, Kind, Problem
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.api.kuberc.v1beta1 import Preference


_DEFAULT = os.path.join("~", ".kube", "kuberc")
# A pattern for the line between two documents.
SEPARATOR = rb"(?m)^---[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)"
_NO_POLICY = PluginPolicy()


class LoadedKuberc(Value):
    """A policy, the path of its file (empty if there is none), and the warnings that kubectl prints."""

    policy: PluginPolicy = _NO_POLICY
    path: str = ""
    warnings: tuple[str, ...] = ()


def find_kuberc(path: str = "", environ: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """Return the file that kubectl reads, and whether it was requested explicitly. Raises ConfigError.

    The file is *path*, else the value of KUBERC, else ``~/.kube/kuberc``; ``KUBERC=off`` disables kuberc.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("KUBERC", "")
    if named == "off":
        if path:
            text = "disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive"
            raise ConfigError(
                (Problem("", "KUBERC=off cannot be combined with a kuberc file", kubernetes_text=text),)
            )
        return "", False
    if path or named:
        return path or named, True
    if environ.get("KUBECTL_KUBERC", "").lower() == "false":
        return "", False
    home = environ.get("HOME", "")
    return (_DEFAULT.replace("~", home, 1) if home else os.path.expanduser(_DEFAULT)), False


def load_kuberc(path: str = "", environ: Mapping[str, str] | None = None) -> LoadedKuberc:
    """Read the policy from the kuberc file that applies; without a file every plugin is allowed.

    Raises ConfigError for a file that is not valid and PolicyError for a policy that is not valid. If its
    default file is not valid, kubectl only prints a warning and runs any plugin; keyferry does not ignore a
    file that may contain a policy.
    """
    file, is_explicit = find_kuberc(path, environ)
    if not file:
        return LoadedKuberc()
    try:
        data = read_path(file)
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
    # Kubernetes has no limit, and so no text for it.
    text = "" if isinstance(error, TooLargeError) else f"kuberc: open {file}: {reason}"
    return Problem("", f"cannot be read: {reason}", kubernetes_text=text, file=file)


def read_kuberc(file: str, data: bytes) -> LoadedKuberc:
    """Return the policy of the first document in *data* that is a valid Preference.

    Raises ConfigError if there are documents and none is valid, and PolicyError for a policy that is not valid.
    """
    problems: list[Problem] = []
    for text in re.split(SEPARATOR, data):
        if not text.strip():
            continue
        try:
            return load_preference(file, read_document(text, quoting=True))
        except DocumentError as error:
            # Without the line, which is relative to the separator before the document.
            problems.append(Problem("", error.message, kubernetes_text=error.kubernetes_text, file=file))
        except ConfigError as error:
            problems += error.problems
    if not problems:
        return LoadedKuberc(path=file)
    text = f"kuberc: no valid preferences found in {file}, use --v=5 to see details"
    raise ConfigError(tuple(problems), text)


def load_preference(file: str, document: Document) -> LoadedKuberc:
    """Return the policy of one document. Raises ConfigError or PolicyError."""
    from keyferry.api.kuberc.v1beta1 import API_VERSIONS, KIND, read_preference

    try:
        api_version, kind = interpret(document.value)
    except WrongTypeError as error:
        raise _refused(file, error.field, error.message) from None
    if kind != KIND or api_version not in API_VERSIONS:
        expected = " or ".join(map(repr, API_VERSIONS))
        raise _refused(
            file, "", f"found apiVersion {api_version!r} and kind {kind!r}, expected {expected} and {KIND!r}"
        )
    reader = Reader(sort_keys=document.format is DocumentFormat.YAML)
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
    return LoadedKuberc(policy=policy, path=file, warnings=(*map(str, problems), *repeated))


def policy_of(preference: Preference) -> PluginPolicy:
    """Return the policy of a preference, without validating it."""
    entries = preference.credential_plugin_allowlist
    listed = None
    if entries is not None:
        listed = tuple(
            AllowlistEntry(command=each.command or each.name, sha256=each.sha256) for each in entries
        )
    return PluginPolicy(policy_type=preference.credential_plugin_policy, allowlist=listed)


def _refused(file: str, path: str, message: str) -> ConfigError:
    return ConfigError((Problem(path, message, file=file),))
