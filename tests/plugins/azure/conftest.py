"""Azure on loopback, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.azure_cloud import Azure, serving_azure


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Azure]:
    """Entra, a registry and a metadata service that check what they are sent."""
    with serving_azure(tmp_path) as served:
        yield served
