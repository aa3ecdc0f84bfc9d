"""``keyferry bridge``: connect the kubelet and docker's tools to the node agent, and disconnect them."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry._core.secrets import printable
from keyferry.bridge import docker_config
from keyferry.bridge.docker_login import parse_server
from keyferry.bridge.file_change import FileChange, apply_change
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_config_arguments, add_output_argument
from keyferry.cli.run import Command, Entry, add_subcommand, run_subcommand
from keyferry.errors import KeyferryError
from keyferry.images.config.read import read_config
from keyferry.images.node.discover import discover
from keyferry.images.registries import exact_registries
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import table
from keyferry.show.writer import Lines, report

DESCRIPTION = """\
Connect other programs of a node to the node agent, and disconnect them. Everything still works when the agent
is down: what is installed then does the work without it.

  kubelet  put a shim in front of a plugin, or beside the plugins, in the kubelet's folder
  docker   let docker, podman and other tools use docker-credential-keyferry

'keyferry bridge SUBCOMMAND --help' shows the options of each."""

EXAMPLES = """\
examples:
  sudo keyferry bridge kubelet install --in-front-of ecr-credential-provider
  sudo keyferry bridge kubelet status
  sudo keyferry bridge kubelet uninstall ecr-credential-provider
  keyferry bridge docker install 123456789012.dkr.ecr.eu-west-1.amazonaws.com"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: Namespace) -> int:
    """Run one subcommand; report its errors without a hint."""
    return run_subcommand(args, SUBCOMMANDS)


def _add_docker_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "uninstall", "status"), help="what to do")
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="a registry, such as registry.example:5000")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    parser.add_argument(
        "--containers",
        action="store_true",
        help="every registry of podman, skopeo and buildah, not docker's config",
    )
    parser.add_argument(
        "--docker-config",
        metavar="FILE",
        help="docker's config (default: in DOCKER_CONFIG, else in ~/.docker)",
    )
    parser.add_argument(
        "--registries-dir",
        metavar="DIR",
        help="the registries.conf.d (default: the system's for root, else the user's)",
    )
    add_output_argument(parser, ("table", "json", "yaml"))
    add_config_arguments(parser)


def _run_docker(args: Namespace) -> int:
    if args.containers and args.hosts:
        raise WrongUsage("--containers is for every registry; give no HOST")
    if args.action == "status":
        return _status(args)
    return _change(_plan_containers(args) if args.containers else _plan_docker(args), is_dry=args.dry_run)


def _plan_containers(args: Namespace) -> FileChange:
    folder = args.registries_dir or docker_config.registries_folder(os.environ)
    if args.action == "install":
        return docker_config.plan_containers_install(folder)
    return docker_config.plan_containers_uninstall(folder)


def _plan_docker(args: Namespace) -> FileChange:
    path = args.docker_config or docker_config.docker_config_path(os.environ)
    hosts = _hosts(args.hosts)
    if args.action == "uninstall":
        return docker_config.plan_docker_uninstall(path, hosts)
    return docker_config.plan_docker_install(path, hosts or _configured(args))


def _hosts(given: list[str]) -> list[str]:
    """Return the keys under which docker's tools look for hosts; raise WrongUsage."""
    hosts = []
    for text in given:
        server = parse_server(text)
        if server is None or server.path:
            raise WrongUsage(f"{text!r} is not a registry; expected a host such as registry.example:5000")
        # docker's tools look for Docker Hub under its URL, those of containers under its name; for other registries
        # all look for the host as the image has it, with a default port if the image has one.
        hosts += [LOGIN_URL, HUB] if server.hosts == (HUB,) else [server.hosts[0]]
    return hosts


def _configured(args: Namespace) -> list[str]:
    found = discover(args.config, args.bin_dir, node=args.node, needs_bin_dir=False)
    hosts = _hosts(list(exact_registries(read_config(found.config).providers)))
    if not hosts:
        raise WrongUsage(
            "the provider config names no registry exactly; name the registries: install HOST ..."
        )
    return hosts


def _change(change: FileChange, *, is_dry: bool) -> int:
    report(*change.notes)
    if change.before == change.after:
        report(f"nothing to change in {change.path}")
        return Exit.OK
    print(Lines(printable(change.diff, "\n\t")), end="")
    if not is_dry:
        apply_change(change)
    return Exit.OK


def _status(args: Namespace) -> int:
    path = args.docker_config or docker_config.docker_config_path(os.environ)
    folder = args.registries_dir or docker_config.registries_folder(os.environ)
    rows = [(host, path) for host in docker_config.helped_hosts(path)]
    try:
        if docker_config.plan_containers_uninstall(folder).before is not None:
            rows.append(("*", os.path.join(folder, docker_config.DROP_IN)))
    except KeyferryError as error:
        report(error)
    if args.output != "table":
        registries = [{"registry": registry, "file": file} for registry, file in rows]
        print(render_document(make_document("HelpedRegistryList", registries=registries), args.output))
    elif rows:
        print(table(("REGISTRY", "FILE"), rows))
    if rows:
        return Exit.OK
    report("no tool uses docker-credential-keyferry")
    return Exit.NO


_DOCKER = Command(
    summary="let docker's tools use docker-credential-keyferry",
    description="""\
Let docker's tools get the credentials of the node's plugins from docker-credential-keyferry, which has to be on
their PATH.

  install    add the helper to docker's config for each HOST; without a HOST, for those that the provider
             config names exactly
  uninstall  remove it, for each HOST or for all
  status     list the hosts with the helper; * means every registry

docker, podman, skopeo, buildah, crane and others read docker's config. A host that has another helper keeps it,
and a credsStore is never changed. With --containers, podman, skopeo and buildah ask the helper for every
registry, by a file of its own in registries.conf.d. What changes is shown as a diff; with --dry-run, nothing
is written.""",
    examples="""\
examples:
  keyferry bridge docker install 123456789012.dkr.ecr.eu-west-1.amazonaws.com
  keyferry bridge docker install --dry-run
  sudo keyferry bridge docker install --containers
  keyferry bridge docker uninstall""",
    add_arguments=_add_docker_arguments,
    run=_run_docker,
    takes_options_between=True,
)


SUBCOMMANDS: dict[str, Entry | Command] = {
    "kubelet": Entry(
        module="keyferry.cli.bridge_kubelet", summary="put a shim into the kubelet's folder of plugins"
    ),
    "docker": _DOCKER,
}
