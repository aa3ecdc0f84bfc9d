"""What to try next: the file that was not found, the config to check, and command lines that work when pasted."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from keyferry.cli.parser import make_parser
from keyferry.cli.run import load_command
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, Kind, KubeconfigError

_WRITE = "to write such a file, try: kubectl"
_NEXT_STEPS = {
    "filename": f"{_WRITE} get pod NAME -o yaml > FILE",
    "secret": f"{_WRITE} get secret NAME -o yaml > FILE",
    "service_account_token": f"{_WRITE} create token NAME > FILE",
    "docker_config": "to see what the kubelet of this machine uses, try: keyferry doctor",
}
# Options that a hint does not repeat: they do not change what is found.
_DROPPED = ("output", "quiet", "reveal", "all_patterns", "parallel", "color", "verbose", "help")
_STANDARD_INPUT = "-"


def find_hint(error: KeyferryError, args: Namespace) -> str:
    """Return what to try next after an error of a command with the arguments *args*; empty if there is nothing."""
    if isinstance(error, KubeconfigError):
        return kubeconfig_hint(error, args)
    if isinstance(error, ConfigError):
        return _config_hint(error, args)
    if isinstance(error, ClusterAuthError) and error.kind is Kind.REFUSED and _is_about_many_pods(args):
        one = Namespace(**vars(args) | {"all_namespaces": False, "namespace": "NAME"})
        command = "can-pull" if "max_requests" in args else "explain"
        return f"a user of some namespaces may ask about one of them: {command_line(one, command)}"
    return absent_files_hint(args)


def _is_about_many_pods(args: Namespace) -> bool:
    return "all_namespaces" in args and not (args.image or args.filename)


def absent_files_hint(args: Namespace) -> str:
    """Return where the first file was looked for that is not there, and what to try; empty if all are."""
    for dest, step in _NEXT_STEPS.items():
        given = getattr(args, dest, None) or ()
        for path in (given,) if isinstance(given, str) else given:
            if path != "-" and not os.path.exists(path):
                return f"looked for {os.path.abspath(path)}; {step}"
    return ""


def _config_hint(error: ConfigError, args: Namespace) -> str:
    if error.bin_dir:
        args = Namespace(**vars(args) | {"bin_dir": error.bin_dir})
    files = sorted({problem.file for problem in error.problems if problem.line is not None})
    if not files:
        places = ", ".join(sorted({os.path.abspath(problem.file) for problem in error.problems}))
        return f"looked for {places}; to see what the kubelet of this machine uses, try: keyferry doctor"
    return f"a kubelet does not start with this config; try: {command_line(args, 'lint', *files)}"


def kubeconfig_hint(error: ConfigError, args: Namespace) -> str:
    """Return what to try next after an error of a kubeconfig or kuberc."""
    from keyferry.clusters.kubeconfig.files import load_kubeconfig
    from keyferry.clusters.kubeconfig.validate import WITHOUT_IMPERSONATION
    from keyferry.invoke.kuberc import find_kuberc

    files = sorted({problem.file for problem in error.problems if problem.file})
    if any(each.code == WITHOUT_IMPERSONATION for each in error.problems):
        return ""
    if not files:
        # Without any context, the error says itself how to give a kubeconfig.
        if load_kubeconfig(vars(args).get("kubeconfig")).config.contexts:
            return f"to list the contexts, try: {command_line(args, 'kube contexts')}"
        # A command that names nothing is about the pods of a cluster, which may not be what was meant.
        is_named = vars(args).get("image", "") or vars(args).get("all_namespaces", True)
        return (
            ""
            if is_named
            else "without a cluster, name an image, or give the pod with -f FILE: keyferry explain IMAGE"
        )
    is_kuberc = files == [find_kuberc()[0]]
    if any(map(os.path.exists, files)):
        step = f"to check the file, try: {shlex.join(('keyferry', 'lint', *files))}"
    else:
        step = f"looked for {', '.join(map(os.path.abspath, files))}"
        step += "" if is_kuberc else f"; give another one with {_option_of(files, args)}"
    if is_kuberc:
        return f"this file is kubectl's kuberc, which may restrict plugins; KUBERC=off ignores it; {step}"
    return step


def _option_of(files: list[str], args: Namespace) -> str:
    """Return the option that a file comes from: that of a ClusterProfile or of its plugins, else of the kubeconfig."""
    given = vars(args)
    for option, dest in (("--cluster-profile", "cluster_profile"), ("--provider-file", "provider_file")):
        if given.get(dest) in files:
            return option
    return "--kubeconfig or KUBECONFIG"


def command_line(args: Namespace, command: str, *words: str) -> str:
    """Return a command line of keyferry: *command*, *words*, and the options of *args* that the command has too."""
    parser = make_parser("keyferry", load_command(*command.split()))
    return shlex.join(("keyferry", *command.split(), *words, *_options(parser, args)))


def _options(parser: ArgumentParser, args: Namespace) -> Iterator[str]:
    seen = set(_DROPPED)
    for option in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        value = getattr(args, option.dest, None)
        is_default = value is None or value == parser.get_default(option.dest)
        if not option.option_strings or option.dest in seen or is_default:
            continue
        seen.add(option.dest)
        name = option.option_strings[0]
        if option.nargs == 0:
            yield name
        else:
            for each in value if isinstance(value, list) else (value,):
                yield from (name, _word(option.dest, each))


def _word(dest: str, value: object) -> str:
    if dest == "filename" and value == _STANDARD_INPUT:
        # The pasted command would wait for input that is gone.
        return "FILE"
    if dest == "token":
        return "TOKEN"
    return f"{value:g}" if isinstance(value, float) else str(value)
