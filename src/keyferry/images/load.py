"""From a config on disk to providers that can be asked, past every check a kubelet makes at its start."""

import os
from collections.abc import Callable, Iterable, Mapping

from keyferry._core.clock import monotonic_ns
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ConfigError
from keyferry.images.config.files import ReadConfig, config_hash, read_config
from keyferry.images.config.refusals import find_refusals, place_of
from keyferry.images.config.register import plugin_path
from keyferry.images.lookup import Providers
from keyferry.images.node.discover import discover
from keyferry.images.provider.accounts import ServiceAccounts
from keyferry.images.provider.plugin import ExecPlugin, encode_environment
from keyferry.images.provider.provider import Provider
from keyferry.invoke.process import Limits


def load_providers(
    config: str | os.PathLike[str] | None = None,
    bin_dir: str | os.PathLike[str] | None = None,
    *,
    service_accounts: ServiceAccounts | None = None,
    service_account_tokens: bool = True,
    docker_config: str | os.PathLike[str] | None = None,
    timeout_seconds: float = 60.0,
    withhold_env: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
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
    *environ* is the environment that plugins get, that of this process unless given;
    *withhold_env* names variables of it that they do not get.
    Without *coalesce*, images of one registry never share a run.
    """
    found = discover(_path(config), _path(bin_dir))
    read = check_config(found.config, found.bin_dir, service_account_tokens=service_account_tokens)
    # Pinned: a program that changes its directory later must not change which plugins it runs.
    plugins = os.path.abspath(found.bin_dir)
    limits = Limits(timeout_seconds=timeout_seconds)
    withheld = frozenset(withhold_env)
    environment = None if environ is None else encode_environment(environ)
    providers = [
        Provider(
            entry,
            exec_plugin(entry, plugins, limits, withheld, environment),
            accounts=service_accounts,
            clock=clock,
            coalesce=coalesce,
            timeout_seconds=timeout_seconds,
        )
        for entry in read.providers
    ]
    contents = tuple(file.data for file in read.files)
    return Providers(
        providers, config_hash=lambda: config_hash(contents), docker_config=_path(docker_config), clock=clock
    )


def check_config(config: str, bin_dir: str, *, service_account_tokens: bool = True) -> ReadConfig:
    """Read a config and make every check a kubelet makes at its start.

    ConfigError has everything that would stop it, in the order of the files: what lint calls errors.
    """
    read = read_config(config)
    found = find_refusals(read, bin_dir, service_account_tokens=service_account_tokens)
    stages = [stage for stage in found if stage.problems]
    if stages:
        problems = dict.fromkeys(problem for stage in stages for problem in stage.problems)
        raise ConfigError(tuple(sorted(problems, key=place_of)), stages[0].kubernetes_text)
    return read


def exec_plugin(
    provider: CredentialProvider,
    bin_dir: str,
    limits: Limits = Limits(),
    withhold: frozenset[str] = frozenset(),
    environ: Mapping[bytes, bytes] | None = None,
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
        environ,
    )


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
