"""Put a shim into the kubelet's folder of plugins, take it away, and show what is there."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta

from keyferry._core.secrets import printable
from keyferry._net.agent import try_agent
from keyferry.bridge.file_change import FileChange, apply_change
from keyferry.bridge.kubelet_install import (
    NATIVE,
    InstalledShim,
    ShimPosition,
    find_native_shim,
    give_socket_folder,
    install_beside,
    install_in_front,
    list_shims,
    note_entry,
    noted_entry,
    python_shim,
    read_native_shim,
    remove_socket_folder,
    uninstall,
)
from keyferry.cli.exits import Exit, WrongUsage, most_severe, report_failure
from keyferry.cli.options import add_config_arguments, add_output_argument
from keyferry.errors import EnvironmentProblem, KeyferryError
from keyferry.images.config.read import read_config
from keyferry.images.node.discover import Discovery, discover
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import table
from keyferry.show.writer import Lines, report

DESCRIPTION = """\
Put a shim into the kubelet's folder of plugins. The kubelet executes the shim, which asks the node agent and
prints its answer. If the agent has none, because it is down, refuses or does not know the provider, the shim
becomes the plugin behind it, with the same input, arguments and environment.

  install    put a shim in front of a plugin, or beside the plugins as a provider of its own
  uninstall  remove a shim, or all of them; the plugin behind it takes its place again. With --socket, also what
             an agent that has ended left there: its socket, its lock and their folder
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
  sudo keyferry bridge kubelet uninstall ecr-credential-provider
  sudo keyferry bridge kubelet uninstall --all --socket /run/keyferry/agent.sock"""

TAKES_OPTIONS_BETWEEN = True
_OWN_NAME = "keyferry"
# Set in every container of a pod, where folders of the node are missing unless they are mounted.
_POD_VARIABLE = "KUBERNETES_SERVICE_HOST"
_OVERFLOW_USER = 65534


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of ``keyferry bridge kubelet``."""
    parser.add_argument("action", choices=("install", "uninstall", "status"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the provider whose shim is uninstalled")
    parser.add_argument("--all", action="store_true", help="uninstall every shim; succeeds if there is none")
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
    parser.add_argument(
        "--replace-others",
        action="store_true",
        help="with --socket: first uninstall other shims in front of plugins here that ask the same socket, such as "
        "those of an earlier configuration",
    )
    parser.add_argument("--dry-run", action="store_true", help="with --match-images: show what would change")
    parser.add_argument(
        "--socket", metavar="PATH", default="auto", help="the agent's socket (default: auto, the usual place)"
    )
    parser.add_argument(
        "--shim",
        choices=("native", "python"),
        help="the static shim of keyferry's image or of the package keyferry-shim, or one in Python, which needs "
        "keyferry on the node (default: native if there is one for this machine)",
    )
    parser.add_argument("--native", metavar="FILE", help="the static shim in a file; 'make shim' builds it")
    parser.add_argument(
        "--agent-user",
        type=int,
        metavar="UID",
        help="the user of an agent that does not run as root: its socket is trusted, and the folder of --socket is "
        "made for it",
    )
    add_output_argument(parser, ("table", "json", "yaml"))
    add_config_arguments(parser)


def run(args: Namespace) -> int:
    """Install, uninstall or list."""
    problem = _usage_problem(args)
    if problem:
        raise WrongUsage(problem)
    found = discover(args.config, args.bin_dir, node=args.node, needs_config=False)
    if not found.bin_dir:
        raise WrongUsage("no bin dir is found; set it with --bin-dir DIR")
    if args.action == "install":
        return _install(args, found)
    if args.action == "uninstall":
        return _uninstall_all(args, found)
    return _status(found, args.output)


def _usage_problem(args: Namespace) -> str:
    """Return what is wrong with the arguments; empty if nothing is."""
    return _place_problem(args) or _name_problem(args) or _socket_problem(args)


def _place_problem(args: Namespace) -> str:
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
        "--native FILE is not a shim in Python; leave one of them out": (
            args.native and args.shim == "python"
        ),
    }
    return next((problem for problem, is_so in wrong.items() if is_so), "")


def _name_problem(args: Namespace) -> str:
    if args.action == "uninstall":
        return "" if (args.name is None) == args.all else "uninstall takes the NAME of a provider, or --all"
    if args.all or args.name is not None:
        return f"only uninstall takes {'--all' if args.all else 'a NAME'}"
    return ""


def _socket_problem(args: Namespace) -> str:
    if args.socket != "auto" and not args.socket.startswith("/"):
        return f"--socket {args.socket!r}: not an absolute path"
    option = "--replace-others" if args.replace_others else "--agent-user"
    if not args.replace_others and args.agent_user is None:
        return ""
    if args.action != "install" or args.socket == "auto":
        return f"{option} is for install, with --socket PATH"
    return _user_problem(args)


def _user_problem(args: Namespace) -> str:
    if args.agent_user is None:
        return ""
    if args.agent_user < 0:
        return f"--agent-user {args.agent_user}: not the number of a user"
    if args.agent_user == _OVERFLOW_USER:
        return f"--agent-user {_OVERFLOW_USER}: this is every user that a user namespace does not know"
    return ""


def _install(args: Namespace, found: Discovery) -> int:
    program = _program(args)
    if args.agent_user is not None:
        give_socket_folder(args.socket, args.agent_user)
    if args.replace_others:
        _replace_others(args, found)
    if args.in_front_of is not None:
        shim = install_in_front(
            found.bin_dir, args.in_front_of, program, args.socket, agent_user=args.agent_user
        )
        print(f"{_place(found, shim)}: a shim, in front of {shim.plugin}")
        report(f"the kubelet's own cache may still answer {_cache_text(found, shim.name)}")
    else:
        change = _plan_entry(args, found) if args.match_images else None
        if args.dry_run:
            return Exit.OK
        shim = _install_beside(args, found, program, change)
    _note_agent(shim)
    return Exit.OK


def _replace_others(args: Namespace, found: Discovery) -> None:
    """Uninstall the other shims of the same socket, as far as no config of a kubelet can name them."""
    kept = args.beside if args.in_front_of is None else args.in_front_of
    for shim in list_shims(found.bin_dir):
        if shim.name == kept or shim.socket != args.socket:
            continue
        if shim.position in (ShimPosition.IN_FRONT, ShimPosition.OVERWRITTEN):
            _try_uninstall(shim.name, found)
            continue
        report(
            f"{_place(found, shim)} stays: a kubelet whose config names it does not start without it; when none does, "
            f"remove it with 'keyferry bridge kubelet uninstall {shim.name}'"
        )


def _program(args: Namespace) -> bytes:
    native = args.native or ("" if args.shim == "python" else find_native_shim())
    if not native and args.shim == "native":
        raise EnvironmentProblem(
            "no static shim for this machine is installed; the package keyferry-shim has it, and 'make shim' builds "
            "one for --native FILE"
        )
    return read_native_shim(native) if native else python_shim()


def _uninstall_all(args: Namespace, found: Discovery) -> int:
    names = [shim.name for shim in list_shims(found.bin_dir)] if args.all else [args.name]
    # One that cannot be removed is no reason to leave the others.
    codes = [_try_uninstall(name, found) for name in names] if len(names) > 1 else []
    if len(names) == 1:
        _uninstall(names[0], found)
    elif not names:
        report(f"no shim in {found.bin_dir}")
    if args.socket != "auto":
        _remove_socket(args.socket)
    return most_severe(codes)


def _try_uninstall(name: str, found: Discovery) -> Exit:
    try:
        _uninstall(name, found)
    except KeyferryError as error:
        return report_failure(error)
    return Exit.OK


def _remove_socket(path: str) -> None:
    others = remove_socket_folder(path)
    if others:
        report(f"the folder of {path} stays, since it has other files: {', '.join(others)}")


def _plan_entry(args: Namespace, found: Discovery) -> FileChange:
    """Show the change of the kubelet's config; it is linted before anything is written."""
    from keyferry.bridge.kubelet_entry import plan_entry_install

    if not found.config:
        raise WrongUsage("no provider config is found; set it with --config PATH")
    is_own = noted_entry(found.bin_dir, args.beside) == os.path.abspath(found.config)
    change = plan_entry_install(found.config, args.beside, args.match_images, is_own=is_own)
    report(*change.notes)
    _print_diff(change)
    return change


def _print_diff(change: FileChange) -> None:
    print(Lines(printable(change.diff, "\n\t")), end="")


def _install_beside(
    args: Namespace, found: Discovery, program: bytes, change: FileChange | None
) -> InstalledShim:
    # The program first: a kubelet does not start if one of its config is missing.
    shim = install_beside(
        found.bin_dir, args.beside, program, args.socket, args.plugin or "", agent_user=args.agent_user
    )
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


def _uninstall(name: str, found: Discovery) -> None:
    config = noted_entry(found.bin_dir, name)
    is_known = bool(config) and _remove_entry(config, name)
    position = uninstall(found.bin_dir, name)
    path = f"{found.bin_dir}/{name}"
    if position is ShimPosition.IN_FRONT:
        print(f"{path}: the plugin again")
    elif position is ShimPosition.OVERWRITTEN:
        print(f"{path}: left as it is, since another program has taken the shim's place")
    else:
        print(f"{path}: removed")
        report(
            f"restart the kubelet: until then it tries to execute {name!r}, and pulls go on without it"
            if is_known
            else f"a kubelet whose config names the provider {name!r} does not start without this program"
        )


def _remove_entry(config: str, name: str) -> bool:
    """Remove the entry from the config to which it was added, and return whether that is still there.

    Raise EnvironmentProblem in a pod that does not see it: the kubelet may, and would not start without the shim.
    """
    from keyferry.bridge.kubelet_entry import plan_entry_uninstall

    is_there = os.path.lexists(config)
    if not is_there and _POD_VARIABLE in os.environ:
        raise EnvironmentProblem(
            f"{config}: this pod does not see the config that has an entry for {name!r}, without which the kubelet "
            "would not start; mount the config's folder, or uninstall the shim on the node"
        )
    change = plan_entry_uninstall(config, name)
    report(*change.notes)
    _print_diff(change)
    apply_change(change)
    return is_there


def _status(found: Discovery, output: str) -> int:
    shims = list_shims(found.bin_dir)
    if output != "table":
        document = make_document("ShimList", shims=[_document(found, shim) for shim in shims])
        print(render_document(document, output))
    elif shims:
        print(table(("PROVIDER", "POSITION", "PROGRAM", "PLUGIN", "AGENT"), map(_cells, shims)))
    if shims:
        return Exit.OK
    report(f"no shim in {found.bin_dir}")
    return Exit.NO


def _cells(shim: InstalledShim) -> list[str]:
    agent = _agent_problem(shim) or shim.socket
    return [shim.name, shim.position, shim.language or "-", shim.plugin or "-", agent]


def _document(found: Discovery, shim: InstalledShim) -> dict[str, object]:
    return {
        "provider": shim.name,
        "position": str(shim.position),
        "native": shim.language == NATIVE,
        "program": _place(found, shim),
        "plugin": shim.plugin,
        "socket": shim.socket,
        "agentProblem": _agent_problem(shim),
    }


def _place(found: Discovery, shim: InstalledShim) -> str:
    return f"{found.bin_dir}/{shim.name}"


def _note_agent(shim: InstalledShim) -> None:
    problem = _agent_problem(shim)
    if problem:
        then = "the shim runs the plugin behind it" if shim.plugin else "the shim fails"
        report(f"{problem}; until it can be reached, {then}")


def _agent_problem(shim: InstalledShim) -> str:
    problem = try_agent(shim.socket, owner=shim.agent_user)
    return "" if problem is None else problem.message


def _cache_text(found: Discovery, name: str) -> str:
    """Return until when a kubelet may answer from its own cache, as far as its config tells."""
    longer = "or for as long as the cacheDuration of the plugin's last answers"
    nanoseconds = _default_duration(found, name)
    if nanoseconds is None:
        return f"for the provider's defaultCacheDuration, {longer}"
    until = datetime.now(UTC) + timedelta(microseconds=nanoseconds // 1000)
    return f"until {until:%Y-%m-%d %H:%M:%S} UTC (defaultCacheDuration), {longer}"


def _default_duration(found: Discovery, name: str) -> int | None:
    try:
        providers = read_config(found.config).providers if found.config else ()
    except KeyferryError:
        return None
    return next((each.default_cache_duration_ns for each in providers if each.name == name), None)
