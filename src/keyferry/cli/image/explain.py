"""Explain why the kubelet has, or does not have, credentials for an image."""

from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    Inputs,
    add_image_and_output_arguments,
    add_lookup_arguments,
    code_for,
    look_up_image,
    missing_lines,
)
from keyferry.cli.frame.paste import command_line
from keyferry.cli.frame.registry_arguments import add_registry_arguments, check_answer, code_for_check
from keyferry.cli.image.access import add_access_arguments, decide_access
from keyferry.explain.explanation import Explanation
from keyferry.explain.text import render
from keyferry.images.missing import LookupInput
from keyferry.show.documents import render_document

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

    from keyferry.cli.frame.sources import Sources

DESCRIPTION = """\
Explain why the kubelet has, or does not have, credentials for an image.

The first line is the verdict: whether a credential is found or, with --check-registry, whether the image can
be pulled, and with what. The likely cause follows, then what to do about it in a form that can be pasted,
then what was nearly right. With -o wide, every provider is shown with the pattern that matches the image or
the rule that excludes it, whether the plugin was run or the cache was used, how long that took, and which of
the returned auth keys match the image. No secret is shown.

Plugins are run as the kubelet runs them. With --check-registry, the registry also gets a HEAD request for
the image's manifest with each credential in turn. With --cri, --image-id or --root, the explanation shows
whether this pod may use the image that is already on the node, by which record, policy and rule.

The exit code is that of 'keyferry get' or, with --check-registry, that of 'keyferry can-pull'."""

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


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry explain``."""
    add_image_and_output_arguments(parser, FORMATS)
    parser.add_argument(
        "--all-patterns",
        action="store_true",
        help="show every pattern that does not match, not only the nearest: the same as -o wide",
    )
    add_lookup_arguments(parser)
    add_registry_arguments(parser, "--check-registry")
    add_access_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the explanation."""
    explanation = explain_image(args, look_up_image(args))
    if args.output in ("json", "yaml"):
        from keyferry.explain.explanation_document import explanation_document

        print(render_document(explanation_document(explanation), args.output))
    else:
        print(render(explanation, is_wide=args.all_patterns or args.output == "wide"))
    answer, check = explanation.answer, explanation.check
    return code_for(answer) if check is None else code_for_check(answer, check)


def explain_image(args: "argparse.Namespace", lookup: ImageLookup) -> Explanation:
    """Explain the answer for the image of *args*, with the registry and the node's records if options ask for it."""
    answer, inputs = lookup.answer, lookup.inputs
    return Explanation(
        answer,
        check=check_answer(args, answer) if args.check_registry else None,
        decision=decide_access(args, answer),
        config=_config(inputs),
        where=_where(inputs),
        notes=inputs.notes,
        traps=inputs.environment.traps,
        hints=tuple(missing_lines(answer.missing)),
        pod=inputs.sources.pod,
        secret_names=_secret_names(inputs.sources),
        command=command_line(args, "explain", args.image),
    )


def _secret_names(sources: "Sources") -> tuple[str, ...]:
    """Return the names of the pull secrets that the pod lists, given or not."""
    given = (secret.name for secret in sources.pull_secrets)
    return (*given, *(missing.name for missing in sources.missing_secrets))


def _config(inputs: Inputs) -> dict[str, object]:
    found, sources = inputs.found, inputs.sources
    return {
        "path": found.config,
        "pathFrom": found.config_from,
        "binDir": found.bin_dir,
        "binDirFrom": found.bin_dir_from,
        "environmentFrom": inputs.environment.owner,
        "dockerConfig": sources.docker_config,
        "pullSecrets": [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets],
        "notes": list(inputs.notes),
    }


def _where(inputs: Inputs) -> tuple[str, ...]:
    found, sources = inputs.found, inputs.sources
    secrets = ", ".join(f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets)
    is_known = not any(each.input in (LookupInput.POD, LookupInput.PULL_SECRET) for each in sources.missing)
    none = "the pod lists none" if is_known else "not given (--pod, --secret)"
    return (
        f"pull secrets: {secrets or none}",
        f"node docker config: {sources.docker_config or 'none given (--docker-config)'}",
        f"providers: {found.config} ({found.config_from})",
        f"plugins: {found.bin_dir} ({found.bin_dir_from}), in the environment of {inputs.environment.owner}",
    )
