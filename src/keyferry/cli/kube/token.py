"""The credential of a context as an ExecCredential, so that keyferry can be a plugin itself."""

import os
import sys

from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.cli.kube.arguments import add_session_arguments, open_session
from keyferry.errors import EnvironmentProblem
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.clusters.session import ClusterSession

DESCRIPTION = """\
The credential of a context as an ExecCredential, in the version that KUBERNETES_EXEC_INFO asks for, else
in v1: a token, a certificate with its key, or both, and when they expire. So keyferry itself can be the
command of another kubeconfig, and give kubectl a policy, a deadline or a user from another file.

On a terminal nothing is shown unless you say --reveal, which prints the bare token."""

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

# Who is being asked already, from the outermost on: a context must not be its own plugin.
_CHAIN = "KEYFERRY_KUBE_TOKEN_CHAIN"
_BASIC, _BEARER = "Basic ", "Bearer "


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry kube token``."""
    parser.add_argument("--reveal", action="store_true", help="print the bare token, on a terminal too")
    add_session_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the credential."""
    if sys.stdout.isatty() and not args.reveal:
        message = "this is a secret and standard output is a terminal: --reveal shows the token there"
        raise WrongUsage(f"{message}; an ExecCredential is printed into a pipe or file")
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
    """The version a client asks for, if one runs us as its plugin; raises EnvironmentProblem."""
    from keyferry.clusters.auth.credential import API_VERSIONS, Refusal, decode
    from keyferry.clusters.auth.plugin_environment import EXEC_INFO

    text = os.environ.get(EXEC_INFO, "")
    if not text:
        return API_VERSIONS[0]
    try:
        return decode(text.encode("utf-8", "surrogateescape"), default_kind=False)[0]
    except Refusal as refusal:
        problem = refusal.message
    raise EnvironmentProblem(f"{EXEC_INFO}: {problem}")


def _enter_chain(session: "ClusterSession") -> None:
    """Refuse to be our own plugin: each run would start the next, without an end."""
    config = session.config
    me = f"{config.user_name}@{config.cluster_name} of {os.path.abspath(config.user_origin)}"
    chain = os.environ.get(_CHAIN, "").splitlines()
    if me in chain:
        message = "its plugin leads back to 'keyferry kube token' for the same user"
        raise EnvironmentProblem(f"{me}: {message}; name another with --context or --kubeconfig in its args")
    os.environ[_CHAIN] = "\n".join((*chain, me.replace("\n", " ")))


def _status(session: "ClusterSession") -> dict[str, str]:
    """What the session has to show, in the words of the protocol; raises EnvironmentProblem if nothing."""
    from keyferry.api.meta import format_instant

    config, grant = session.config, session.grant()
    authorization = dict(grant.headers).get("Authorization", "")
    if authorization.startswith(_BASIC):
        raise EnvironmentProblem(
            f"user {config.user_name!r} has basic auth, which no ExecCredential can hold"
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


def _why_nothing(session: "ClusterSession") -> str:
    who = f"user {session.config.user_name!r} has no credential"
    if not session.server.startswith("https://"):
        return f"{who}: the server {session.server!r} is not https, and then users are ignored"
    return f"{who}; the server is asked anonymously"


def _warn_of_losses(session: "ClusterSession") -> None:
    if session.config.impersonate:
        message = f"the context acts as {session.config.impersonate!r}, which no ExecCredential can hold"
        report(f"{message}; the credential is the user's own")


def _print_token(status: dict[str, str]) -> int:
    if "token" not in status:
        report("the credential is a certificate and has no token to reveal")
        return Exit.NO
    _print(status["token"])
    return Exit.OK


def _print(text: str) -> None:
    """Print in UTF-8 whatever the locale is: this is for programs."""
    from keyferry.show.writer import write_exact

    write_exact(f"{text}\n".encode("utf-8", "surrogateescape"))
