"""Configs from public repositories, with Kubernetes' verdict on each: texts of others, not the project's.

KEYFERRY_PUBLIC_CONFIGS names the folder, which holds ``verdicts.json``; by default a folder beside the project is used.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def find_public_configs() -> Path:
    """Return the folder, or a path that does not exist."""
    named = os.environ.get("KEYFERRY_PUBLIC_CONFIGS")
    beside = sorted(_ROOT.parent.glob("*/configs/verdicts.json"))
    return Path(named) if named else beside[0].parent if beside else _ROOT / "no-public-configs"


def verdicts(kind: str) -> list[dict[str, Any]]:
    """Return the verdicts on the files of one kind; empty without the folder."""
    path = find_public_configs() / "verdicts.json"
    files = json.loads(path.read_text(encoding="utf-8"))["files"] if path.exists() else []
    return [entry for entry in files if entry["file"].startswith(f"{kind}/")]
