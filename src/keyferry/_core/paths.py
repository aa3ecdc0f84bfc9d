"""Where a value stands inside a document."""

Path = tuple[str | int, ...]


def format_path(path: Path) -> str:
    """``("providers", 0, "name")`` as ``providers[0].name``."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")
