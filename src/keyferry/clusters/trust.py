"""Whether a kubeconfig comes from a place that only its user, or root, could have written.

An exec section runs a program. kubectl runs whatever the file says; a file that
somebody else can write, or owns, is refused here unless it is trusted explicitly.
"""

import os
import stat


def why_untrusted(path: str) -> str:
    """Who else could have written *path*; empty if nobody."""
    try:
        problem = _why_file(os.stat(path))
        # Of a link both folders count: where it stands, and where it leads.
        folders = dict.fromkeys(
            os.path.dirname(each) for each in (os.path.abspath(path), os.path.realpath(path))
        )
        return problem or next(filter(None, map(_why_folder, folders)), "")
    except OSError:
        return ""  # it was read a moment ago; what is gone cannot be judged


def _why_file(status: os.stat_result) -> str:
    if os.name == "nt":
        return ""
    if _is_foreign(status):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write it"
    return ""


def _why_folder(folder: str) -> str:
    """A folder that everybody can write lets everybody replace the file, unless it is sticky as /tmp is."""
    status = os.stat(folder)
    if os.name == "nt":
        return ""
    if _is_foreign(status):
        return f"its folder {folder} belongs to user {status.st_uid}"
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return f"everybody can write its folder {folder}"
    return ""


def _is_foreign(status: os.stat_result) -> bool:
    return status.st_uid not in (0, os.geteuid())
