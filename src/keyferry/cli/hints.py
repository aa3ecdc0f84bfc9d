"""What to try next after an error: the file that was not found, the config or kubeconfig to check."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from copy import copy

from keyferry.cli.frame.paste import command_line
from keyferry.errors import ConfigError, KeyferryError, KubeconfigError

_WRITE = "to write such a file, try: kubectl"
_NEXT_STEPS = {
    "filename": f"{_WRITE} get pod NAME -o yaml > FILE",
    "pod": f"{_WRITE} get pod NAME -o yaml > FILE",
    "secret": f"{_WRITE} get secret NAME -o yaml > FILE",
    "service_account_token": f"{_WRITE} create token NAME > FILE",
    "docker_config": "to see what the kubelet of this machine uses, try: keyferry doctor",
}


def find_hint(error: KeyferryError, args: Namespace) -> str:
    """Return what to try next after an error of a command with the arguments *args*; empty if there is nothing."""
    if isinstance(error, KubeconfigError):
        return kubeconfig_hint(error, args)
    if isinstance(error, ConfigError):
        return _config_hint(error, args)
    return absent_files_hint(args)


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
        args = copy(args)
        args.bin_dir = error.bin_dir
    files = sorted({problem.file for problem in error.problems if problem.line is not None})
    if not files:
        places = ", ".join(sorted({os.path.abspath(problem.file) for problem in error.problems}))
        return f"looked for {places}; to see what the kubelet of this machine uses, try: keyferry doctor"
    return f"a kubelet does not start with this config; try: {command_line(args, 'lint', *files)}"


def kubeconfig_hint(error: ConfigError, args: Namespace) -> str:
    """Return what to try next after an error of a kubeconfig or kuberc."""
    from keyferry.clusters.kubeconfig.files import load_kubeconfig
    from keyferry.invoke.kuberc import find_kuberc

    files = sorted({problem.file for problem in error.problems if problem.file})
    if not files:
        # Without any context, the error says itself how to give a kubeconfig.
        has_contexts = load_kubeconfig(vars(args).get("kubeconfig")).config.contexts
        return f"to list the contexts, try: {command_line(args, 'kube contexts')}" if has_contexts else ""
    is_kuberc = files == [find_kuberc()[0]]
    if any(map(os.path.exists, files)):
        step = f"to check the file, try: {shlex.join(('keyferry', 'lint', *files))}"
    else:
        step = f"looked for {', '.join(map(os.path.abspath, files))}"
        step += "" if is_kuberc else "; give another one with --kubeconfig or KUBECONFIG"
    if is_kuberc:
        return f"this file is kubectl's kuberc, which may restrict plugins; KUBERC=off ignores it; {step}"
    return step
