"""A session for a ClusterProfile (KEP-5339): the plugin of a provider file, for a cluster of an inventory.

The profile is an object, a file, or read from the cluster that has the inventory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping

from keyferry._core.clock import check_timeout
from keyferry._core.documents import Document, read_document
from keyferry._core.gotext import go_strerror
from keyferry._core.type_forms import T
from keyferry._core.values import Value, replace
from keyferry._net.forms import encode_percent
from keyferry.api.clusterinventory.v1alpha1 import (
    API_VERSION,
    KIND,
    ClusterProfile,
    PluginProviders,
    read_cluster_profile,
)
from keyferry.api.codec import Refused, TypedDocument, place_problem, read_typed
from keyferry.api.kubeconfig.v1 import AuthInfo, Kubeconfig
from keyferry.api.wire import Reader
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, call_api
from keyferry.clusters.kubeconfig.files import KubeconfigFile
from keyferry.clusters.kubeconfig.trust import check_trust, why_untrusted
from keyferry.clusters.profile_access import (
    RefusedProfile,
    ResolvedProfile,
    refused_profile,
    resolve_profile,
)
from keyferry.clusters.session import ClusterSession, PluginSettings, make_session
from keyferry.errors import ClusterAuthError, ConfigError, EnvironmentProblem, Kind, PolicyError, Problem
from keyferry.invoke.kuberc import load_kuberc
from keyferry.invoke.policy import PluginPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    # The object, or the file that has it.
    Profile: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]

_MAX_BYTES = 16 << 20
_RESOURCE = "clusterprofiles"


def load_cluster_profile(
    profile: Profile,
    *,
    providers: str | os.PathLike[str],
    policy: PluginPolicy | None = None,
    trust: bool = False,
    allow_loader_variables: bool = False,
    timeout_seconds: float = 60.0,
    retries: bool = True,
    backs_off: bool = True,
) -> ClusterSession:
    """Return a session for the cluster of a ClusterProfile, as controllers with cluster-inventory-api reach it.

    *profile* is the object, or a file that has it. *providers* is the provider file, ``--clusterprofile-provider-file``
    of such controllers: its first provider that the profile names is used. The plugin gets no terminal. Only the
    server, the authority and the proxy-url of the profile's cluster are used, and no proxy of the environment. If the
    provider's policy lets the profile set variables, those that change how programs are loaded, such as PATH and
    LD_PRELOAD, are refused unless *allow_loader_variables* is set. Unless *trust* is set, a provider file that another
    user could have written is refused. *policy*, *timeout_seconds*, *retries* and *backs_off* are as in
    ``load_cluster``.

    Raises ConfigError, PolicyError, and ValueError if *timeout_seconds* is not positive.
    """
    check_timeout(timeout_seconds)
    found = read_profile(profile, providers, allow_loader_variables=allow_loader_variables)
    check_trust(found.config, trust=trust)
    settings = PluginSettings(
        policy=load_kuberc().policy if policy is None else policy,
        timeout_seconds=timeout_seconds,
        stdin_unavailable=True,
        backs_off=backs_off,
    )
    return make_session(found.config, settings, retries=retries)


def read_profile(
    profile: Profile, providers: str | os.PathLike[str], *, allow_loader_variables: bool = False
) -> ResolvedProfile:
    """Return the client configuration for a profile, and how it was chosen; whether the file is trusted is not checked.

    Raises ConfigError, and PolicyError for a variable that changes how programs are loaded.
    """
    found = examine_profile(profile, providers, allow_loader_variables=allow_loader_variables)
    if isinstance(found, RefusedProfile):
        raise found.error
    return found


def examine_profile(
    profile: Profile, providers: str | os.PathLike[str], *, allow_loader_variables: bool = False
) -> ResolvedProfile | RefusedProfile:
    """Return the same as ``read_profile``, or why the profile cannot be used with these providers.

    Raises ConfigError for a file that cannot be read.
    """
    read = _read_file(os.fspath(providers))
    known = _decode(read, PluginProviders.from_document)
    if isinstance(profile, Mapping):
        described = _decode_profile(_parse("", json.dumps(profile).encode()))
    else:
        described = _decode_profile(_read_file(os.fspath(profile)))
    try:
        found = resolve_profile(
            described, known, file=read.path, allow_loader_variables=allow_loader_variables
        )
    except (ConfigError, PolicyError) as error:
        return refused_profile(described, known, read.path, error)
    # It decides which program is run, as the file of a kubeconfig's user does.
    users = {found.choice.provider: AuthInfo(exec=found.config.exec)}
    file = KubeconfigFile(
        path=read.path,
        document=read.typed.document,
        config=Kubeconfig(users=users),
        untrusted=read.untrusted,
    )
    return replace(found, config=replace(found.config, files=(file,)))


def fetch_cluster_profile(
    session: ClusterAccess, name: str, *, namespace: str = "", timeout_seconds: float = 60.0
) -> dict[str, Any]:
    """Return the ClusterProfile *name* of the cluster that has the inventory, for ``load_cluster_profile``.

    Without *namespace*, it is that of the session. Raise EnvironmentProblem if there is none, and ClusterAuthError if
    the server cannot be reached or refuses the request.
    """
    namespace = namespace or session.config.namespace
    group, version = API_VERSION.split("/")
    action = ApiAction(verb="get", resource=f"{_RESOURCE}.{group}", namespace=namespace, name=name)
    path = (
        f"/apis/{group}/{version}/namespaces/{encode_percent(namespace)}/{_RESOURCE}/{encode_percent(name)}"
    )
    found = call_api(session, action, path, timeout_seconds=timeout_seconds)
    if not isinstance(found, ApiProblem):
        return found
    if found.kind is Kind.NOT_FOUND:
        said = f": {found.message}" if found.message else ""
        raise EnvironmentProblem(f"there is no {KIND} {name!r} in namespace {namespace!r}{said}")
    raise ClusterAuthError(session.server, str(found))


class _ReadFile(Value):
    """A document and where it is from; *untrusted* is who else could have written the file."""

    path: str
    typed: TypedDocument
    untrusted: str = ""


def _read_file(path: str) -> _ReadFile:
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
            why = why_untrusted(path, os.fstat(stream.fileno()))
    except (OSError, ValueError) as error:
        raise _problem(path, f"cannot be read: {go_strerror(error)}") from None
    if len(data) > _MAX_BYTES:
        raise _problem(path, f"is larger than {_MAX_BYTES >> 20} MiB")
    return replace(_parse(path, data), untrusted=why)


def _parse(path: str, data: bytes) -> _ReadFile:
    typed = read_typed(path, data, read_document)
    if isinstance(typed, Refused):
        raise ConfigError((typed.problem,))
    return _ReadFile(path=path, typed=typed)


def _decode_profile(read: _ReadFile) -> ClusterProfile:
    typed = read.typed
    if (typed.kind, typed.api_version) != (KIND, API_VERSION):
        found = f"{typed.kind!r} of {typed.api_version!r}"
        raise _problem(read.path, f"found kind {found}, expected {KIND!r} of {API_VERSION!r}")
    return _decode(read, read_cluster_profile)


def _decode(read: _ReadFile, decode: Callable[[object, Reader], T]) -> T:
    document, reader = read.typed.document, Reader(lenient=True)
    value = decode(document.value, reader)
    problems = [*_repeated_keys(read.path, document)]
    problems += [place_problem(problem, read.path, document, at) for at, problem in reader.problems]
    if problems:
        raise ConfigError(tuple(problems))
    return value


def _repeated_keys(path: str, document: Document) -> Iterator[Problem]:
    """Yield the keys that are given more than once: two readers could see two settings."""
    for each in document.duplicates:
        message = f"the key is given more than once, first in line {each.first.line}"
        yield place_problem(Problem("", message, kind=Kind.STRICT), path, document, each.path)


def _problem(file: str, message: str) -> ConfigError:
    return ConfigError((Problem("", message, file=file),))
