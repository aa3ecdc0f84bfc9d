"""The contexts of the kubeconfig: cluster, server, user and authentication mechanism."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_url
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster
from keyferry.cli.exits import Exit
from keyferry.cli.options import add_kubeconfig_argument, add_output_argument
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, load_kubeconfig
from keyferry.clusters.why.mechanism import find_mechanism
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
List the contexts of the kubeconfig, with all files of KUBECONFIG merged as kubectl merges them: the cluster
and server, the user and its authentication mechanism (exec NAME, token, token file, certificate, basic or
none), and the file that defines the context. No plugin is run and no server is contacted."""

EXAMPLES = """\
examples:
  keyferry kube contexts
  keyferry kube contexts -o wide
  keyferry kube contexts -o name
  keyferry kube contexts -o json | jq -r '.contexts[] | select(.current).server'"""

FORMATS = ("table", "wide", "name", "json", "yaml")
_TABLE = ("CURRENT", "NAME", "CLUSTER", "SERVER", "USER", "MECHANISM", "FILE")
_WIDE = (*_TABLE, "NAMESPACE", "COMMAND", "USER FILE", "CLUSTER FILE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube contexts``."""
    add_output_argument(parser, FORMATS)
    add_kubeconfig_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the contexts."""
    loaded = load_kubeconfig(args.kubeconfig)
    rows = _rows(loaded)
    if args.output in ("json", "yaml"):
        document = make_document("ContextList", contexts=rows)
        print(render_document(document, args.output))
    elif args.output == "name":
        for row in rows:
            print(row["name"])
    elif rows:
        header = _WIDE if args.output == "wide" else _TABLE
        print(fitting_table(header, [_cells(row, header) for row in rows]))
    if rows:
        return Exit.OK
    report(f"no contexts: {_why_none(loaded)}")
    return Exit.NO if loaded.files else Exit.ENVIRONMENT


def _rows(loaded: LoadedKubeconfig) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, context in sorted(loaded.config.contexts.items()):
        cluster = loaded.config.clusters.get(context.cluster, Cluster())
        user = loaded.config.users.get(context.user, AuthInfo())
        rows.append(
            {
                "name": name,
                "current": name == loaded.config.current_context,
                "cluster": context.cluster,
                "server": hide_in_url(cluster.server),
                "user": context.user,
                "namespace": context.namespace,
                "mechanism": str(find_mechanism(user, cluster.server)),
                "command": user.exec.command if user.exec is not None else "",
                "file": context.origin,
                "userFile": user.origin,
                "clusterFile": cluster.origin,
            }
        )
    return rows


def _cells(row: dict[str, object], header: tuple[str, ...]) -> list[str]:
    names = {"USER FILE": "userFile", "CLUSTER FILE": "clusterFile"}
    cells = ["*" if row["current"] else ""]
    return cells + [str(row[names.get(title, title.lower())]) for title in header[1:]]


def _why_none(loaded: LoadedKubeconfig) -> str:
    if loaded.files:
        return f"{', '.join(file.path for file in loaded.files)} has none"
    return f"found no {' or '.join(loaded.paths) or 'kubeconfig'}"
