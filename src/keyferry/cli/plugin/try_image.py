"""Try the whole chain of a provider that receives service account tokens."""

from __future__ import annotations

from keyferry.cli.exits import EXITS, Exit, WrongUsage, exit_code
from keyferry.cli.image_arguments import add_registry_arguments, choose_wait, registry_options
from keyferry.cli.options import (
    add_config_arguments,
    add_context_arguments,
    add_host_root_argument,
    add_output_argument,
    add_run_arguments,
    cluster_options,
)
from keyferry.errors import Kind
from keyferry.explain.links import LinkState
from keyferry.explain.trial import Chain, chain_document, chain_lines, try_chain
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines, report
from keyferry.workloads.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Try the whole chain from a service account to an image, for a provider that receives service account tokens
(tokenAttributes in its config), and find the link that is broken:

  provider  the provider that matches the image, and its audience
  account   the service account and the annotations that the provider requires
  token     a token for the audience, requested with your own permissions
  node      whether kubelets may request tokens for the audience, which Kubernetes restricts since 1.33
  claims    the claims that the registry's cloud compares with its trust policy; never the token
  plugin    the plugin's response, without secrets; before it, after '>', the plugin's own steps if it reports them
  keys      the credentials of the response that match the image
  registry  the registry's response to each of them; nothing is downloaded

Missing permissions are printed as objects for 'kubectl apply -f -' by an administrator. Exit code 0 means that
every link is in order. Else it is that of the first broken link: 1 for the provider, account, claims and keys,
4 for the plugin, 5 if kubelets may not request the audience or the registry refuses access. 6 means that no
link is broken and one is unknown, such as a server that cannot be reached or that refuses you access; 124 is a
timeout."""

EXAMPLES = """\
examples:
  keyferry plugin try 1234.dkr.ecr.eu-west-1.amazonaws.com/app:v1 --service-account shop/puller
  keyferry plugin try team.azurecr.io/app:v1 --service-account shop/puller --pod web --context prod
  keyferry plugin try registry.example/app --service-account shop/puller -o json | jq .firstProblem"""

FORMATS = ("table", "json", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry plugin try``."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it")
    parser.add_argument(
        "--service-account", metavar="NS/NAME", required=True, help="the service account of the pods"
    )
    parser.add_argument(
        "--pod", metavar="NAME", default="", help="bind the token to this pod, as the kubelet does"
    )
    parser.add_argument(
        "--provider",
        metavar="NAME",
        default="",
        help="the provider in the config (default: the first that matches and receives tokens)",
    )
    add_output_argument(parser, FORMATS)
    add_config_arguments(parser)
    add_host_root_argument(parser)
    add_run_arguments(parser)
    add_context_arguments(parser)
    parser.add_argument(
        "--trust", action="store_true", help="use the kubeconfig even if another user could have written it"
    )
    add_registry_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Try the chain, and print the verdict, the cure and the links."""
    request = Request(
        image=args.image,
        service_account=args.service_account,
        config=args.config,
        bin_dir=args.bin_dir,
        timeout_seconds=args.timeout,
        withhold_env=tuple(args.withhold_env),
        env_from=args.env_from or "",
        cluster=cluster_options(args),
        registry=registry_options(args),
    )
    if request.contradiction:
        raise WrongUsage(request.contradiction)
    chain = try_chain(request, pod=args.pod, provider=args.provider, wait=choose_wait())
    report(*chain.notes)
    if args.output == "table":
        print(Lines("\n".join(chain_lines(chain))))
    else:
        print(render_document(chain_document(chain), args.output))
    return code_for_chain(chain)


def code_for_chain(chain: Chain) -> Exit:
    """Return the exit code of the first problem: 6 if it is unknown, else that of its error or kind."""
    link = chain.culprit
    if link is None:
        return Exit.OK
    if link.state is LinkState.UNKNOWN:
        return Exit.TIMEOUT if link.kind is Kind.TIMEOUT else Exit.UNKNOWN
    if link.error is not None:
        return exit_code(link.error)
    return Exit.NO if link.kind is None else EXITS[link.kind]
