"""Authenticate to any cluster that kubectl can reach, from the shell."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_text
from keyferry.cli.frame.paste import command_line
from keyferry.cli.hints import kubeconfig_hint
from keyferry.cli.run import Entry, add_subcommand, run_subcommand
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, Kind, PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Authenticate to any cluster that kubectl can reach, with exec plugins, tokens, token files, certificates or
basic auth, chosen by kubectl's rules from --kubeconfig, KUBECONFIG or ~/.kube/config.

  token      print the credential as an ExecCredential, so that keyferry can be another kubeconfig's plugin
  whoami     print your identity as the server sees it
  raw PATH   send a GET request for any path of the server
  exec-info  print the input of a plugin: its command, variables and KUBERNETES_EXEC_INFO
  contexts   list the contexts, with the server and the user's authentication mechanism
  explain    explain why a context works or does not work, and what to do

Each subcommand takes those of --kubeconfig, --context, --cluster, --user, --proxy-url, --trust and --timeout
that apply to it; see 'keyferry kube SUBCOMMAND --help'. Plugins run only if kuberc's credentialPluginPolicy allows it.
For a kubeconfig that another user could have written, no plugin is run, no token or key is read from a file,
and no credential of another kubeconfig is sent to its server, unless --trust is given."""

EXAMPLES = """\
examples:
  keyferry kube whoami --context prod
  keyferry kube raw /version
  keyferry kube raw '/api/v1/namespaces/default/pods?watch=true'
  keyferry kube explain --context prod        # if kubectl reports "Unauthorized"
  keyferry kube token --reveal                # only the bearer token
  keyferry kube contexts -o wide"""

# Errors of the connection, about which the explanation says nothing more.
_PLAIN = (Kind.UNREACHABLE, Kind.TIMEOUT)
# One module for each, so that a subcommand imports only its own code.
SUBCOMMANDS = {
    "token": Entry(module="keyferry.cli.kube.token", summary="print the credential as an ExecCredential"),
    "whoami": Entry(module="keyferry.cli.kube.whoami", summary="print your identity as the server sees it"),
    "raw": Entry(module="keyferry.cli.kube.raw", summary="send a GET request for any path of the server"),
    "exec-info": Entry(module="keyferry.cli.kube.exec_info", summary="print the input of a plugin"),
    "contexts": Entry(
        module="keyferry.cli.kube.contexts",
        summary="list the contexts and their users' authentication mechanisms",
    ),
    "explain": Entry(
        module="keyferry.cli.kube.explain", summary="explain why a context works or does not work"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; report its errors with hints about kubeconfigs and servers."""
    # Errors contain the server's URL, which may contain a user name and password.
    return run_subcommand("kube", args, SUBCOMMANDS, _hint, hide_in_text)


def _hint(error: KeyferryError, args: argparse.Namespace) -> str:
    """Return what to try next, or an empty string."""
    if isinstance(error, ConfigError):
        return kubeconfig_hint(error, args)
    is_plain = isinstance(error, ClusterAuthError) and error.underlying is None and error.kind in _PLAIN
    if isinstance(error, ClusterAuthError | PolicyError) and not is_plain:
        # The command repeats the URL of the proxy, which may contain a password.
        return hide_in_text(f"to see what to do, try: {command_line(args, 'kube explain')}")
    return ""
