"""Explain why the kubelet has, or does not have, credentials for an image."""

from keyferry._core.values import replace
from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import WrongUsage
from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    Inputs,
    add_lookup_arguments,
    add_question_arguments,
    look_up_image,
    missing_lines,
)
from keyferry.cli.frame.node_settings import PluginEnvironment
from keyferry.cli.frame.paste import command_line
from keyferry.cli.frame.registry_arguments import add_registry_arguments, check_answer, image_mirrors
from keyferry.cli.frame.source_files import note_pod_names, pods_of, read_given_objects, sources_of
from keyferry.cli.image.access import add_access_arguments, decide_access
from keyferry.cli.image.explanation_output import banner_blocks, explanation_code
from keyferry.explain.explanation import Explanation
from keyferry.explain.mirrors import mirror_traps
from keyferry.explain.text import render
from keyferry.images.missing import ACCOUNT_INPUTS, LookupInput
from keyferry.images.reference import parse_image
from keyferry.show.documents import render_document
from keyferry.show.paste import quote_word
from keyferry.show.writer import Lines
from keyferry.workloads.secrets import UnusedReason
from keyferry.workloads.targets import parse_target

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from keyferry.cli.frame.sources import Sources
    from keyferry.images.answer import Answer
    from keyferry.workloads.objects import KubernetesObject
    from keyferry.workloads.pods import PodContainer, WorkloadPod

DESCRIPTION = """\
Explain why the kubelet has, or does not have, credentials for an image, or for every container of a pod.

IMAGE is an image, or a pod or workload of a cluster as kubectl names it: pod/web, deploy/web, sts/db. The
command reads the pod, its pull secrets, its service account and its events about pulls with the kubeconfig. A
workload stands for one of its pods that waits for its image, else for its pod template. If you may not read
an object, the output names the missing permission and explains the rest. With -f FILE and without IMAGE, every
pod and workload of the file is explained; with IMAGE, those that use the image. A single pod in the file is
used for any image.

The config, the docker config, the records and the mirrors of this machine are used only if it is the pod's
node: if the kubelet that runs here has the name of that node. Otherwise give the node's config with --config
and --bin-dir, or --here if this machine is the node.

The first line is the verdict: whether a credential is found or, with --check-registry, whether the image can
be pulled, and with what. The likely cause follows, then what to do about it in a form that can be pasted,
then what was nearly right. With -o wide, every provider is shown with the pattern that matches the image or
the rule that excludes it, whether the plugin was run or the cache was used, how long that took, and which of
the returned auth keys match the image. No secret is shown.

Plugins are run as the kubelet runs them. With --check-registry, the registry also gets a HEAD request for
the image's manifest with each credential in turn. With --cri, --image-id or --root, the explanation shows
whether this pod may use the image that is already on the node, by which record, policy and rule.

The exit code is that of 'keyferry get' or, with --check-registry, that of 'keyferry can-pull'. For a container
with imagePullPolicy: Never it is 0 or 1 by the node's records, and 6 without them. It is 1 for a pull secret
that cannot be read, and 3 for an object that does not exist."""

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
    parser.add_argument(
        "--no-run",
        action="store_true",
        help="run no plugin: show which providers match, also of a config that would stop a kubelet",
    )
    parser.add_argument(
        "--all-patterns",
        action="store_true",
        help="show every pattern that does not match, not only the nearest: the same as -o wide",
    )
    add_lookup_arguments(parser, "the pod or workload, and of ")
    add_registry_arguments(parser, "--check-registry")
    add_access_arguments(parser)
    add_question_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the explanation."""
    target = parse_target(args.image or "")
    if target is not None:
        # Imported here because an image alone needs no cluster.
        from keyferry.cli.image.explain_pods import explain_target

        return explain_target(args, target, explain_image)
    if args.image:
        parse_image(args.image)  # reports a wrong image name before any file is read
    elif not (args.filename or args.pod):
        raise WrongUsage("expected an image, a pod such as pod/web, or -f FILE")
    objects = read_given_objects(args)
    pods = pods_of(args, objects, (args.image,) if args.image else ())
    if args.image and len(pods) <= 1:
        note_pod_names(args, pods, (args.image,))
        return _explain_one(args, objects, pods[0] if pods else None)
    # Imported here because an image alone needs no pods.
    from keyferry.cli.image.explain_pods import explain_files

    return explain_files(args, objects, pods, explain_image)


def _explain_one(
    args: "argparse.Namespace", objects: "Sequence[KubernetesObject]", pod: "WorkloadPod | None"
) -> int:
    lookup = look_up_image(args, sources_of(args, objects, pod, (args.image,)))
    containers = () if pod is None else pod.using(args.image)
    explanation = explain_image(args, lookup, (args.image,), containers)
    if args.output in ("json", "yaml"):
        from keyferry.explain.explanation_document import explanation_document

        print(render_document(explanation_document(explanation), args.output))
    else:
        text = render(explanation, is_wide=args.all_patterns or args.output == "wide")
        print(Lines("\n\n".join((*banner_blocks(lookup.inputs), text))))
    return explanation_code(explanation)


def explain_image(
    args: "argparse.Namespace",
    lookup: ImageLookup,
    words: tuple[str, ...],
    containers: "Sequence[PodContainer]" = (),
) -> Explanation:
    """Explain the answer for the image of *args*, with the registry and the node's records if options ask for it.

    *words* name what the command line asks about: an image, or a workload. *containers* are those of the pod that use
    the image.
    """
    answer, inputs = lookup.answer, lookup.inputs
    mirrors = image_mirrors(args, inputs.found, is_here=args.check_registry)
    is_checked = args.check_registry and inputs.sources.unreadable is None
    # The agent's plugins have its environment, not the one that was found for plugins that are run here.
    if answer.provisions and all(provision.is_from_agent for provision in answer.provisions):
        inputs = replace(inputs, environment=PluginEnvironment("the node agent"))
    return Explanation(
        answer,
        check=check_answer(args, answer, mirrors) if is_checked else None,
        decision=decide_access(args, answer),
        config=_config(inputs),
        where=_where(inputs),
        notes=inputs.notes[len(inputs.banner) :],
        traps=(*inputs.environment.traps, *mirror_traps(answer, mirrors)),
        hints=tuple(missing_lines(answer.missing, args)),
        pod=inputs.sources.pod,
        secret_names=_secret_names(inputs.sources),
        unused=inputs.sources.unused,
        is_never_pulled=bool(containers) and all(each.is_never_pulled for each in containers),
        command=command_line(args, "explain", *words),
        try_command=_try_command(args, answer),
        account_lines=tuple(_account_lines(args, answer, words)),
    )


def _try_command(args: "argparse.Namespace", answer: "Answer") -> str:
    """Return ``plugin try`` for the account whose token is refused, with the options of *args*; empty if none is."""
    for missing in answer.missing:
        if missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN and missing.instead:
            # Imported here because few tokens are refused.
            from copy import copy

            own = copy(args)
            # The deprecated --pod FILE of this command is another option than --pod NAME of that one.
            own.service_account, own.pod = missing.name, None
            return command_line(own, "plugin try", answer.image)
    return ""


def _account_lines(args: "argparse.Namespace", answer: "Answer", words: tuple[str, ...]) -> "Iterator[str]":
    """Yield the commands that add the missing service account to the file of *args*, and ask again."""
    missing = next((each for each in answer.missing if each.input in ACCOUNT_INPUTS), None)
    given = args.filename or args.pod
    if missing is None or args.is_live or not given:
        return
    # Imported here because few explanations lack the account.
    from copy import copy

    namespace, _, name = missing.name.partition("/")
    own = copy(args)
    own.filename, own.pod = f"with-{missing.name.replace('/', '-')}.yaml", None
    file = "FILE" if given == "-" else quote_word(given)
    account = f"kubectl get serviceaccount {quote_word(name)} -n {quote_word(namespace)} -o yaml"
    yield f"(cat {file}; echo; echo ---; {account}) > {quote_word(own.filename)}"
    yield command_line(own, "explain", *words)


def _secret_names(sources: "Sources") -> tuple[str, ...]:
    """Return the names of the pull secrets that the pod lists, given or not."""
    given = (secret.name for secret in sources.pull_secrets)
    absent = (each.name for each in sources.unused if each.reason is UnusedReason.ABSENT)
    missing = (each.name for each in sources.missing if each.input is LookupInput.PULL_SECRET)
    return (*given, *absent, *missing)


def _secret_words(sources: "Sources") -> "Iterator[str]":
    """Yield each pull secret that the pod lists, with what is wrong with it."""
    yield from (f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets)
    for unused in sources.unused:
        if unused.reason is UnusedReason.ABSENT:
            yield f"{unused.namespace}/{unused.name} (does not exist)"
    for missing in sources.missing:
        if missing.input is LookupInput.PULL_SECRET:
            yield f"{missing.name} (not known)"


def _docker_config_words(sources: "Sources") -> str:
    if sources.docker_config_from == "given":
        return sources.docker_config or "none given (--docker-config)"
    return f"{sources.docker_config or 'none'} ({sources.docker_config_from})"


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
    inputs_missing = {each.input for each in sources.missing}
    none = "the pod lists none"
    if LookupInput.POD in inputs_missing:
        none = "not given (-f, --secret)"
    elif LookupInput.ACCOUNT_SECRETS in inputs_missing:
        none = "not known; the pod lists none, and its service account may"
    plugins = f"{found.bin_dir} ({found.bin_dir_from}), in the environment of {inputs.environment.owner}"
    return (
        f"pull secrets: {', '.join(_secret_words(sources)) or none}",
        f"node docker config: {_docker_config_words(sources)}",
        *((f"providers: {found.config} ({found.config_from})",) if found.config else ()),
        *((f"plugins: {plugins}",) if found.config and found.bin_dir else ()),
    )
