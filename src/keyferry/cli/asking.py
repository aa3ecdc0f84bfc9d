"""What ``get`` and ``explain`` share: from options to an answer."""

import argparse
import sys

from keyferry._values import replace
from keyferry.cli.commands import Exit, exit_code
from keyferry.cli.node_settings import plugin_environment
from keyferry.cli.sources import Sources, read_sources
from keyferry.images.answer import Answer
from keyferry.images.discover import Discovery, discover
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.reference import normalise
from keyferry.images.validate import GATE


def ask(args: argparse.Namespace) -> tuple[Answer, Discovery, Sources]:
    """Look up the image of the command line with all its sources."""
    normalise(args.image)  # a wrong image name is said before anything is read
    sources = read_sources(args)
    found = discover(args.config, args.bin_dir, node=args.node)
    sources = replace(sources, notes=(*sources.notes, *found.notes))
    providers = open_providers(args, found, sources)
    answer = providers.lookup(args.image, pod=sources.pod, pull_secrets=sources.pull_secrets)
    return answer, found, sources


def open_providers(args: argparse.Namespace, found: Discovery, sources: Sources) -> Providers:
    """The providers of a node, as the command line says; raises ConfigError."""
    return load_providers(
        found.config,
        found.bin_dir,
        service_accounts=sources.accounts,
        docker_config=sources.docker_config,
        timeout_seconds=args.timeout,
        withhold_env=args.withhold_env,
        environ=plugin_environment(args, found),
        service_account_tokens=_takes_tokens(args, found),
    )


def _takes_tokens(args: argparse.Namespace, found: Discovery) -> bool:
    """The gate of the kubelet whose config it is; on if nobody says."""
    if found.kubelet is None:
        return True
    return bool(args.node.settings_of(found.kubelet).gates.get(GATE, True))


def report_failures(answer: Answer) -> None:
    """Say on standard error which providers failed."""
    for failure in answer.failures:
        print(f"keyferry: {failure}", file=sys.stderr)


def code_for(answer: Answer) -> Exit:
    """0 with credentials; else the failure's code; else 1: the kubelet would pull anonymously."""
    if answer.credentials:
        return Exit.OK
    if answer.failures:
        return exit_code(answer.failures[0].error)
    return Exit.NO


def as_json(document: object) -> str:
    """JSON for people and programs alike."""
    import json

    return json.dumps(document, indent=2, ensure_ascii=False)


def as_yaml(document: object) -> str:
    """The same as YAML."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return text.rstrip("\n")
