"""Explain why the kubelet has, or does not have, credentials for an image, or why pods of a cluster wait for theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry._core.user_info import hide_user_info
from keyferry.cli.exits import Exit, WrongUsage, most_severe
from keyferry.cli.image_arguments import (
    add_lookup_arguments,
    add_on_node_argument,
    add_question_arguments,
    add_registry_arguments,
    add_root_arguments,
    add_selection_arguments,
    choose_wait,
    name_target,
    node_access,
    question_request,
    record_options,
    registry_options,
    selection_fields,
)
from keyferry.cli.options import add_output_argument, parse_seconds
from keyferry.errors import PolicyError
from keyferry.explain.explanation import Outcome
from keyferry.explain.gather import ExplainedPod, explain_inputs, explain_pod
from keyferry.explain.text import banner_blocks, render, render_pods
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.reference import parse_image
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines, report
from keyferry.workloads.inputs import Sources, read_sources, resolve
from keyferry.workloads.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Explain why an image of a pod is pulled or not, or which credentials a kubelet has for an image.

IMAGE is an image, or a pod or workload of a cluster as kubectl names it: pod/web, deploy/web, sts/db. The
command reads the pod, its pull secrets, its service account and its events about pulls with the kubeconfig. A
workload stands for one of its pods that waits for its image, else for its newest pod, else for its template.
If you may not read an object, the output names the missing permission and explains the rest. With -f FILE and
without IMAGE, every pod and workload of the file is explained; with IMAGE, those that use the image. The
status of a pod in the file, and Events beside it, count as those of a cluster do. A single pod in the file is
used for any image.

Without IMAGE and without -f, every pod that waits for an image is explained, of the context's namespace, of that
of -n, or with -A of all; -l, --field-selector and --node select among them. Pods with one cause are one entry:
how many, the image or the registry, since when, one of them as an example, and the first thing to do. A pod that
has ended does not count. Every secret and account is read once; where that is not permitted, the cause is what
the kubelet says. With -o wide, each entry has all cures with their commands, and the names of namespaces, nodes
and pods. With --watch, the pods are listed again and again, until interrupted: a terminal shows the newest
answer, any other output what changed.

What happened comes first: the status of the pod and its events; on the pod's node also the image there and
its record, and which files are newer than the kubelet. Then what a kubelet that reads these files now would do.

The config, the docker config, the records and the mirrors of this machine are used only if it is the pod's
node: if the kubelet that runs here has the name of that node. Otherwise give the node's config with --config
and --bin-dir, or --here if this machine is the node.

With --on-node, the pod's node is asked for its provider config and its plugins' answers, and whatever comes from
there is marked with its name: through the pod of its node agent, by a command in it, or, if none runs there and
--debug-image is given, in a short-lived pod, which also sees the docker config and the image with its record. It
is named before it is made, and deleted in every way out. No secret is sent or comes back.

The first line is the verdict with its cause. What to do follows, in a form that can be pasted, then at most
three notes. With -o wide, the states and events are shown, and every provider with the pattern that matches
the image or the rule that excludes it, whether the plugin was run or the cache was used, how long that took,
and which of the returned auth keys match the image. No secret is shown.

Plugins are run as the kubelet runs them. With --check-registry, the registry also gets a HEAD request for
the image's manifest with each credential in turn. With --cri, --image-id or --root, another runtime and other
records than those of the running kubelet decide whether this pod may use the image that is on the node.

Exit code 0 means that the image runs or can be pulled, or that a credential is found and nothing was tried; 5
that the registry refuses the credential; 4 that a plugin failed and nothing else gives a credential; 1 every
other failure; 6 that it cannot be told, was not tried yet, or something changed since the last attempt; 3 that
an object does not exist. Of many pods, 0 means that none waits for an image; 1 that some do, and of at least one
cause it is known that it is one; 6 that some do, and of no cause it is known (each begins with a question mark)."""

EXAMPLES = """\
examples:
  keyferry explain -A
  keyferry explain -n shop -l app=web --watch
  keyferry explain pod/web -n shop
  keyferry explain pod/web -n shop --on-node
  keyferry explain deploy/web -n shop --context prod --request-token
  kubectl get pod web -o yaml | keyferry explain -f -
  keyferry explain registry.example:5000/team/app:v1
  keyferry explain busybox --config ./providers.yaml --bin-dir ./bin
  kubectl get pod web -o yaml > pod.yaml; kubectl get secret regcred -o yaml > secret.yaml
  keyferry explain registry.example/app -f pod.yaml --secret secret.yaml
  keyferry explain registry.example/app:v1 --check-registry
  sudo keyferry explain registry.example/app:v1 -f pod.yaml --cri auto --policy AlwaysVerify
  keyferry explain registry.example/app --host-root /host       in a debug container that has its host there
  keyferry explain registry.example/app -o json | jq '.traps[].text'"""

FORMATS = ("table", "wide", "json", "yaml")
# The exit code of an outcome, however it became known: 1 for every failure that has none of its own.
_EXITS = {
    Outcome.RUNS: Exit.OK,
    Outcome.FOUND: Exit.OK,
    Outcome.PLUGIN_FAILED: Exit.PLUGIN,
    Outcome.REFUSED: Exit.REFUSED,
    Outcome.CHANGED: Exit.UNKNOWN,
    Outcome.NOT_TRIED: Exit.UNKNOWN,
    Outcome.UNKNOWN: Exit.UNKNOWN,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry explain``."""
    parser.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        help="the image, as a pod names it, or a pod or workload of a cluster, such as pod/web or deploy/web (default: "
        "every pod that waits for an image)",
    )
    add_output_argument(parser, FORMATS)
    parser.add_argument(
        "--no-run",
        action="store_true",
        help="run no plugin: show which providers match, also of a config that would stop a kubelet",
    )
    parser.add_argument(
        "--check-registry",
        action="store_true",
        help="also check each credential with the registry, where and how the node's container runtime asks",
    )
    parser.add_argument(
        "--all-patterns",
        action="store_true",
        help="show every pattern that does not match, not only the nearest: the same as -o wide",
    )
    group = add_selection_arguments(parser)
    group.add_argument(
        "-w", "--watch", action="store_true", help="list them again and again, until interrupted"
    )
    group.add_argument(
        "--interval",
        type=parse_seconds,
        metavar="SECONDS",
        help="the pause between two lists (default: 5, or four times as long as a list takes if that is more)",
    )
    add_lookup_arguments(parser, "the pods or the workload (default: the context's), and of ")
    add_registry_arguments(parser)
    group = add_root_arguments(
        parser,
        "advanced: use of the image that is on the node",
        "the kubelet's root, which has its pull records (default: the running kubelet's, else "
        f"{KUBELET_ROOT}, if any option of this group is given)",
    )
    there = group.add_mutually_exclusive_group()
    there.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="look up the image in this container runtime; 'auto' finds this node's runtime",
    )
    there.add_argument("--image-id", metavar="ID", default="", help="the image's id in the container runtime")
    add_on_node_argument(parser)
    add_question_arguments(parser)


def make_request(args: argparse.Namespace) -> Request:
    """Return what the command line asks; raise WrongUsage."""
    return question_request(
        args,
        **name_target(args.image),
        no_run=args.no_run,
        check_registry=args.check_registry,
        registry=registry_options(args),
        records=record_options(args, args.image_id),
        node_access=node_access(args, is_asked=args.asks_node),
        **selection_fields(args),
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    request = make_request(args)
    if args.interval and not args.watch:
        raise WrongUsage("--interval is the pause of --watch: add --watch")
    if not (request.image or request.target or request.filename):
        return _explain_many(args, request)
    if args.watch:
        raise WrongUsage("--watch is for many pods: leave out the name and -f")
    if request.image:
        parse_image(request.image)  # reports a wrong image name before any file is read
    sources = read_sources(request, wait=choose_wait())
    if request.node_access.is_dry_run:
        from keyferry.explain.node_question import debug_pod_document, node_question

        print(render_document(debug_pod_document(request, sources, node_question), "yaml"))
        return Exit.OK
    try:
        if request.image and len(sources) == 1:
            return _explain_one(args, request, sources[0])
        return _explain_all(args, request, sources)
    except PolicyError as error:
        if not (args.policy or args.allow):
            raise
        raise WrongUsage(str(error)) from None


def _explain_one(args: argparse.Namespace, request: Request, sources: Sources) -> int:
    inputs = resolve(request, sources)
    explanation = explain_inputs(inputs, request.image, wait=choose_wait(), announce=report)
    report(*explanation.facts.warnings)
    if args.output in ("json", "yaml"):
        from keyferry.explain.document import explanation_document

        print(render_document(explanation_document(explanation), args.output))
    else:
        text = render(explanation, is_wide=_is_wide(args), subject=f"image {hide_user_info(request.image)}")
        print(Lines("\n\n".join((*banner_blocks(inputs.banner), text))))
    return _EXITS.get(explanation.outcome, Exit.NO)


def _explain_all(args: argparse.Namespace, request: Request, sources: Sequence[Sources]) -> int:
    pods = [explain_pod(request, each, wait=choose_wait(), announce=report) for each in sources]
    explained = [each.explanation for pod in pods for each in pod.images if each.explanation is not None]
    report(*(warning for each in explained for warning in each.facts.warnings))
    if args.output in ("json", "yaml"):
        from keyferry.explain.document import pods_document

        print(render_document(pods_document(pods), args.output))
    else:
        print(render_pods(pods, is_wide=_is_wide(args)))
    return most_severe(_codes(pods))


def _explain_many(args: argparse.Namespace, request: Request) -> int:
    if request.service_account or request.service_account_token is not None or request.records.image_id:
        raise WrongUsage(
            "--service-account, --service-account-token and --image-id are for one pod: expected an image, "
            "a pod such as pod/web, or -f FILE"
        )
    from keyferry.cli.explain_many import print_waiting, watch_waiting
    from keyferry.explain.cluster.prepare import many_contradiction

    if why_not := many_contradiction(request):
        raise WrongUsage(why_not)
    return watch_waiting(args, request) if args.watch else print_waiting(args, request)


def _is_wide(args: argparse.Namespace) -> bool:
    return bool(args.all_patterns) or args.output == "wide"


def _codes(pods: Sequence[ExplainedPod]) -> Iterator[Exit]:
    """Yield the exit code of each pod without images, then of each image; one without an explanation is not pulled."""
    yield from (Exit.ENVIRONMENT for pod in pods if pod.problem)
    for pod in pods:
        for each in pod.images:
            yield Exit.NO if each.explanation is None else _EXITS.get(each.explanation.outcome, Exit.NO)
