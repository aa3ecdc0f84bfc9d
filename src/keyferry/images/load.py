"""From a config on disk to providers that can be asked, past every check a kubelet makes at its start."""

import os
from collections.abc import Callable, Iterable

from keyferry._clock import monotonic_ns
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ConfigError
from keyferry.images.accounts import ServiceAccounts
from keyferry.images.config import ReadConfig, read_config
from keyferry.images.discover import discover
from keyferry.images.lookup import Providers
from keyferry.images.plugin import ExecPlugin
from keyferry.images.provider import Provider
from keyferry.images.register import check_bin_dir, check_executables, plugin_path
from keyferry.images.validate import kubernetes_validation_text, validate
from keyferry.invoke.process import Limits


def load_providers(  # noqa: PLR0913 - one door, many settings, all but the first two by keyword
    config: str | os.PathLike[str] | None = None,
    bin_dir: str | os.PathLike[str] | None = None,
    *,
    service_accounts: ServiceAccounts | None = None,
    service_account_tokens: bool = True,
    docker_config: str | os.PathLike[str] | None = None,
    timeout_seconds: float = 60.0,
    withhold_env: Iterable[str] = (),
    coalesce: bool = True,
    clock: Callable[[], int] = monotonic_ns,
) -> Providers:
    """Load a provider config, a file or a directory, and make its plugins ready to be asked.

    What is not given is looked for as the command line does: in KEYFERRY_CONFIG
    and KEYFERRY_BIN_DIR, then where this node keeps it. Raises ConfigError, with
    every problem found, for a config that would stop a kubelet, and
    EnvironmentProblem if there is none.

    *service_accounts* is where providers with ``tokenAttributes`` get accounts
    and tokens from, *service_account_tokens* the feature gate for them.
    *withhold_env* names variables of this process that plugins do not get.
    Without *coalesce*, images of one registry never share a run.
    """
    found = discover(_path(config), _path(bin_dir))
    read = check_config(found.config, found.bin_dir, service_account_tokens=service_account_tokens)
    # Pinned: a program that changes its directory later must not change which plugins it runs.
    plugins = os.path.abspath(found.bin_dir)
    limits = Limits(timeout_seconds=timeout_seconds)
    withheld = frozenset(withhold_env)
    providers = [
        Provider(
            entry,
            exec_plugin(entry, plugins, limits, withheld),
            accounts=service_accounts,
            clock=clock,
            coalesce=coalesce,
            timeout_seconds=timeout_seconds,
        )
        for entry in read.providers
    ]
    return Providers(providers, config_hash=read.hash, docker_config=_path(docker_config), clock=clock)


def check_config(config: str, bin_dir: str, *, service_account_tokens: bool = True) -> ReadConfig:
    """Read a config and make every check a kubelet makes at its start; ConfigError says what would stop it."""
    missing = check_bin_dir(bin_dir)
    if missing is not None:
        raise ConfigError((missing,))
    read = read_config(config)
    read.raise_for_problems()
    problems = validate(read, service_account_tokens=service_account_tokens)
    if problems:
        raise ConfigError(problems, kubernetes_validation_text(problems))
    unusable = tuple(problem for problem in check_executables(read, bin_dir) if problem is not None)
    if unusable:
        raise ConfigError(unusable)
    return read


def exec_plugin(
    provider: CredentialProvider,
    bin_dir: str,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    withhold: frozenset[str] = frozenset(),
) -> ExecPlugin:
    """The executable of a configured provider."""
    return ExecPlugin(
        provider.name,
        plugin_path(bin_dir, provider.name),
        provider.api_version,
        provider.args or (),
        tuple((variable.name, variable.value) for variable in provider.env or ()),
        withhold,
        limits,
    )


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
