"""Why the kubelet would, or would not, have credentials for an image."""

import argparse

from keyferry.cli.arguments import add_config_arguments, add_output_argument, add_run_arguments
from keyferry.cli.asking import as_json, as_yaml, ask, code_for
from keyferry.cli.explain_access import add_access_arguments, decide_access
from keyferry.cli.node_settings import environment_text, environment_traps
from keyferry.cli.registry_arguments import add_registry_arguments, check_answer, code_for_check
from keyferry.cli.sources import Sources, add_source_arguments
from keyferry.cli.terminal import style
from keyferry.explain.decision import decision_document, decision_lines
from keyferry.explain.document import explanation_document
from keyferry.explain.registry import attempt_lines, check_document
from keyferry.explain.text import render
from keyferry.images.discover import Discovery

DESCRIPTION = """\
Why the kubelet would, or would not, have credentials for an image.

For each provider: which pattern covers the image, or which rule said no; whether the plugin ran
or the cache answered, and how long it took; which auth keys it returned and which of them cover
the image. Then the order of trial, what the kubelet does next, and every trap that applies.
No secret is shown. Plugins are run as the kubelet runs them. With --check-registry the registry
is asked, too, for the head of the image's manifest, with each credential in turn. With --cri,
--image-id or --root it says whether this pod may use the image that is on the node already: by
which record, under which policy, by which rule."""

EXAMPLES = """\
examples:
  keyferry explain registry.example:5000/team/app:v1
  keyferry explain busybox --config ./providers.yaml --bin-dir ./bin
  kubectl get pod web -o yaml > pod.yaml; kubectl get secret regcred -o yaml > secret.yaml
  keyferry explain registry.example/app --pod pod.yaml --secret secret.yaml
  keyferry explain registry.example/app:v1 --check-registry
  sudo keyferry explain registry.example/app:v1 --pod pod.yaml --cri auto --policy AlwaysVerify
  keyferry explain registry.example/app -o json | jq '.traps[].text'"""

FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``keyferry explain``."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it")
    add_output_argument(parser, FORMATS)
    parser.add_argument(
        "--all-patterns",
        action="store_true",
        help="show every pattern that missed, not just the nearest (wide does too)",
    )
    add_config_arguments(parser)
    add_source_arguments(parser)
    add_run_arguments(parser)
    add_registry_arguments(parser, "--check-registry")
    add_access_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    answer, found, sources = ask(args)
    attempts = check_answer(args, answer) if args.check_registry else ()
    decision = decide_access(args, answer)
    traps = environment_traps(args, found)
    environment = environment_text(args, found)
    if args.output in ("json", "yaml"):
        checked = check_document(attempts) if attempts else None
        access = None if decision is None else decision_document(decision)
        document = explanation_document(
            answer,
            config=_config(found, sources, environment),
            registry=checked,
            access=access,
            traps=traps,
        )
        print(as_json(document) if args.output == "json" else as_yaml(document))
    else:
        all_patterns = args.all_patterns or args.output == "wide"
        said = tuple(attempt_lines(attempts))
        where = _where(found, sources, environment)
        access_lines = () if decision is None else tuple(decision_lines(decision))
        text = render(
            answer,
            where=where,
            style=style,
            all_patterns=all_patterns,
            registry=said,
            access=access_lines,
            traps=traps,
        )
        print(text)
    return code_for_check(answer, attempts) if attempts else code_for(answer)


def _config(found: Discovery, sources: Sources, environment: str) -> dict[str, object]:
    return {
        "path": found.config,
        "pathFrom": found.config_from,
        "binDir": found.bin_dir,
        "binDirFrom": found.bin_dir_from,
        "environmentFrom": environment,
        "dockerConfig": sources.docker_config,
        "pullSecrets": [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets],
        "notes": list(sources.notes),
    }


def _where(found: Discovery, sources: Sources, environment: str) -> tuple[str, ...]:
    secrets = ", ".join(f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets)
    return (
        f"pull secrets: {secrets or 'none given (--pod, --secret)'}",
        f"node docker config: {sources.docker_config or 'none given (--docker-config)'}",
        f"providers: {found.config} ({found.config_from})",
        f"plugins: {found.bin_dir} ({found.bin_dir_from}), in the environment of {environment}",
        *sources.notes,
    )
