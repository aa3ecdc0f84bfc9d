"""Put a shim into the kubelet's folder of plugins, take it away, and show what is there."""

from keyferry.cli.frame.arguments import add_config_arguments, add_output_argument
from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.errors import KeyferryError
from keyferry.show.report import report
from keyferry.show.writer import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.bridge.file_change import FileChange
    from keyferry.bridge.kubelet.install import InstalledShim
    from keyferry.images.node.discover import Discovery

DESCRIPTION = """\
Put a shim into the kubelet's folder of plugins. The kubelet executes the shim, which asks the node agent and
prints its answer. If the agent has none, because it is down, refuses or does not know the provider, the shim
becomes the plugin behind it, with the same input, arguments and environment.

  install    put a shim in front of a plugin, or beside the plugins as a provider of its own
  uninstall  remove a shim; the plugin behind it takes its place again
  status     list the shims, and whether the agent can be reached

In front of a plugin, nothing else changes: neither the kubelet's config nor its flags, and it need not be
restarted. The plugin is linked to NAME.real before the shim is renamed over it, so it is never missing. Beside
the plugins, the provider needs an entry in the kubelet's config, and the kubelet a restart. With --match-images,
install adds the entry: the config is linted first, the entry is shown as a diff, and everything else in the
file stays as it is; uninstall takes it back."""

EXAMPLES = """\
examples:
  sudo keyferry bridge kubelet install --in-front-of ecr-credential-provider
  sudo keyferry bridge kubelet install --in-front-of ecr-credential-provider --native ./keyferry-shim
  sudo keyferry bridge kubelet install --beside node-agent --plugin /opt/bin/ecr-credential-provider \\
    --match-images '*.dkr.ecr.*.amazonaws.com'
  sudo keyferry bridge kubelet uninstall ecr-credential-provider"""

TAKES_OPTIONS_BETWEEN = True
_OWN_NAME = "keyferry"


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry bridge kubelet``."""
    parser.add_argument("action", choices=("install", "uninstall", "status"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the provider whose shim is uninstalled")
    position = parser.add_mutually_exclusive_group()
    position.add_argument("--in-front-of", metavar="NAME", help="install in front of this provider's plugin")
    position.add_argument(
        "--beside",
        nargs="?",
        const=_OWN_NAME,
        metavar="NAME",
        help=f"install as a provider of this name (default: {_OWN_NAME})",
    )
    parser.add_argument("--plugin", metavar="PATH", help="with --beside: the plugin to run without the agent")
    parser.add_argument(
        "--match-images",
        metavar="PATTERN",
        action="append",
        default=[],
        help="with --beside: add the provider to the kubelet's config, for this pattern; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="with --match-images: show what would change")
    parser.add_argument(
        "--socket", metavar="PATH", default="auto", help="the agent's socket (default: auto, the usual place)"
    )
    parser.add_argument(
        "--native", metavar="FILE", help="the static shim, which 'make shim' builds (default: one in Python)"
    )
    add_output_argument(parser, ("table", "json", "yaml"))
    add_config_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Install, uninstall or list."""
    problem = _problem(args)
    if problem:
        raise WrongUsage(problem)
    from keyferry.images.node.discover import discover

    found = discover(args.config, args.bin_dir, node=args.node, needs_config=False)
    if not found.bin_dir:
        raise WrongUsage("no bin dir is found; set it with --bin-dir DIR")
    if args.action == "install":
        return _install(args, found)
    if args.action == "uninstall":
        return _uninstall(args.name, found)
    return _status(found, args.output)


def _problem(args: "argparse.Namespace") -> str:
    is_install, has_place = args.action == "install", args.in_front_of is not None or args.beside is not None
    wrong = {
        "nothing to install; give --in-front-of NAME or --beside": is_install and not has_place,
        f"--in-front-of and --beside are for install, not for {args.action}": not is_install and has_place,
        "--plugin is for --beside; in front of a plugin, that plugin is run without the agent": (
            args.plugin and args.beside is None
        ),
        "--match-images is for --beside; in front of a plugin, the config has its provider already": (
            args.match_images and args.beside is None
        ),
        "--dry-run is for --match-images": args.dry_run and not args.match_images,
        "uninstall takes the NAME of a provider": args.action == "uninstall" and args.name is None,
        "only uninstall takes a NAME": args.action != "uninstall" and args.name is not None,
        f"--socket {args.socket!r}: not an absolute path": (
            args.socket != "auto" and not args.socket.startswith("/")
        ),
    }
    return next((problem for problem, is_so in wrong.items() if is_so), "")


def _install(args: "argparse.Namespace", found: "Discovery") -> int:
    from keyferry.bridge.kubelet.install import install_in_front
    from keyferry.bridge.kubelet.program import python_shim, read_native_shim

    program = read_native_shim(args.native) if args.native else python_shim()
    if args.in_front_of is not None:
        shim = install_in_front(found.bin_dir, args.in_front_of, program, args.socket)
        print(f"{_place(found, shim)}: a shim, in front of {shim.plugin}")
        report(f"the kubelet's own cache may still answer {_cache_text(found, shim.name)}")
    else:
        change = _plan_entry(args, found) if args.match_images else None
        if args.dry_run:
            return Exit.OK
        shim = _install_beside(args, found, program, change)
    _note_agent(shim)
    return Exit.OK


def _plan_entry(args: "argparse.Namespace", found: "Discovery") -> "FileChange":
    """Show the change of the kubelet's config; it is linted before anything is written."""
    from keyferry.bridge.kubelet.entry import plan_entry_install

    if not found.config:
        raise WrongUsage("no provider config is found; set it with --config PATH")
    change = plan_entry_install(found.config, args.beside, args.match_images)
    report(*change.notes)
    _print_diff(change)
    return change


def _print_diff(change: "FileChange") -> None:
    from keyferry._core.secrets import printable

    print(Lines(printable(change.diff, "\n\t")), end="")


def _install_beside(
    args: "argparse.Namespace", found: "Discovery", program: bytes, change: "FileChange | None"
) -> "InstalledShim":
    from keyferry.bridge.file_change import apply_change
    from keyferry.bridge.kubelet.install import install_beside, note_entry

    # The program first: a kubelet does not start if one of its config is missing.
    shim = install_beside(found.bin_dir, args.beside, program, args.socket, args.plugin or "")
    print(f"{_place(found, shim)}: a shim, beside the plugins")
    if change is None:
        report(
            f"add a provider {shim.name!r} to the kubelet's config, check it with 'keyferry lint', then restart "
            "the kubelet; --match-images PATTERN adds it"
        )
    elif change.before != change.after:
        note_entry(found.bin_dir, shim.name, found.config)
        apply_change(change)
        report(f"restart the kubelet: it reads {found.config} when it starts")
    if not shim.plugin:
        report("no plugin is behind this shim: when the agent is down, it fails; give one with --plugin PATH")
    return shim


def _uninstall(name: str, found: "Discovery") -> int:
    from keyferry.bridge.kubelet.install import ShimPosition, noted_entry, uninstall

    config = noted_entry(found.bin_dir, name)
    if config:
        _remove_entry(config, name)
    position = uninstall(found.bin_dir, name)
    path = f"{found.bin_dir}/{name}"
    if position is ShimPosition.IN_FRONT:
        print(f"{path}: the plugin again")
    elif position is ShimPosition.OVERWRITTEN:
        print(f"{path}: left as it is, since another program has taken the shim's place")
    else:
        print(f"{path}: removed")
        if config:
            report(
                f"restart the kubelet: until then it tries to execute {name!r}, and pulls go on without it"
            )
            return Exit.OK
        report(f"a kubelet whose config names the provider {name!r} does not start without this program")
    return Exit.OK


def _remove_entry(config: str, name: str) -> None:
    from keyferry.bridge.file_change import apply_change
    from keyferry.bridge.kubelet.entry import plan_entry_uninstall

    change = plan_entry_uninstall(config, name)
    report(*change.notes)
    _print_diff(change)
    apply_change(change)


def _status(found: "Discovery", output: str) -> int:
    from keyferry.bridge.kubelet.install import list_shims

    shims = list_shims(found.bin_dir)
    if output != "table":
        from keyferry.show.documents import make_document, render_document

        document = make_document("ShimList", shims=[_document(found, shim) for shim in shims])
        print(render_document(document, output))
    elif shims:
        from keyferry.show.tables import table

        print(table(("PROVIDER", "POSITION", "PROGRAM", "PLUGIN", "AGENT"), map(_cells, shims)))
    if shims:
        return Exit.OK
    report(f"no shim in {found.bin_dir}")
    return Exit.NO


def _cells(shim: "InstalledShim") -> list[str]:
    program = "C" if shim.is_native else "Python"
    return [shim.name, shim.position, program, shim.plugin or "-", _agent_problem(shim) or shim.socket]


def _document(found: "Discovery", shim: "InstalledShim") -> dict[str, object]:
    return {
        "provider": shim.name,
        "position": str(shim.position),
        "native": shim.is_native,
        "program": _place(found, shim),
        "plugin": shim.plugin,
        "socket": shim.socket,
        "agentProblem": _agent_problem(shim),
    }


def _place(found: "Discovery", shim: "InstalledShim") -> str:
    return f"{found.bin_dir}/{shim.name}"


def _note_agent(shim: "InstalledShim") -> None:
    problem = _agent_problem(shim)
    if problem:
        report(f"{problem}; until it can be reached, the shim runs the plugin behind it")


def _agent_problem(shim: "InstalledShim") -> str:
    from keyferry._net.agent import try_agent

    problem = try_agent(shim.socket)
    return "" if problem is None else problem.message


def _cache_text(found: "Discovery", name: str) -> str:
    """Return until when a kubelet may answer from its own cache, as far as its config tells."""
    from datetime import UTC, datetime, timedelta

    longer = "or for as long as the cacheDuration of the plugin's last answers"
    nanoseconds = _default_duration(found, name)
    if nanoseconds is None:
        return f"for the provider's defaultCacheDuration, {longer}"
    until = datetime.now(UTC) + timedelta(microseconds=nanoseconds // 1000)
    return f"until {until:%Y-%m-%d %H:%M:%S} UTC (defaultCacheDuration), {longer}"


def _default_duration(found: "Discovery", name: str) -> int | None:
    from keyferry.images.config.files import read_config

    try:
        providers = read_config(found.config).providers if found.config else ()
    except KeyferryError:
        return None
    return next((each.default_cache_duration_ns for each in providers if each.name == name), None)
