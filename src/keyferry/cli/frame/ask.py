"""What ``get`` and ``explain`` share: from options to an answer."""

import argparse
import sys

from keyferry._core.secrets import escape_controls, printable
from keyferry._core.values import replace
from keyferry.cli.frame.commands import Exit, exit_code
from keyferry.cli.frame.node_settings import environment_notes, plugin_environment
from keyferry.cli.frame.sources import OPTIONS, Sources, read_sources
from keyferry.cli.frame.terminal import Lines
from keyferry.images.answer import Answer
from keyferry.images.config.validate import GATE
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.missing import Missing
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.reference import normalise


def ask(args: argparse.Namespace) -> tuple[Answer, Discovery, Sources]:
    """Look up the image of the command line with all its sources."""
    normalise(args.image)  # a wrong image name is said before anything is read
    sources = read_sources(args)
    found = discover(args.config, args.bin_dir, node=args.node)
    sources = replace(sources, notes=(*sources.notes, *found.notes))
    providers = open_providers(args, found, sources)
    answer = providers.lookup(args.image, pod=sources.pod, pull_secrets=sources.pull_secrets)
    return replace(answer, untold=sources.missing), found, sources


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
    for failure in answer.kubelet_failures:
        print(f"keyferry: {failure}", file=sys.stderr)


def report_sources(args: argparse.Namespace, answer: Answer, found: Discovery, sources: Sources) -> None:
    """Say on standard error what is odd about the sources, and which option would tell what is missing."""
    environment = environment_notes(args, found) if answer.provisions else []
    for line in (*sources.notes, *environment, *missing_lines(answer.missing)):
        print(f"keyferry: {line}", file=sys.stderr)


def missing_lines(missing: tuple[Missing, ...]) -> list[str]:
    """What was not given, and the option that gives it."""
    return [f"{each}; {OPTIONS[each.input]} tells" for each in missing]


def code_for(answer: Answer) -> Exit:
    """0 with credentials; else the failure's code; else 6 if something is missing, and 1 for an anonymous pull."""
    if answer.credentials:
        return Exit.OK
    if answer.kubelet_failures:
        return exit_code(answer.kubelet_failures[0].error)
    return Exit.UNKNOWN if answer.missing else Exit.NO


def as_json(document: object) -> Lines:
    """JSON for people and programs alike; what could harm a terminal is escaped, so it stays JSON."""
    import json

    is_plain = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    return Lines(escape_controls(json.dumps(document, indent=2, ensure_ascii=is_plain)))


def as_yaml(document: object) -> Lines:
    """The same as YAML."""
    import yaml

    def dump(*, allow_unicode: bool) -> str:
        return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=allow_unicode, width=110))

    text = dump(allow_unicode=True)
    if printable(text, "\n") != text:
        text = dump(allow_unicode=False)
    return Lines(text.rstrip("\n"))
