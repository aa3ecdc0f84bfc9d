"""What the plugins of Azure load: a fresh interpreter for every call pays for each module."""

import subprocess
import sys

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.pop import make_proof
from support.reference import SOURCE

PROBE = (
    "import sys; sys.path.insert(0, {!r}); old = set(sys.modules); import {}; print(*set(sys.modules) - old)"
)
HEAVY = {
    "argparse",
    "asyncio",
    "cryptography",
    "dataclasses",
    "hashlib",
    "http.client",
    "logging",
    "re",
    "ssl",
    "subprocess",
    "typing",
    "urllib",
    "yaml",
}


@pytest.mark.parametrize("name", ["keyferry_plugins.acr", "keyferry_plugins.aks"])
def test_a_plugin_starts_light(name: str) -> None:
    """Nothing heavy is loaded before it is known what is asked."""
    run = [sys.executable, "-I", "-c", PROBE.format(SOURCE, name)]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY.isdisjoint(loaded)


@pytest.mark.parametrize(("module", "package"), [("cryptography", "cryptography"), ("jwt", "PyJWT")])
def test_without_the_packages_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    """A token bound to a key needs both, and says so before anything is asked for."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProvideError, match=rf"{package}.*'\.\[crypto\]'"):
        make_proof()
