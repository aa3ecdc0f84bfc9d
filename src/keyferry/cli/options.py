"""Options that several commands share: output, config, plugins, the node agent, clusters; and their types."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession


def add_config_arguments(parser: ArgumentParser) -> None:
    """Declare the options that locate the provider config and the plugins."""
    from keyferry.images.node.settings import Node

    parser.set_defaults(node=Node())
    group = parser.add_argument_group("location of the config")
    group.add_argument(
        "--config",
        "--image-credential-provider-config",
        metavar="PATH",
        help="provider config, a file or a directory (default: KEYFERRY_CONFIG, else the node's own)",
    )
    group.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help="directory of the plugins (default: KEYFERRY_BIN_DIR, else the node's own)",
    )


def add_output_argument(parser: ArgumentParser, formats: tuple[str, ...]) -> None:
    """Declare the output format; the first of *formats* is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=formats[0],
        metavar="FORMAT",
        help=f"one of {', '.join(formats)} (default: {formats[0]})",
    )


def add_run_arguments(parser: ArgumentParser) -> None:
    """Declare the options for running plugins."""
    group = parser.add_argument_group("advanced: running plugins")
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one plugin run (default: 60, as in the kubelet)",
    )
    group.add_argument(
        "--withhold-env",
        action="append",
        default=[],
        metavar="NAME",
        help="environment variable that is not passed to plugins; may be repeated",
    )
    group.add_argument(
        "--env-from",
        choices=("kubelet", "self"),
        metavar="WHOM",
        help="environment of the plugins: kubelet, or self for that of this process "
        "(default: kubelet if one is running, unless --config and --bin-dir are both given)",
    )


def add_agent_argument(parser: ArgumentParser) -> None:
    """Declare the node agent that is asked before a plugin is run."""
    group = parser.add_argument_group("advanced: node agent")
    group.add_argument(
        "--agent",
        type=parse_agent,
        metavar="WHICH",
        help="ask this agent before a plugin is run: auto, off, or its socket; what it has for another config is not "
        "used (default: KEYFERRY_AGENT, else auto)",
    )


def parse_agent(text: str) -> str:
    """Return *text* if it is ``auto``, ``off`` or the path of a socket; raise ArgumentTypeError if not."""
    from keyferry.images.provider.agent import check_agent

    try:
        return check_agent(text)
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text!r} is neither auto nor off nor the absolute path of a socket")


def parse_seconds(text: str) -> float:
    """Return the number of seconds in *text*; raise ArgumentTypeError if it is not between 0 and a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:  # a day
        raise ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 86400")
    return seconds


def add_kubeconfig_argument(parser: ArgumentParser) -> _ArgumentGroup:
    """Declare the kubeconfig; return the group of its option."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig", metavar="PATH", help="the kubeconfig (default: KUBECONFIG, else ~/.kube/config)"
    )
    return group


def add_context_arguments(parser: ArgumentParser) -> _ArgumentGroup:
    """Declare the kubeconfig and the context, with kubectl's option names; return the group of the advanced ones."""
    group = add_kubeconfig_argument(parser)
    group.add_argument("--context", metavar="NAME", help="the context (default: the current one)")
    advanced = parser.add_argument_group("advanced: connection")
    advanced.add_argument("--cluster", metavar="NAME", help="use this cluster instead of the context's")
    advanced.add_argument("--user", metavar="NAME", help="use this user instead of the context's")
    advanced.add_argument(
        "--proxy-url",
        type=_proxy_url,
        metavar="URL",
        help="connect through this http:// or https:// proxy instead of the cluster's proxy-url",
    )
    return advanced


def _proxy_url(text: str) -> str:
    """Return the URL of a proxy; errors do not quote it, since it may contain a password."""
    from keyferry._net.errors import UrlError
    from keyferry._net.proxy import parse_proxy

    try:
        parse_proxy(text, "--proxy-url")
    except UrlError as error:
        problem = f"{error.problem}; {error.hint}"
        raise ArgumentTypeError(problem) from None
    return text


def add_session_arguments(parser: ArgumentParser) -> None:
    """Declare the context, and how its plugin is run."""
    group = add_context_arguments(parser)
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


def open_session(args: Namespace) -> ClusterSession:
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
