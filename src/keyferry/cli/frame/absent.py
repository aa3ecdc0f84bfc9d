"""What to try after a file that an option names was not found."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

__all__ = ["absent_files_hint"]

_WRITE = "to write such a file, try: kubectl"
_NEXT_STEPS = {
    "filename": f"{_WRITE} get pod NAME -o yaml > FILE",
    "pod": f"{_WRITE} get pod NAME -o yaml > FILE",
    "secret": f"{_WRITE} get secret NAME -o yaml > FILE",
    "service_account_token": f"{_WRITE} create token NAME > FILE",
    "docker_config": "to see what the kubelet of this machine uses, try: keyferry doctor",
}


def absent_files_hint(args: argparse.Namespace) -> str:
    """Return where the first file was looked for that is not there, and what to try; empty if all are."""
    for dest, step in _NEXT_STEPS.items():
        given = getattr(args, dest, None) or ()
        for path in (given,) if isinstance(given, str) else given:
            if path != "-" and not os.path.exists(path):
                return f"looked for {os.path.abspath(path)}; {step}"
    return ""
