"""Installation hints for the optional packages that some parts of keyferry need."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return the command that installs *extra*, from a clone: on a package index, the name may be somebody else's."""
    return f"in a clone of keyferry, pip install '.[{extra}]'"


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """Return the error for a module that cannot be imported without *extra*."""
    message = f"the package {error.name!r} is not installed; it comes with the extra {extra!r}: {install_hint(extra)}"
    return ImportError(message, name=error.name)
