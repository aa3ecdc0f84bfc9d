"""Options that several commands share: output, config, plugins, the node agent, clusters; and their types."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup

from keyferry.clusters.options import ClusterOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession

_MAX_DIGITS = 12


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


def add_host_root_argument(parser: ArgumentParser) -> None:
    """Declare the root of the node's files; ``run_command`` makes it count."""
    parser.add_argument(
        "--host-root",
        type=parse_text,
        metavar="DIR",
        help="the node's files are below DIR, as in a debug container that has the root of its host there; other paths "
        "are the node's own, and plugins run with DIR as their root, which needs root",
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


def parse_text(text: str) -> str:
    """Return *text*; raise ArgumentTypeError if it is empty, as an unset variable of a shell is."""
    if not text.strip():
        raise ArgumentTypeError("expected a value that is not empty")
    return text


def parse_count(text: str) -> int:
    """Return the number in *text*; raise ArgumentTypeError if it is not one of at least 1."""
    if text.isascii() and text.isdigit() and int(text[:_MAX_DIGITS]) > 0:
        return int(text[:_MAX_DIGITS])
    raise ArgumentTypeError(f"{text!r} is not a number of at least 1")


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


def add_context_arguments(parser: ArgumentParser) -> tuple[_ArgumentGroup, _ArgumentGroup]:
    """Declare kubectl's global flags, under its names; return their group, and that of the advanced ones."""
    group = add_kubeconfig_argument(parser)
    group.add_argument("--context", metavar="NAME", help="the context (default: the current one)")
    advanced = parser.add_argument_group("advanced: connection, as in kubectl")
    advanced.add_argument("--cluster", metavar="NAME", help="use this cluster instead of the context's")
    advanced.add_argument("--user", metavar="NAME", help="use this user instead of the context's")
    advanced.add_argument("-s", "--server", metavar="URL", help="the server, instead of the cluster's")
    advanced.add_argument(
        "--certificate-authority",
        metavar="FILE",
        help="PEM file of the authorities that the server's certificate is checked with, instead of the cluster's",
    )
    advanced.add_argument(
        "--tls-server-name",
        metavar="NAME",
        help="the name that the server's certificate must have (default: that of the cluster; with --server, its host)",
    )
    advanced.add_argument(
        "--insecure-skip-tls-verify",
        dest="insecure",
        action="store_true",
        help="accept any certificate of the server",
    )
    advanced.add_argument(
        "--token", metavar="TOKEN", help="a bearer token for the server; the user's plugin is then not run"
    )
    advanced.add_argument("--as", dest="impersonate", metavar="USER", help="act as this user")
    advanced.add_argument(
        "--as-group",
        dest="impersonate_groups",
        action="append",
        default=[],
        metavar="GROUP",
        help="act as a member of this group; may be repeated",
    )
    advanced.add_argument(
        "--as-uid", dest="impersonate_uid", metavar="UID", help="act as the user with this UID"
    )
    advanced.add_argument(
        "--request-timeout",
        dest="request_timeout_seconds",
        type=parse_request_timeout,
        metavar="TIME",
        help="time limit of each request to the server, in seconds or with a unit, such as 5s or 2m; 0 means none "
        "(default: that of --timeout)",
    )
    advanced.add_argument(
        "--proxy-url",
        type=_proxy_url,
        metavar="URL",
        help="connect through this http:// or https:// proxy instead of the cluster's proxy-url",
    )
    return group, advanced


def add_namespace_argument(group: _ArgumentGroup) -> None:
    """Declare the namespace, of commands that have none of their own."""
    group.add_argument(
        "-n", "--namespace", metavar="NAME", help="use this namespace instead of the context's"
    )


def parse_request_timeout(text: str) -> float:
    """Return the seconds in *text*, which is a number or a duration such as ``2m``; raise ArgumentTypeError."""
    from keyferry.api.meta import parse_duration
    from keyferry.errors import DurationError

    seconds = -1.0
    try:
        seconds = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else parse_duration(text) / 1e9
    except DurationError:
        pass
    if seconds < 0:
        expected = "expected seconds, or a number with a unit such as 5s, 2m or 1h; 0 means no limit"
        raise ArgumentTypeError(f"{text!r} is not a time limit: {expected}")
    return seconds


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
    group, advanced = add_context_arguments(parser)
    add_namespace_argument(group)
    advanced.add_argument(
        "--trust",
        action="store_true",
        help="use the kubeconfig even if another user could have written it",
    )
    advanced.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of the plugin, and of the server's response (default: 60)",
    )


def cluster_options(args: Namespace) -> ClusterOptions:
    """Return the options of ``add_context_arguments``."""
    given = vars(args)
    return ClusterOptions(
        context=args.context or "",
        kubeconfig=args.kubeconfig,
        cluster=args.cluster or "",
        user=args.user or "",
        namespace=given.get("namespace") or "",
        server=args.server or "",
        tls_server_name=args.tls_server_name or "",
        certificate_authority=args.certificate_authority or "",
        insecure=args.insecure,
        token=args.token or "",
        impersonate=args.impersonate or "",
        impersonate_groups=tuple(args.impersonate_groups),
        impersonate_uid=args.impersonate_uid or "",
        proxy_url=args.proxy_url or "",
        request_timeout_seconds=args.request_timeout_seconds,
        # The commands about images have no such option.
        trust=given.get("trust", False),
    )


def open_session(args: Namespace) -> ClusterSession:
    """Return a session for the context of the command line."""
    from keyferry.clusters.session import open_cluster

    return open_cluster(cluster_options(args), timeout_seconds=args.timeout)
