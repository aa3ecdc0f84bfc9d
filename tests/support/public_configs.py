"""Configs as found in public repositories, with Kubernetes' verdict on each: other people's texts, not the project's.

KEYFERRY_PUBLIC_CONFIGS names the folder, which holds ``verdicts.json``; one of that shape beside the project is found.
"""

import json
import os
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def find_public_configs() -> Path:
    """The folder, or one that does not exist."""
    named = os.environ.get("KEYFERRY_PUBLIC_CONFIGS")
    beside = sorted(_ROOT.parent.glob("*/configs/verdicts.json"))
    return Path(named) if named else beside[0].parent if beside else _ROOT / "no-public-configs"


def verdicts(kind: str) -> list[dict[str, Any]]:
    """The verdicts on the files of one kind; none without the folder."""
    path = find_public_configs() / "verdicts.json"
    files = json.loads(path.read_text(encoding="utf-8"))["files"] if path.exists() else []
    return [entry for entry in files if entry["file"].startswith(f"{kind}/")]
