"""Which arguments of ``keyferry bridge kubelet`` go together."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_OVERFLOW_USER = 65534


def usage_problem(args: argparse.Namespace) -> str:
    """Return what is wrong with the arguments; empty if nothing is."""
    return _place_problem(args) or _name_problem(args) or _socket_problem(args)


def _place_problem(args: argparse.Namespace) -> str:
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


def _name_problem(args: argparse.Namespace) -> str:
    if args.action == "uninstall":
        return "" if (args.name is None) == args.all else "uninstall takes the NAME of a provider, or --all"
    if args.all or args.name is not None:
        return f"only uninstall takes {'--all' if args.all else 'a NAME'}"
    return ""


def _socket_problem(args: argparse.Namespace) -> str:
    if args.socket != "auto" and not args.socket.startswith("/"):
        return f"--socket {args.socket!r}: not an absolute path"
    option = "--replace-others" if args.replace_others else "--agent-user"
    if not args.replace_others and args.agent_user is None:
        return ""
    if args.action != "install" or args.socket == "auto":
        return f"{option} is for install, with --socket PATH"
    return _user_problem(args)


def _user_problem(args: argparse.Namespace) -> str:
    if args.agent_user is None:
        return ""
    if args.agent_user < 0:
        return f"--agent-user {args.agent_user}: not the number of a user"
    if args.agent_user == _OVERFLOW_USER:
        return f"--agent-user {_OVERFLOW_USER}: this is every user that a user namespace does not know"
    return ""
