"""An authenticated connection to any cluster that kubectl can reach, from the shell."""

from keyferry._core.user_info import hide_in_text
from keyferry.cli.frame.commands import Command, report_failure
from keyferry.cli.frame.groups import add_subcommand, run_subcommand
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, PolicyError

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
An authenticated connection to any cluster that kubectl can reach: through exec plugins, tokens, token
files, certificates or basic auth, chosen by kubectl's rules from --kubeconfig, KUBECONFIG or ~/.kube/config.

  token      the credential as an ExecCredential, so that keyferry can be another kubeconfig's plugin
  whoami     who the server takes you for
  raw PATH   a GET on any path of the server
  exec-info  what a plugin is given: its program, variables and KUBERNETES_EXEC_INFO
  contexts   every context, with its server and how its user is authenticated
  explain    why a context works or does not: file, user, program, policy, answer, server, traps

Each takes --kubeconfig, --context, --cluster, --user, --trust and --timeout where they have a meaning;
'keyferry kube SUBCOMMAND --help' tells. Plugins run only as kuberc's credentialPluginPolicy allows. A
kubeconfig that somebody else could have written runs no plugin, has no token or key read from a file, and
gets no credential of another kubeconfig sent to its server, unless you say --trust."""

EXAMPLES = """\
examples:
  keyferry kube whoami --context prod
  keyferry kube raw /version
  keyferry kube raw '/api/v1/namespaces/default/pods?watch=true'
  keyferry kube explain --context prod        # kubectl says "Unauthorized": why?
  keyferry kube token --reveal                # a bare bearer token
  keyferry kube contexts -o wide"""

# Each is a module of its own, so that a subcommand pays for nothing but itself.
SUBCOMMANDS = {
    "token": Command("keyferry.cli.kube.token", "the credential as an ExecCredential"),
    "whoami": Command("keyferry.cli.kube.whoami", "who the server takes you for"),
    "raw": Command("keyferry.cli.kube.raw", "a GET on any path of the server"),
    "exec-info": Command("keyferry.cli.kube.exec_info", "what a plugin is given"),
    "contexts": Command("keyferry.cli.kube.contexts", "every context and how its user is authenticated"),
    "explain": Command("keyferry.cli.kube.explain", "why a context works or does not"),
}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The subcommand; what follows is for its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: "argparse.Namespace") -> int:
    """Run one subcommand; its errors are about kubeconfigs and servers, and are reported as such."""
    return run_subcommand("kube", args, SUBCOMMANDS, _report)


def _report(error: KeyferryError) -> int:
    # A server's URL may hold a user and password, and errors name the server.
    return report_failure(error, hide_in_text, _hint(error))


def _hint(error: KeyferryError) -> str:
    """What to try next, where that is known."""
    if isinstance(error, ConfigError):
        return "kubectl would not go on with this kubeconfig either; 'keyferry kube contexts' lists what there is"
    if isinstance(error, ClusterAuthError | PolicyError):
        return "'keyferry kube explain' shows every step"
    return ""
