"""Sources of credentials other than providers: their options, and what the options give."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry._core.values import Value
from keyferry.images.answer import ACCOUNT_INPUTS, LookupInput, MissingInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.dockerconfig import PullSecret
    from keyferry.images.provider.accounts import Pod, ServiceAccounts
    from keyferry.workloads.objects import Change
    from keyferry.workloads.secrets import UnusedSecret

# The option that gives each input.
_OPTIONS = {
    LookupInput.POD: "-f FILE with the pod, or explain pod/NAME",
    LookupInput.PULL_SECRET: "--secret FILE",
    LookupInput.ACCOUNT_SECRETS: "-f FILE with the ServiceAccount after the Pod",
    LookupInput.DOCKER_CONFIG: "--docker-config FILE",
    LookupInput.SERVICE_ACCOUNT: "-f FILE with the ServiceAccount after the Pod",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "--request-token, or --service-account-token FILE",
    LookupInput.IMAGES: "--images FILE or --cri SOCKET",
    LookupInput.NODE: "--config FILE and --bin-dir DIR of the node, or --here if this machine is the node",
    LookupInput.PLUGIN: "--bin-dir DIR with the plugin",
}
FILES = "-f FILE"
_SECRET_INPUTS = (LookupInput.PULL_SECRET, LookupInput.ACCOUNT_SECRETS)


def advice(missing: LookupInput, args: argparse.Namespace) -> str:
    """Return what to do about a missing input: an option that *args* do not have yet."""
    if missing in ACCOUNT_INPUTS and args.is_live:
        return "use a context whose user may get serviceaccounts there"
    if missing is LookupInput.SERVICE_ACCOUNT_TOKEN and args.request_token:
        return "add --service-account-token FILE"
    if missing is LookupInput.PLUGIN and args.no_run:
        return "leave out --no-run" if args.bin_dir else "add --bin-dir DIR with the plugin, without --no-run"
    image = vars(args).get("image") or ""
    if missing is LookupInput.POD and image.replace("-", "").isalnum():
        # The name of a pod is an image of Docker Hub, too.
        where = ("-n", args.namespace) if args.namespace else ()
        command = shlex.join(("keyferry", "explain", f"pod/{image}", *where))
        return f"add -f FILE with the pod; if {image!r} is a pod, try: {command}"
    return f"add {_OPTIONS[missing]}"


class Sources(Value):
    """The pod and the other sources of credentials, and the inputs that are missing.

    *docker_config_from* says how the node's docker config was found. *unused* are secrets that the kubelet takes no
    login from. *node_name* is the node of the pod, empty for a pod that is on no node, and None without a pod.
    *account_secrets* are the pull secrets that its service account lists, None if they are not known. *changes* are
    the last changes of its secrets, and *account_changed_at* is that of its account.
    *token_audiences* are those of the tokens in the pod's volumes.
    """

    pod: Pod | None = None
    pull_secrets: tuple[PullSecret, ...] = ()
    accounts: ServiceAccounts | None = None
    docker_config: str | None = None
    docker_config_from: str = "given"
    notes: tuple[str, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    missing: tuple[MissingInput, ...] = ()
    node_name: str | None = None
    account_secrets: tuple[str, ...] | None = None
    changes: tuple[Change, ...] = ()
    account_changed_at: float | None = None
    token_audiences: tuple[str, ...] = ()

    @property
    def unreadable(self) -> UnusedSecret | None:
        """The first pull secret whose content cannot be read; the kubelet's whole lookup fails then."""
        return next((each for each in self.unused if each.error is not None), None)

    @property
    def missing_secrets(self) -> tuple[MissingInput, ...]:
        """The pull secrets that are not given, and the account's list of them if it decides and is not known."""
        return tuple(each for each in self.missing if each.input in _SECRET_INPUTS)


def add_namespace_argument(parser: argparse.ArgumentParser, text: str = "") -> None:
    """Declare the namespace; *text* says what else has it."""
    help_text = f"the namespace of {text}objects in files that have none (default: default)"
    parser.add_argument("-n", "--namespace", metavar="NAME", help=help_text)


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the sources other than providers."""
    parser.set_defaults(is_live=False)
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


def deprecation_notes(args: argparse.Namespace) -> Iterator[str]:
    """Yield a note for each option that has a new name."""
    if args.pod:
        yield f"--pod is deprecated; use {FILES}"
