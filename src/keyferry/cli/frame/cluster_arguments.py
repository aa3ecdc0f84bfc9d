"""Code that the commands about clusters share: arguments that select a context, and a session for it."""

from __future__ import annotations

import os
import shlex

from keyferry.cli.frame.arguments import parse_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.clusters.kubeconfig.resolve import ClientConfig
    from keyferry.clusters.session import ClusterSession
    from keyferry.errors import ConfigError


def add_kubeconfig_argument(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the kubeconfig; return the group of its option."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig", metavar="PATH", help="the kubeconfig (default: KUBECONFIG, else ~/.kube/config)"
    )
    return group


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kubeconfig and the context, with kubectl's option names."""
    group = add_kubeconfig_argument(parser)
    group.add_argument("--context", metavar="NAME", help="the context (default: the current one)")
    group.add_argument("--cluster", metavar="NAME", help="use this cluster instead of the context's")
    group.add_argument("--user", metavar="NAME", help="use this user instead of the context's")
    group.add_argument(
        "--proxy-url",
        type=_proxy_url,
        metavar="URL",
        help="connect through this http:// or https:// proxy instead of the cluster's proxy-url",
    )


def _proxy_url(text: str) -> str:
    """Return the URL of a proxy; errors do not quote it, since it may contain a password."""
    from keyferry._net.errors import UrlError
    from keyferry._net.proxy import parse_proxy

    try:
        parse_proxy(text, "--proxy-url")
    except UrlError as error:
        from argparse import ArgumentTypeError

        problem = f"{error.problem}; {error.hint}"
        raise ArgumentTypeError(problem) from None
    return text


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the context, and how its plugin is run."""
    add_context_arguments(parser)
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--trust",
        action="store_true",
        help="use the kubeconfig even if another user could have written it",
    )
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of the plugin, and of the server's response (default: 60)",
    )


def open_session(args: argparse.Namespace) -> ClusterSession:
    """Return a session for the context of the command line."""
    from keyferry.clusters.session import load_cluster

    return load_cluster(
        args.context,
        kubeconfig=args.kubeconfig,
        cluster=args.cluster,
        user=args.user,
        # The commands about images choose a context, too, and have no such option.
        proxy_url=vars(args).get("proxy_url"),
        trust=args.trust,
        timeout_seconds=args.timeout,
    )


def resolve_context(args: argparse.Namespace) -> ClientConfig:
    """Return the context of the command line, without running a plugin."""
    from keyferry.clusters.kubeconfig.choose import Overrides
    from keyferry.clusters.kubeconfig.files import load_kubeconfig
    from keyferry.clusters.kubeconfig.resolve import resolve

    overrides = Overrides(
        context=args.context or "",
        cluster=args.cluster or "",
        user=args.user or "",
        proxy_url=args.proxy_url or "",
    )
    return resolve(load_kubeconfig(args.kubeconfig), overrides)


def _has_contexts(args: argparse.Namespace) -> bool:
    """Return whether there are contexts to list; an error about no kubeconfig says itself how to give one."""
    from keyferry.clusters.kubeconfig.files import load_kubeconfig

    return bool(load_kubeconfig(vars(args).get("kubeconfig")).config.contexts)


def kubeconfig_hint(error: ConfigError, args: argparse.Namespace) -> str:
    """Return what to try next after an error of a kubeconfig or kuberc."""
    from keyferry.cli.frame.paste import command_line
    from keyferry.invoke.kuberc import find_kuberc

    contexts = f"to list the contexts, try: {command_line(args, 'kube contexts')}"
    files = sorted({problem.file for problem in error.problems if problem.file})
    if not files:
        return contexts if _has_contexts(args) else ""
    is_kuberc = files == [find_kuberc()[0]]
    if any(map(os.path.exists, files)):
        step = f"to check the file, try: {shlex.join(('keyferry', 'lint', *files))}"
    else:
        step = f"looked for {', '.join(map(os.path.abspath, files))}"
        step += "" if is_kuberc else "; give another one with --kubeconfig or KUBECONFIG"
    if is_kuberc:
        return f"this file is kubectl's kuberc, which may restrict plugins; KUBERC=off ignores it; {step}"
    return step
