"""Code that ``plugin test`` and ``plugin trace`` share: the options that describe a plugin."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError

from keyferry._core.bounded import read_path
from keyferry._core.gotext import go_strerror
from keyferry._core.values import replace
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.cli.exits import WrongUsage
from keyferry.cli.options import parse_seconds
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import resolve
from keyferry.clusters.kubeconfig.trust import check_trust
from keyferry.clusters.options import Overrides
from keyferry.errors import EnvironmentProblem
from keyferry.images.config.read import read_config
from keyferry.images.reference import normalise
from keyferry.kit.plugin import (
    KNOWN_VERSIONS,
    PluginKind,
    PluginUnderTest,
    find_program,
    full_api_version,
    plugin_of_provider,
    plugin_of_user,
)
from keyferry.show.writer import report

_MAX_TOKEN = 1 << 20


def add_plugin_arguments(parser: argparse.ArgumentParser, *, versions_help: str) -> None:
    """Declare the plugin, and how it is run; *versions_help* is the help of ``--api-version``."""
    parser.add_argument(
        "--kind",
        choices=[str(kind) for kind in PluginKind],
        metavar="KIND",
        help="image for a plugin of the kubelet, cluster for one of kubectl (default: image; with "
        "--kubeconfig, cluster)",
    )
    group = parser.add_argument_group("running the plugin")
    group.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="ARG",
        help="an argument of the plugin; may be repeated; the words after -- are added",
    )
    group.add_argument(
        "--env",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="an environment variable of the plugin; may be repeated; the value is never shown",
    )
    group.add_argument(
        "--api-version",
        action="append",
        default=[],
        metavar="VERSION",
        help=versions_help,
    )
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one run (default: 60, as in the kubelet)",
    )
    _add_sources(parser)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("image plugins")
    group.add_argument(
        "--config", metavar="PATH", help="take arguments, variables and version from this provider config"
    )
    group.add_argument(
        "--provider", metavar="NAME", help="the provider in that config (default: the plugin's file name)"
    )
    group.add_argument(
        "--service-account-token-file",
        metavar="FILE",
        help="a real service account token to send with requests",
    )
    group.add_argument(
        "--annotation",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="an annotation of that service account; may be repeated",
    )
    group = parser.add_argument_group("cluster plugins")
    group.add_argument(
        "--kubeconfig",
        metavar="PATH",
        help="take command, arguments, variables and version from this kubeconfig",
    )
    group.add_argument(
        "--context", metavar="NAME", help="the context in that kubeconfig (default: the current one)"
    )
    group.add_argument("--user", metavar="NAME", help="use this user instead of the context's")
    group.add_argument(
        "--trust",
        action="store_true",
        help="run the plugin even if another user could have written the kubeconfig",
    )


def make_plugin_under_test(
    args: argparse.Namespace, images: tuple[str, ...], *, where: str
) -> PluginUnderTest:
    """Return the plugin that the options describe; raise WrongUsage, ConfigError or EnvironmentProblem.

    *where* states how the command takes an image.
    """
    kind = PluginKind(args.kind or (PluginKind.CLUSTER if args.kubeconfig else PluginKind.IMAGE))
    _check_kind(args, kind)
    plugin = PluginUnderTest(path="", kind=kind)
    if args.config:
        plugin = plugin_of_provider(_provider(args))
    elif args.kubeconfig:
        plugin = _plugin_of_kubeconfig(args)
    versions = tuple(_version(kind, version) for version in args.api_version)
    plugin = replace(
        plugin,
        path=find_program(args.binary or plugin.path),
        args=(*plugin.args, *args.arg, *args.rest),
        env=(*plugin.env, *args.env),
        api_versions=versions or plugin.api_versions or (full_api_version(kind, "v1"),),
        token=_read_token(args.service_account_token_file),
        annotations=dict(args.annotation),
        timeout_seconds=args.timeout,
    )
    if kind is PluginKind.CLUSTER:
        return plugin
    return replace(plugin, images=_images(images, plugin.images, where))


def _check_kind(args: argparse.Namespace, kind: PluginKind) -> None:
    image_only = ("config", "provider", "service_account_token_file", "annotation")
    for name in image_only if kind is PluginKind.CLUSTER else ("kubeconfig", "context", "user"):
        if getattr(args, name):
            other = PluginKind.IMAGE if kind is PluginKind.CLUSTER else PluginKind.CLUSTER
            raise WrongUsage(f"--{name.replace('_', '-')} is for --kind {other}")
    if not args.binary and not args.kubeconfig:
        raise WrongUsage("no plugin is given; give the path of its executable")


def _provider(args: argparse.Namespace) -> CredentialProvider:
    read = read_config(args.config)
    read.raise_for_problems()
    name = args.provider or args.binary.rpartition("/")[2]
    for provider in read.providers:
        if provider.name == name:
            return provider
    names = ", ".join(repr(provider.name) for provider in read.providers) or "none"
    raise WrongUsage(f"{args.config} has no provider {name!r}, found {names}; choose one with --provider")


def _plugin_of_kubeconfig(args: argparse.Namespace) -> PluginUnderTest:
    overrides = Overrides(context=args.context or "", user=args.user or "")
    config = resolve(load_kubeconfig(args.kubeconfig), overrides)
    if config.exec is None:
        raise WrongUsage(f"user {config.user_name!r} of {args.kubeconfig} has no exec plugin")
    check_trust(config, trust=args.trust)
    return plugin_of_user(config.exec, config.exec_cluster)


def _images(given: tuple[str, ...], configured: tuple[str, ...], where: str) -> tuple[str, ...]:
    images = given or configured
    if not images:
        raise WrongUsage(f"no image is given; give one that the plugin has credentials for, {where}")
    if not given:
        report(f"testing with {', '.join(images)} from matchImages; give others, {where}")
    return tuple(dict.fromkeys(normalise(image) for image in images))


def _version(kind: PluginKind, text: str) -> str:
    versions = {full_api_version(kind, version) for version in KNOWN_VERSIONS[kind]}
    version = full_api_version(kind, text)
    if version not in versions:
        raise WrongUsage(f"--api-version {text!r}: expected one of {', '.join(KNOWN_VERSIONS[kind])}")
    return version


def _read_token(path: str | None) -> str:
    if not path:
        return ""
    try:
        token = read_path(path, _MAX_TOKEN).decode().strip()
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{path} cannot be read: {go_strerror(error)}") from None
    if not token:
        raise EnvironmentProblem(f"{path} is empty, expected a service account token")
    return token


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        # Not quoted: the value may be a secret that was given without a name.
        raise ArgumentTypeError("expected NAME=VALUE")
    return name, value
