"""Sources of credentials that are given as files: a pod, its pull secrets, its service account and token."""

import binascii
import os
import stat

from keyferry._core.documents import read_document
from keyferry._core.paths import format_path
from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.cli.frame.commands import WrongUsage
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.images.dockerconfig import PullSecret, node_config_candidates
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.provider.accounts import Pod, ServiceAccount, StaticAccount

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from keyferry.images.node.settings import KubeletSettings

Json = dict[str, object]
DEFAULT_NAMESPACE = "default"
# The option that gives each input.
OPTIONS = {
    LookupInput.POD: "--pod FILE",
    LookupInput.PULL_SECRET: "--secret FILE",
    LookupInput.DOCKER_CONFIG: "--docker-config FILE",
    LookupInput.SERVICE_ACCOUNT: "--pod FILE with the ServiceAccount after the Pod",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "--service-account-token FILE",
    LookupInput.IMAGES: "--images FILE or --cri SOCKET",
}


class Sources(Value):
    """The content of the files given on the command line, and the inputs that are missing from them."""

    pod: Pod | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    accounts: StaticAccount | None = None
    docker_config: str | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[MissingInput, ...] = ()

    @property
    def missing_secrets(self) -> tuple[MissingInput, ...]:
        """The pull secrets that the pod lists and that are not given."""
        return tuple(each for each in self.missing if each.input is LookupInput.PULL_SECRET)


def add_source_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the options for the sources other than providers."""
    group = parser.add_argument_group("sources of credentials other than the providers")
    group.add_argument(
        "--pod",
        metavar="FILE",
        help="the pod, as printed by 'kubectl get pod -o yaml'; Secrets and the ServiceAccount may follow in the file",
    )
    group.add_argument(
        "--secret",
        metavar="FILE",
        action="append",
        default=[],
        help="an image pull secret, as printed by 'kubectl get secret -o yaml'; may be repeated, in trial order",
    )
    group.add_argument(
        "--docker-config",
        metavar="FILE",
        help="the node's docker config.json; 'auto' searches the kubelet's locations",
    )
    group.add_argument(
        "--service-account",
        metavar="NS/NAME",
        help="the pod's service account, for providers that require its tokens",
    )
    group.add_argument(
        "--service-account-token",
        metavar="FILE",
        help="file with a token of that account, as printed by 'kubectl create token'",
    )


def read_sources(args: "argparse.Namespace") -> Sources:
    """Read the files that the options name; raise EnvironmentProblem or WrongUsage."""
    objects = [item for path in (args.pod, *args.secret) if path for item in read_objects(path)]
    pod = _pod(objects, args)
    names = _pull_secret_names(objects, pod)
    secrets, notes = _pull_secrets(objects, names, "" if pod is None else pod.namespace)
    account = _account(objects, pod, args)
    missing = (*_missing_secrets(secrets, names), *_missing_docker_config(args))
    return Sources(pod, secrets, account, _docker_config(args), notes, missing)


class ObjectKind(WordEnum):
    """The kinds of Kubernetes objects that are read from files."""

    POD = "Pod"
    SECRET = "Secret"  # noqa: S105 - the name of a kind
    SERVICE_ACCOUNT = "ServiceAccount"


class KubernetesObject(Value):
    """A Kubernetes object and the file that contains it."""

    file: str
    kind: ObjectKind
    value: Json

    def field(self, *path: str) -> object:
        """Return the value at *path*, or None."""
        found: object = self.value
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def text(self, *path: str) -> str:
        """Return the string at *path*, empty if there is none; raise EnvironmentProblem for any other type."""
        found = self.field(*path)
        if found is None or isinstance(found, str):
            return found or ""
        raise EnvironmentProblem(
            f"{self.file}: {format_path(path)}: expected a string, found {type(found).__name__}"
        )


def read_objects(path: str) -> "Iterator[KubernetesObject]":
    """Yield every Pod, Secret and ServiceAccount of a file, which has several documents or a List."""
    found = False
    for value in _documents(path):
        items = value.get("items") if str(value.get("kind", "")).endswith("List") else [value]
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.get("kind") in tuple(ObjectKind):
                found = True
                yield KubernetesObject(path, ObjectKind(item["kind"]), item)
    if not found:
        raise EnvironmentProblem(
            f"{path}: found no Pod, Secret or ServiceAccount; expected the output of 'kubectl get -o yaml'"
        )


def _documents(path: str) -> "Iterator[Json]":
    """Yield the documents of a file; ``---`` at the start of a line always begins a new one."""
    import re  # imported here: most commands are given no such file

    before = 0
    for chunk in re.split(rb"(?m)^---(?=\s|$)", read_file(path)):
        try:
            # Blank lines replace the documents before, so that positions are those of the file.
            value = read_document(b"\n" * before + chunk).value
        except DocumentError as error:
            raise EnvironmentProblem(f"{path}: {error}") from None
        before += chunk.count(b"\n")
        if isinstance(value, dict):
            yield value


def read_file(path: str) -> bytes:
    """Return the bytes of a file; raise EnvironmentProblem with its path if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read: {error.strerror}") from None


def _pod(objects: list[KubernetesObject], args: "argparse.Namespace") -> Pod | None:
    namespace, _, name = (args.service_account or "").rpartition("/")
    if args.service_account and not (namespace and name):
        raise WrongUsage(f"--service-account {args.service_account!r}: expected NAMESPACE/NAME")
    for item in objects:
        if item.kind is ObjectKind.POD:
            account = name or item.text("spec", "serviceAccountName") or "default"
            place = namespace or item.text("metadata", "namespace") or DEFAULT_NAMESPACE
            return Pod(place, item.text("metadata", "name"), item.text("metadata", "uid"), account)
    return Pod(namespace, "", "", name) if name else None


def _pull_secret_names(objects: list[KubernetesObject], pod: Pod | None) -> list[str] | None:
    """Return the names that the pod or else its account lists; None without a pod, when every given secret is used."""
    pods = [item for item in objects if item.kind is ObjectKind.POD]
    if not pods or pod is None:
        return None
    listed = pods[0].field("spec", "imagePullSecrets")
    if not listed:
        accounts = (
            each for each in objects if each.kind is ObjectKind.SERVICE_ACCOUNT and _is_account_of(each, pod)
        )
        listed = next((account.field("imagePullSecrets") for account in accounts), None)
    return [str(entry.get("name", "")) for entry in listed or () if isinstance(entry, dict)]  # type: ignore[attr-defined] # a list of references


def _pull_secrets(
    objects: list[KubernetesObject], names: list[str] | None, namespace: str
) -> tuple[tuple[PullSecret, ...], tuple[str, ...]]:
    """Return the secrets in the pod's order, and notes on those that it does not list or cannot read."""
    given = [_secret(item, namespace) for item in objects if item.kind is ObjectKind.SECRET]
    if names is None:
        return tuple(given), ()
    own = {secret.name: secret for secret in given if secret.namespace == namespace}
    notes = [
        f"secret {secret.name!r} is given, but {why}: the kubelet does not read it"
        for secret in given
        if (why := _why_unread(secret, names, namespace))
    ]
    return tuple(own[name] for name in names if name in own), tuple(notes)


def _why_unread(secret: PullSecret, names: list[str], namespace: str) -> str:
    if secret.name not in names:
        return "the pod does not list it"
    if secret.namespace != namespace:
        return f"its namespace is {secret.namespace!r} and the pod's is {namespace!r}"
    return ""


def _missing_secrets(secrets: tuple[PullSecret, ...], names: list[str] | None) -> "Iterator[MissingInput]":
    """Yield the secrets that the pod lists and that are not given; the pod itself without any pod or secret."""
    if names is None and not secrets:
        yield MissingInput(LookupInput.POD)
    given = {secret.name for secret in secrets}
    yield from (MissingInput(LookupInput.PULL_SECRET, name) for name in names or () if name not in given)


def _missing_docker_config(args: "argparse.Namespace") -> "Iterator[MissingInput]":
    """Yield the docker config in the kubelet's root if it exists and is not read, or cannot be seen."""
    if args.docker_config not in (None, "auto"):
        return
    # With both config and plugins given, the search for a kubelet among all processes is skipped.
    root = KUBELET_ROOT if args.config and args.bin_dir else _kubelet_root(args)
    for path, _ in node_config_candidates(root, "", ""):
        if not path.startswith(root):
            continue
        try:
            is_there = stat.S_ISREG(os.stat(path).st_mode)
        except PermissionError:
            yield MissingInput(
                LookupInput.DOCKER_CONFIG, path, "no permission to see whether it exists; try with sudo"
            )
            return
        except OSError:
            continue
        if is_there and args.docker_config is None:
            yield MissingInput(LookupInput.DOCKER_CONFIG, path)
            return


def _secret(item: KubernetesObject, namespace: str) -> PullSecret:
    """Return the secret; if it has no namespace, as in a manifest, it is in the pod's."""
    data: dict[str, bytes] = {}
    encoded = item.field("data")
    for key, value in encoded.items() if isinstance(encoded, dict) else ():
        data[str(key)] = _decode(value, item, str(key))
    literal = item.field("stringData")
    for key, value in literal.items() if isinstance(literal, dict) else ():
        data[str(key)] = str(value).encode()
    return PullSecret(
        item.text("metadata", "namespace") or namespace or DEFAULT_NAMESPACE,
        item.text("metadata", "name"),
        item.text("type"),
        data,
        item.text("metadata", "uid"),
    )


def _decode(value: object, item: KubernetesObject, key: str) -> bytes:
    try:
        from base64 import b64decode

        return b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise EnvironmentProblem(
        f"{item.file}: data[{key!r}] of secret {item.text('metadata', 'name')!r} is not base64"
    )


def _account(
    objects: list[KubernetesObject], pod: Pod | None, args: "argparse.Namespace"
) -> StaticAccount | None:
    path = args.service_account_token
    if pod is None:
        if path is not None:
            raise WrongUsage(
                "--service-account-token requires the token's account: add --service-account or --pod"
            )
        return None
    token = None if path is None else read_file(path).decode("utf-8", "replace").strip()
    for item in objects:
        if item.kind is ObjectKind.SERVICE_ACCOUNT and _is_account_of(item, pod):
            annotations = item.field("metadata", "annotations")
            found = {str(k): str(v) for k, v in annotations.items()} if isinstance(annotations, dict) else {}
            return StaticAccount(ServiceAccount(item.text("metadata", "uid"), found), token)
    return StaticAccount(ServiceAccount("", None), token)


def _is_account_of(item: KubernetesObject, pod: Pod) -> bool:
    place = item.text("metadata", "namespace") or pod.namespace
    return (place, item.text("metadata", "name")) == (pod.namespace, pod.service_account_name)


def _docker_config(args: "argparse.Namespace") -> str | None:
    option: str | None = args.docker_config
    if option != "auto":
        return option
    home = os.environ.get("HOME", "")
    for path, _ in node_config_candidates(_kubelet_root(args), os.getcwd(), home):
        if os.path.isfile(path):
            return path
    return None


def _kubelet_root(args: "argparse.Namespace") -> str:
    settings: KubeletSettings | None = args.node.settings
    return KUBELET_ROOT if settings is None else settings.kubelet.inside(settings.root_dir.value)
