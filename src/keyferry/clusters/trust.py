"""Whether a kubeconfig comes from a place that only its user, or root, could have written.

An exec section runs a program. kubectl runs whatever the file says; a file that
somebody else can write, or owns, is refused here unless it is trusted explicitly.
"""

import os
import stat


def why_untrusted(path: str) -> str:
    """Who else could have written *path*; empty if nobody."""
    try:
        status = os.stat(path)
        problem = _why_file(status)
        return problem or _why_folder(os.path.dirname(os.path.abspath(path)))
    except OSError:
        return ""  # it was read a moment ago; what is gone cannot be judged


def _why_file(status: os.stat_result) -> str:
    if os.name == "nt":
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write it"
    return ""


def _why_folder(folder: str) -> str:
    """A folder that everybody can write lets everybody replace the file, unless it is sticky as /tmp is."""
    status = os.stat(folder)
    if os.name != "nt" and status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return f"everybody can write its folder {folder}"
    return ""
