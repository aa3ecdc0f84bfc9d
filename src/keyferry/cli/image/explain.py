"""Explain why the kubelet has, or does not have, credentials for an image."""

from keyferry._core.secrets import printable
from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import WrongUsage
from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    Inputs,
    add_lookup_arguments,
    add_question_arguments,
    code_for,
    look_up_image,
    missing_lines,
)
from keyferry.cli.frame.registry_arguments import add_registry_arguments, check_answer, code_for_check
from keyferry.cli.image.access import add_access_arguments, decide_access
from keyferry.cli.image.explained import ExplainedImage
from keyferry.explain.document import explanation_document
from keyferry.explain.registry import attempt_lines, check_document
from keyferry.explain.text import render
from keyferry.images.missing import LookupInput
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines, style
from keyferry.workloads.targets import parse_target

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

    from keyferry.images.answer import Answer
    from keyferry.pulls.records.decision import Decision

DESCRIPTION = """\
Explain why the kubelet has, or does not have, credentials for an image, or for every container of a pod.

IMAGE is an image, or a pod or workload of a cluster as kubectl names it: pod/web, deploy/web, sts/db. The pod,
its pull secrets, its service account and its events about pulls are then read with the kubeconfig; for a
workload, a pod of it that waits for its image, else its template. What this user may not read is named, and
the rest is explained. With -f FILE and without IMAGE, every pod and workload of the file is explained.

Unless the kubelet that runs on this machine has the name of the pod's node, nothing of this machine counts as
the node's: give the node's config with --config and --bin-dir, or --here if this machine is the node.

For each provider, the explanation shows which pattern matches the image or which rule excludes it,
whether the plugin was run or the cache was used, how long that took, and which of the returned auth
keys match the image. The trial order, the kubelet's next step and all common mistakes that apply follow.
No secret is shown. Plugins are run as the kubelet runs them. With --check-registry, the registry also
gets a HEAD request for the image's manifest with each credential in turn. With --cri, --image-id or
--root, the explanation shows whether this pod may use the image that is already on the node, by which
record, policy and rule.

The exit code is that of 'keyferry get' or, with --check-registry, that of 'keyferry can-pull'."""

EXAMPLES = """\
examples:
  keyferry explain pod/web -n shop
  keyferry explain deploy/web -n shop --context prod --request-token
  kubectl get pod web -o yaml | keyferry explain -f -
  keyferry explain registry.example:5000/team/app:v1
  keyferry explain busybox --config ./providers.yaml --bin-dir ./bin
  kubectl get pod web -o yaml > pod.yaml; kubectl get secret regcred -o yaml > secret.yaml
  keyferry explain registry.example/app -f pod.yaml --secret secret.yaml
  keyferry explain registry.example/app:v1 --check-registry
  sudo keyferry explain registry.example/app:v1 -f pod.yaml --cri auto --policy AlwaysVerify
  keyferry explain registry.example/app -o json | jq '.traps[].text'"""

FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry explain``."""
    parser.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        help="the image, as a pod names it, or a pod or workload of a cluster, such as pod/web or deploy/web",
    )
    add_output_argument(parser, FORMATS)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="the namespace of the pod or workload")
    parser.add_argument(
        "--no-run",
        action="store_true",
        help="run no plugin: show which providers match, also of a config that would stop a kubelet",
    )
    parser.add_argument(
        "--all-patterns",
        action="store_true",
        help="show every pattern that does not match, not only the nearest (as the format wide does)",
    )
    add_lookup_arguments(parser)
    add_registry_arguments(parser, "--check-registry")
    add_access_arguments(parser)
    add_question_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the explanation."""
    target = parse_target(args.image or "")
    if target is None and args.image:
        explained = explain_image(args, look_up_image(args))
        is_document = args.output in ("json", "yaml")
        print(render_document(explained.document, args.output) if is_document else explained.text)
        return explained.code
    # Imported here because an image alone needs neither pods nor clusters.
    from keyferry.cli.image.explain_pods import explain_files, explain_target

    if target is not None:
        return explain_target(args, target, explain_image)
    if not (args.filename or args.pod):
        raise WrongUsage("expected an image, a pod such as pod/web, or -f FILE")
    return explain_files(args, explain_image)


def explain_image(args: "argparse.Namespace", lookup: ImageLookup) -> ExplainedImage:
    """Explain the answer for the image of *args*, with the registry and the node's records if options ask for it."""
    answer, inputs, traps = lookup.answer, lookup.inputs, lookup.inputs.environment.traps
    check = check_answer(args, answer) if args.check_registry else None
    decision = decide_access(args, answer)
    code = code_for(answer) if check is None else code_for_check(answer, check)
    if args.output in ("json", "yaml"):
        checked = None if check is None else check_document(check)
        access = _access_document(decision, answer)
        document = explanation_document(
            answer,
            config=_config(inputs),
            registry=checked,
            access=access,
            traps=traps,
        )
        return ExplainedImage(Lines(""), document, code)
    all_patterns = args.all_patterns or args.output == "wide"
    said = () if check is None else tuple(attempt_lines(check))
    where = _where(inputs)
    access_lines = _access_lines(decision, answer)
    text = render(
        answer,
        where=where,
        all_patterns=all_patterns,
        registry=said,
        access=access_lines,
        traps=traps,
        hints=tuple(missing_lines(answer.missing)),
    )
    banner = (style(printable(line), "bold", "red") for line in inputs.banner)
    return ExplainedImage(Lines("\n".join((*banner, *([""] if inputs.banner else []), text))), {}, code)


def _access_document(decision: "Decision | None", answer: "Answer") -> dict[str, object] | None:
    if decision is None:
        return None
    # Imported here because records import many modules that other uses do not need.
    from keyferry.explain.decision import decision_document

    return decision_document(decision, answer.missing)


def _access_lines(decision: "Decision | None", answer: "Answer") -> tuple[str, ...]:
    if decision is None:
        return ()
    from keyferry.explain.decision import decision_lines

    return tuple(decision_lines(decision, answer.missing))


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
    names = [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets]
    secrets = ", ".join((*names, *(f"{each.name} (not known)" for each in sources.missing_secrets)))
    is_known = not any(each.input is LookupInput.POD for each in sources.missing)
    none = "the pod lists none" if is_known else "not given (-f, --secret)"
    plugins = f"{found.bin_dir} ({found.bin_dir_from}), in the environment of {inputs.environment.owner}"
    return (
        f"pull secrets: {secrets or none}",
        f"node docker config: {sources.docker_config or 'none given (--docker-config)'}",
        *((f"providers: {found.config} ({found.config_from})",) if found.config else ()),
        *((f"plugins: {plugins}",) if found.config and found.bin_dir else ()),
        *inputs.notes[len(inputs.banner) :],
    )
