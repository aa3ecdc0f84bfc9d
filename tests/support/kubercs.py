"""Kuberc files for tests."""

from __future__ import annotations

from pathlib import Path

KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"


def kuberc(tmp_path: Path, text: str) -> str:
    """Write a kuberc into a folder; return its path."""
    path = tmp_path / "kuberc"
    path.write_text(text)
    return str(path)
