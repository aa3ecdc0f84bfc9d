"""Explain why the kubelet has, or does not have, credentials for an image."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.user_info import hide_user_info
from keyferry.cli.exits import WrongUsage
from keyferry.cli.frame.image_lookup import add_lookup_arguments, add_question_arguments, look_up_image
from keyferry.cli.frame.registry_arguments import add_registry_arguments
from keyferry.cli.frame.source_files import note_pod_names, pods_of, read_given_objects, sources_of
from keyferry.cli.image.access import add_access_arguments
from keyferry.cli.image.explained import Seen, banner_blocks, exit_code_of, explain_image, find_unread
from keyferry.cli.options import add_output_argument
from keyferry.explain.explanation_document import explanation_document
from keyferry.explain.text import render
from keyferry.images.reference import parse_image
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines
from keyferry.workloads.events import events_about
from keyferry.workloads.targets import parse_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.workloads.objects import KubernetesObject
    from keyferry.workloads.pods import WorkloadPod

DESCRIPTION = """\
Explain why an image of a pod is pulled or not, or which credentials a kubelet has for an image.

IMAGE is an image, or a pod or workload of a cluster as kubectl names it: pod/web, deploy/web, sts/db. The
command reads the pod, its pull secrets, its service account and its events about pulls with the kubeconfig. A
workload stands for one of its pods that waits for its image, else for its newest pod, else for its template.
If you may not read an object, the output names the missing permission and explains the rest. With -f FILE and
without IMAGE, every pod and workload of the file is explained; with IMAGE, those that use the image. The
status of a pod in the file, and Events beside it, count as those of a cluster do. A single pod in the file is
used for any image.

What happened comes first: the status of the pod and its events; on the pod's node also the image there and
its record, and which files are newer than the kubelet. Then what a kubelet that reads these files now would do.

The config, the docker config, the records and the mirrors of this machine are used only if it is the pod's
node: if the kubelet that runs here has the name of that node. Otherwise give the node's config with --config
and --bin-dir, or --here if this machine is the node.

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
an object does not exist."""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    target = parse_target(args.image or "")
    if target is not None:
        from keyferry.cli.image.explain_pods import explain_target

        return explain_target(args, target)
    if args.image:
        parse_image(args.image)  # reports a wrong image name before any file is read
    elif not (args.filename or args.pod):
        raise WrongUsage("expected an image, a pod such as pod/web, or -f FILE")
    objects = read_given_objects(args)
    pods = pods_of(args, objects, (args.image,) if args.image else ())
    if args.image and len(pods) <= 1:
        note_pod_names(args, pods, (args.image,))
        return _explain_one(args, objects, pods[0] if pods else None)
    from keyferry.cli.image.explain_pods import explain_files

    return explain_files(args, objects, pods)


def _explain_one(
    args: argparse.Namespace, objects: Sequence[KubernetesObject], pod: WorkloadPod | None
) -> int:
    lookup = look_up_image(args, sources_of(args, objects, pod, (args.image,)))
    seen = Seen()
    if pod is not None:
        events, unread = events_about(pod.workload, objects), find_unread(args, lookup.inputs)
        seen = Seen(pod=pod, containers=pod.using(args.image), events=events, unread=unread)
    explanation = explain_image(args, lookup, (args.image,), seen)
    if args.output in ("json", "yaml"):
        print(render_document(explanation_document(explanation), args.output))
    else:
        is_wide = args.all_patterns or args.output == "wide"
        text = render(explanation, is_wide=is_wide, subject=f"image {hide_user_info(args.image)}")
        print(Lines("\n\n".join((*banner_blocks(lookup.inputs), text))))
    return exit_code_of(explanation)
