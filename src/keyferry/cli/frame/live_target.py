"""A pod or workload of a cluster that the command line names, and the sources of credentials for it."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_url
from keyferry.cli.exits import WrongUsage
from keyferry.cli.frame.source_files import accounts_of, changes_of, choose_for_pod, read_secret_file
from keyferry.cli.frame.sources import Sources
from keyferry.cli.frame.waiting import Waiting
from keyferry.cli.options import open_session
from keyferry.clusters.api_calls import ApiProblem
from keyferry.errors import EnvironmentProblem, Kind
from keyferry.workloads.live import LiveWorkload, fetch_workload
from keyferry.workloads.objects import ObjectKind
from keyferry.workloads.pods import DEFAULT_NAMESPACE
from keyferry.workloads.secrets import find_late_secrets, listed_by_account, read_secret
from keyferry.workloads.targets import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

__all__ = ["live_sources", "read_target"]


def read_target(args: argparse.Namespace, target: Target) -> LiveWorkload | ApiProblem:
    """Return the pod or workload with what its pulls depend on, or why it cannot be read; ``args`` become live.

    Raise EnvironmentProblem if it does not exist, WrongUsage if a file is given too, and ClusterAuthError.
    """
    if args.filename or args.pod:
        raise WrongUsage(f"{target} is an object of a cluster, and -f is for files: give one of them")
    session = open_session(args)
    namespace = args.namespace or session.namespace or DEFAULT_NAMESPACE
    with Waiting(
        f"reading {target} of namespace {namespace} from {hide_in_url(session.server)}", args.timeout
    ):
        live = fetch_workload(session, target, namespace, timeout_seconds=args.timeout)
    if isinstance(live, ApiProblem) and live.kind is Kind.NOT_FOUND:
        # As for a file that does not exist: there is nothing to give an answer about.
        raise EnvironmentProblem(
            f"there is no {target.kind.lower()} {target.name!r} in namespace {namespace!r}; for the image of that "
            f"name, write docker.io/{args.image}"
        )
    args.is_live = True
    return live


def live_sources(args: argparse.Namespace, live: LiveWorkload) -> Sources:
    """Return the sources for a pod of a cluster, with the secrets of ``--secret`` for those that cannot be read."""
    pod = live.pod.pod
    files = [item for path in args.secret for item in read_secret_file(path)]
    found = [*live.secrets, *(each for each in files if each.kind is ObjectKind.SECRET)]
    given = [read_secret(item, pod.namespace) for item in found]
    chosen = choose_for_pod(
        given, live.pod, live.account, owner=pod, problem=live.account_problem, refused=live.refused
    )
    return Sources(
        pod=pod,
        pull_secrets=chosen.used,
        accounts=accounts_of(live.account, pod, args),
        notes=live.notes,
        unused=(*find_late_secrets(live.pod, live.account), *chosen.unused),
        missing=chosen.missing,
        node_name=live.pod.node_name,
        token_audiences=live.pod.token_audiences,
        account_secrets=None if live.account is None else listed_by_account(live.account),
        changes=tuple(changes_of(found, chosen)),
        account_changed_at=None if live.account is None else live.account.changed_at,
    )
