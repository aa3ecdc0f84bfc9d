"""The providers of a kubelet that runs, and what would stop it from starting again."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import ConfigError, Kind, PluginNotFoundError
from keyferry.images.load import ProviderSettings, load_providers, make_running_providers
from support.plugins import provider_entry, write_config, write_executable

RESPONSE = (
    '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", '
    '"cacheKeyType": "Registry", "auth": {"there.io": {"username": "u", "password": "p"}}}'
)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """The paths of a config with two providers, of which one has no executable, and of the bin dir."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    write_executable(bin_dir / "there", f"#!/bin/sh\ncat >/dev/null\nprintf '%s' '{RESPONSE}'\n")
    entries = [provider_entry(name=name, matchImages=[f"{name}.io"]) for name in ("there", "gone")]
    return str(write_config(tmp_path / "providers.json", entries)), str(bin_dir)


def test_a_plugin_that_is_gone_fails_with_its_path_and_the_change_of_its_folder(
    paths: tuple[str, str],
) -> None:
    config, bin_dir = paths
    providers, problems = make_running_providers(config, bin_dir, ProviderSettings())
    assert [problem.code for problem in problems] == ["KF141"]
    assert [each.username for each in providers.lookup("there.io/app").credentials] == ["u"]
    (failure,) = providers.lookup("gone.io/app").kubelet_failures
    error = failure.error
    assert isinstance(error, PluginNotFoundError)
    assert (failure.provider, error.kind, error.path) == ("gone", Kind.NOT_FOUND, f"{bin_dir}/gone")
    assert error.folder_changed_ns == Path(bin_dir).stat().st_mtime_ns


def test_providers_that_are_loaded_need_every_executable(paths: tuple[str, str]) -> None:
    """As a kubelet that starts now."""
    with pytest.raises(ConfigError, match="gone is missing"):
        load_providers(*paths)


def test_a_config_that_no_kubelet_takes_has_all_of_its_problems(paths: tuple[str, str]) -> None:
    config, bin_dir = paths
    text = Path(config).read_text(encoding="utf-8")
    Path(config).write_text(text.replace("there.io", "[::1"), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        make_running_providers(config, bin_dir, ProviderSettings())
    assert "KF141" in [problem.code for problem in refused.value.problems]
    assert len(refused.value.problems) == 2
