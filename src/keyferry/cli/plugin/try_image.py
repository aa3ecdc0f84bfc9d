"""Try the whole chain of a provider that receives service account tokens."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from keyferry.api.link_line import VARIABLE
from keyferry.cli.exits import EXITS, Exit, WrongUsage, exit_code
from keyferry.cli.frame.node_settings import plugin_environment
from keyferry.cli.frame.registry_arguments import add_registry_arguments, check_credentials, image_mirrors
from keyferry.cli.options import (
    add_config_arguments,
    add_context_arguments,
    add_output_argument,
    add_run_arguments,
    open_session,
)
from keyferry.errors import Kind
from keyferry.explain.chain import Chain, LinkState, chain_document, chain_lines
from keyferry.explain.trial import TrialInput, TrialTools, try_chain
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.provider.accounts import ServiceAccounts
from keyferry.images.reference import ImageName, parse_image
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines, report

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
    add_run_arguments(parser)
    add_context_arguments(parser)
    parser.add_argument(
        "--trust", action="store_true", help="use the kubeconfig even if another user could have written it"
    )
    add_registry_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Try the chain, and print the verdict, the cure and the links."""
    namespace, _, name = args.service_account.rpartition("/")
    if not namespace or not name:
        raise WrongUsage(f"--service-account {args.service_account!r}: expected NAMESPACE/NAME")
    found = discover(args.config, args.bin_dir, node=args.node)
    report(*found.notes)
    asked = _asked(args, found, namespace, name)
    chain = try_chain(asked, _tools(args, found, asked.image))
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


def _asked(args: argparse.Namespace, found: Discovery, namespace: str, name: str) -> TrialInput:
    words = ["kubectl"]
    for option in ("kubeconfig", "context"):
        if value := getattr(args, option):
            words += [f"--{option}", value]
    return TrialInput(
        image=parse_image(args.image),
        namespace=namespace,
        account=name,
        pod=args.pod,
        provider=args.provider,
        config=found.config,
        bin_dir=found.bin_dir,
        kubectl=shlex.join(words),
        timeout_seconds=args.timeout,
    )


def _tools(args: argparse.Namespace, found: Discovery, image: ImageName) -> TrialTools:
    return TrialTools(
        open_providers=lambda accounts, listen: _open_providers(args, found, accounts, listen),
        open_session=lambda: open_session(args),
        check_registry=lambda credentials: check_credentials(
            args, image.repository, credentials, image_mirrors(args, found, is_here=True)
        ),
    )


def _open_providers(
    args: argparse.Namespace,
    found: Discovery,
    accounts: ServiceAccounts | None,
    listen: Callable[[bytes], bytes] | None,
) -> Providers:
    variables = plugin_environment(args, found).variables
    if listen is not None:
        variables = {**(os.environ if variables is None else variables), VARIABLE: "1"}
    settings = ProviderSettings(
        service_accounts=accounts,
        timeout_seconds=args.timeout,
        withhold_env=frozenset(args.withhold_env),
        environ=variables,
        listen=listen,
    )
    return make_providers(found.config, found.bin_dir, settings)
