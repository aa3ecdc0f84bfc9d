"""Print the credential of a context as an ExecCredential, so that keyferry can be a plugin."""

from __future__ import annotations

import os
import sys

from keyferry._core.user_info import hide_in_url
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_session_arguments, open_session
from keyferry.errors import EnvironmentProblem
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.clusters.session import ClusterSession

DESCRIPTION = """\
Print the credential of a context as an ExecCredential: a token, a certificate with its key, or both, and
their expiry. The version is the one of KUBERNETES_EXEC_INFO, else v1. With this command, keyferry can be the
exec plugin of another kubeconfig and add a policy, a time limit or a user from another file to kubectl.

A terminal shows nothing unless --reveal is given, which prints only the token."""

EXAMPLES = """\
examples:
  curl -H "Authorization: Bearer $(keyferry kube token --reveal)" https://api.example/version
  users:                                       # in a kubeconfig
  - name: ferried
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: keyferry
        args: [kube, token, --kubeconfig, /path/to/other, --context, prod]
        interactiveMode: IfAvailable"""

# The users whose credential is being obtained, outermost first: a context must not be its own plugin.
_CHAIN = "KEYFERRY_KUBE_TOKEN_CHAIN"
_BASIC, _BEARER = "Basic ", "Bearer "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube token``."""
    parser.add_argument("--reveal", action="store_true", help="print only the token, also on a terminal")
    add_session_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the credential."""
    if sys.stdout.isatty() and not args.reveal:
        message = "the credential is a secret and standard output is a terminal: show the token with --reveal"
        raise WrongUsage(f"{message}, or write the ExecCredential to a pipe or file")
    api_version = _asked_version()
    session = open_session(args)
    _enter_chain(session)
    status = _status(session)
    if args.reveal:
        return _print_token(status)
    _warn_of_losses(session)
    from keyferry._core.json import dumps

    _print(dumps({"kind": "ExecCredential", "apiVersion": api_version, "status": status}))
    return Exit.OK


def _asked_version() -> str:
    """Return the version that the client of this plugin requests, else v1; raise EnvironmentProblem."""
    from keyferry.api.clientauthentication.v1 import API_VERSIONS
    from keyferry.clusters.auth.credential import Refusal, decode
    from keyferry.clusters.auth.plugin_environment import EXEC_INFO

    text = os.environ.get(EXEC_INFO, "")
    if not text:
        return API_VERSIONS[0]
    try:
        return decode(text.encode("utf-8", "surrogateescape"), default_kind=False)[0]
    except Refusal as refusal:
        problem = refusal.message
    raise EnvironmentProblem(f"{EXEC_INFO}: {problem}")


def _enter_chain(session: ClusterSession) -> None:
    """Raise EnvironmentProblem if this command is its own plugin, as each run would start the next."""
    config = session.config
    me = f"{config.user_name}@{config.cluster_name} of {os.path.abspath(config.user_origin)}"
    chain = os.environ.get(_CHAIN, "").splitlines()
    if me in chain:
        message = "its plugin runs 'keyferry kube token' for the same user again"
        raise EnvironmentProblem(
            f"{me}: {message}; set another --context or --kubeconfig in the plugin's args"
        )
    os.environ[_CHAIN] = "\n".join((*chain, me.replace("\n", " ")))


def _status(session: ClusterSession) -> dict[str, str]:
    """Return the session's credential as the status of an ExecCredential; raise EnvironmentProblem without one."""
    from keyferry.api.meta import format_instant

    config, grant = session.config, session.grant()
    authorization = dict(grant.headers).get("Authorization", "")
    if authorization.startswith(_BASIC):
        raise EnvironmentProblem(
            f"user {config.user_name!r} has basic auth, which an ExecCredential cannot contain"
        )
    certificate = config.client_certificate_data.decode("utf-8", "surrogateescape")
    key = config.client_key_data.decode("utf-8", "surrogateescape")
    credential = grant.credential
    if credential is not None:
        certificate, key = credential.certificate_pem, credential.key_pem
    status = {
        "expirationTimestamp": format_instant(credential.expires_ns)
        if credential and credential.expires_ns
        else "",
        "token": authorization.removeprefix(_BEARER),
        "clientCertificateData": certificate,
        "clientKeyData": key,
    }
    if not (status["token"] or certificate):
        raise EnvironmentProblem(_why_nothing(session))
    return {name: value for name, value in status.items() if value}


def _why_nothing(session: ClusterSession) -> str:
    who = f"user {session.config.user_name!r} has no credential"
    if not session.server.startswith("https://"):
        return f"{who}: the server {hide_in_url(session.server)!r} is not https, and kubectl then ignores the user"
    return f"{who}; requests to the server are anonymous"


def _warn_of_losses(session: ClusterSession) -> None:
    if session.config.impersonate:
        message = (
            f"the context impersonates {session.config.impersonate!r}, which an ExecCredential cannot contain"
        )
        report(f"{message}; the credential is the user's own")


def _print_token(status: dict[str, str]) -> int:
    if "token" not in status:
        report("the credential is a certificate and has no token to reveal")
        return Exit.NO
    _print(status["token"])
    return Exit.OK


def _print(text: str) -> None:
    """Print *text* in UTF-8 under every locale, because programs read it."""
    from keyferry.show.writer import write_exact

    write_exact(f"{text}\n".encode("utf-8", "surrogateescape"))
