"""What to install where a package is missing that only some of keyferry needs."""

__all__ = ["install_hint", "missing_extra"]


def install_hint(extra: str) -> str:
    """What to type; keyferry is installed from its source."""
    return f"pip install '.[{extra}]' in keyferry's source folder"


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """The error of a module that cannot be imported without an extra."""
    message = f"the package {error.name!r} is not installed; it comes with the extra {extra!r}: {install_hint(extra)}"
    return ImportError(message, name=error.name)
