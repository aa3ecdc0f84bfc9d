"""Sources of credentials that are given as files: a pod, its pull secrets, its service account and token."""

from keyferry._core.values import Value
from keyferry.cli.frame.commands import WrongUsage
from keyferry.errors import EnvironmentProblem
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.accounts import Pod, ServiceAccount, StaticAccount
from keyferry.workloads.objects import KubernetesObject, ObjectKind, read_file, read_objects
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.secrets import (
    UnusedSecret,
    choose_secrets,
    find_late_secrets,
    read_secret,
    secret_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from keyferry.images.provider.accounts import ServiceAccounts
    from keyferry.workloads.live import LiveWorkload

TOKEN_FILE = "--service-account-token FILE"  # noqa: S105 - an option
# The option that gives each input; the one for the pod depends on the command.
OPTIONS = {
    LookupInput.POD: "{pod} FILE with the pod, or explain pod/NAME",
    LookupInput.PULL_SECRET: "--secret FILE",
    LookupInput.DOCKER_CONFIG: "--docker-config FILE",
    LookupInput.SERVICE_ACCOUNT: "{pod} FILE with the ServiceAccount after the Pod",
    LookupInput.SERVICE_ACCOUNT_TOKEN: f"--request-token, or {TOKEN_FILE}",
    LookupInput.IMAGES: "--images FILE or --cri SOCKET",
    LookupInput.NODE: "--config FILE and --bin-dir DIR of the node, or --here if this machine is the node",
    LookupInput.PLUGIN: "--bin-dir DIR with the plugin, without --no-run",
}
_FILES = "-f FILE"


class Sources(Value):
    """The pod and the other sources of credentials, and the inputs that are missing.

    *unused* are pull secrets that the kubelet does not use for the pod although they are meant to be. *node_name* is
    the node of the pod, empty for a pod that is on no node, and None without a pod.
    """

    pod: Pod | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    accounts: "ServiceAccounts | None" = None
    docker_config: str | None = None
    notes: tuple[str, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    missing: tuple[MissingInput, ...] = ()
    node_name: str | None = None

    @property
    def missing_secrets(self) -> tuple[MissingInput, ...]:
        """The pull secrets that the pod lists and that are not given."""
        return tuple(each for each in self.missing if each.input is LookupInput.PULL_SECRET)


def add_source_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the options for the sources other than providers."""
    group = parser.add_argument_group("sources of credentials other than the providers")
    group.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="the pod, or a workload with its pod template, as printed by 'kubectl get -o yaml'; Secrets and the "
        "ServiceAccount may follow in the file; '-' reads standard input",
    )
    group.add_argument("--pod", metavar="FILE", help="deprecated: the same as -f")
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
        help="the node's docker config.json; 'auto' searches the locations of the running kubelet",
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


def read_given_objects(args: "argparse.Namespace") -> list[KubernetesObject]:
    """Return the objects of all files that the options name; raise EnvironmentProblem or WrongUsage."""
    if args.filename and args.pod:
        raise WrongUsage("--pod is the same as -f: give one of them")
    path = args.filename or args.pod
    main = list(read_objects(path)) if path else []
    if path and not any(each.kind.is_workload for each in main):
        raise EnvironmentProblem(
            f"{main[0].origin}: found no Pod and no workload; expected one, and secrets with --secret"
        )
    return [*main, *(item for each in args.secret for item in read_objects(each))]


def read_sources(args: "argparse.Namespace") -> Sources:
    """Read the files that the options name; raise EnvironmentProblem or WrongUsage."""
    objects = read_given_objects(args)
    workload = next((each for each in objects if each.kind.is_workload), None)
    return sources_of(args, objects, None if workload is None else read_pod(workload))


def sources_of(
    args: "argparse.Namespace", objects: "Sequence[KubernetesObject]", workload: WorkloadPod | None
) -> Sources:
    """Return the sources for one pod out of *objects*; raise EnvironmentProblem or WrongUsage."""
    pod = _pod(workload, args)
    namespace = "" if pod is None else pod.namespace
    given = [read_secret(item, namespace) for item in objects if item.kind is ObjectKind.SECRET]
    account = None if pod is None else _account_object(objects, pod)
    names = None if workload is None else secret_names(workload, account)
    chosen = choose_secrets(given, names, namespace)
    unknown = (MissingInput(LookupInput.POD),) if workload is None and not chosen.used else ()
    return Sources(
        pod,
        chosen.used,
        _accounts(account, pod, args),
        unused=(*find_late_secrets(workload, account), *chosen.unused),
        missing=(*unknown, *chosen.missing),
        node_name=None if workload is None else workload.node_name,
    )


def live_sources(args: "argparse.Namespace", live: "LiveWorkload") -> Sources:
    """Return the sources for a pod of a cluster, with the secrets of ``--secret`` for those that cannot be read."""
    pod = live.pod.pod
    files = [item for path in args.secret for item in read_objects(path)]
    found = [*live.secrets, *(each for each in files if each.kind is ObjectKind.SECRET)]
    given = [read_secret(item, pod.namespace) for item in found]
    names = secret_names(live.pod, live.account)
    chosen = choose_secrets(given, names, pod.namespace, live.refused)
    return Sources(
        pod,
        chosen.used,
        _accounts(live.account, pod, args),
        notes=live.notes,
        unused=(*find_late_secrets(live.pod, live.account), *chosen.unused),
        missing=chosen.missing,
        node_name=live.pod.node_name,
    )


def _pod(workload: WorkloadPod | None, args: "argparse.Namespace") -> Pod | None:
    namespace, _, name = (args.service_account or "").rpartition("/")
    if args.service_account and not (namespace and name):
        raise WrongUsage(f"--service-account {args.service_account!r}: expected NAMESPACE/NAME")
    if workload is None:
        return Pod(namespace, "", "", name) if name else None
    pod = workload.pod
    return Pod(namespace, pod.name, pod.uid, name) if name else pod


def _account_object(objects: "Sequence[KubernetesObject]", pod: Pod) -> KubernetesObject | None:
    accounts = (each for each in objects if each.kind is ObjectKind.SERVICE_ACCOUNT)
    return next((each for each in accounts if _is_account_of(each, pod)), None)


def _accounts(
    item: KubernetesObject | None, pod: Pod | None, args: "argparse.Namespace"
) -> "ServiceAccounts | None":
    path = args.service_account_token
    if pod is None:
        if path is not None:
            raise WrongUsage(
                f"--service-account-token requires the token's account: add --service-account or {_FILES}"
            )
        return None
    account = ServiceAccount("", None)
    if item is not None:
        annotations = item.field("metadata", "annotations")
        found = {str(k): str(v) for k, v in annotations.items()} if isinstance(annotations, dict) else {}
        account = ServiceAccount(item.uid, found)
    return StaticAccount(account, None if path is None else _read_token(path))


def _read_token(path: str) -> str:
    """Return the token in a file; raise EnvironmentProblem if it holds anything that no token contains."""
    token = read_file(path).decode("utf-8", "replace").strip()
    if all("!" <= each <= "~" for each in token):
        return token
    raise EnvironmentProblem(
        f"{path}: is not a token; expected one line, as printed by 'kubectl create token'"
    )


def _is_account_of(item: KubernetesObject, pod: Pod) -> bool:
    place = item.text("metadata", "namespace") or pod.namespace
    return (place, item.name) == (pod.namespace, pod.service_account_name)


def deprecation_notes(args: "argparse.Namespace") -> "Iterator[str]":
    """Yield a note for each option that has a new name."""
    if args.pod:
        yield f"--pod is deprecated; use {_FILES}"
