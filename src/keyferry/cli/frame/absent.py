"""What to try after a file that an option names was not found."""

import os

from keyferry.errors import KeyferryError

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


def absent_files_hint(error: KeyferryError, args: "argparse.Namespace") -> str:
    """Return where the file was looked for that *error* does not find, and what to try; empty for other errors."""
    for dest, step in _NEXT_STEPS.items():
        given = getattr(args, dest, None) or ()
        for path in (given,) if isinstance(given, str) else given:
            if f"{path}: cannot be read: no such file or directory" in str(error):
                return f"looked for {os.path.abspath(path)}; {step}"
    return ""
