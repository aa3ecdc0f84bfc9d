"""``keyferry kube``: authenticate to any cluster that kubectl can reach, from the shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from keyferry._core.json import dumps
from keyferry._core.secrets import mask_arguments, printable
from keyferry._core.user_info import hide_in_text, hide_in_url
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, ExecConfig
from keyferry.cli.exits import Exit, WrongUsage, exit_code
from keyferry.cli.hints import command_line, kubeconfig_hint
from keyferry.cli.options import (
    add_context_arguments,
    add_kubeconfig_argument,
    add_namespace_argument,
    add_output_argument,
    add_session_arguments,
    cluster_options,
)
from keyferry.cli.profile_options import (
    add_profile_arguments,
    examine_chosen,
    find_profile,
    open_chosen_session,
    profile_name,
)
from keyferry.cli.run import Command, add_subcommand, run_subcommand
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, resolve
from keyferry.errors import (
    ClusterAuthError,
    ConfigError,
    EnvironmentProblem,
    KeyferryError,
    Kind,
    PolicyError,
)
from keyferry.show.documents import as_json, make_document, render_document
from keyferry.show.text import Whole, fitting_table, sections
from keyferry.show.writer import Lines, report, write_exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from keyferry.clusters.api_calls import ClusterIdentity

DESCRIPTION = """\
Authenticate to any cluster that kubectl can reach, with exec plugins, tokens, token files, certificates or
basic auth, chosen by kubectl's rules from --kubeconfig, KUBECONFIG or ~/.kube/config.

  token      print the credential as an ExecCredential, so that keyferry can be another kubeconfig's plugin
  whoami     print your identity as the server sees it
  raw PATH   send a GET request for any path of the server
  exec-info  print the input of a plugin: its command, variables and KUBERNETES_EXEC_INFO
  contexts   list the contexts, with the server and the user's authentication mechanism
  explain    explain why a context works or does not work, and what to do

With --cluster-profile and --provider-file, the cluster is that of a ClusterProfile (KEP-5339).

Each subcommand takes those of kubectl's global flags that its --help lists, and --proxy-url, --trust and --timeout
where they apply to it. Plugins run only if kuberc's credentialPluginPolicy allows it.
For a kubeconfig that another user could have written, no plugin is run, no token or key is read from a file,
and no credential of another kubeconfig is sent to its server, unless --trust is given."""

EXAMPLES = """\
examples:
  keyferry kube whoami --context prod
  keyferry kube raw /version
  keyferry kube raw '/api/v1/namespaces/default/pods?watch=true'
  keyferry kube explain --context prod        # if kubectl reports "Unauthorized"
  keyferry kube token --reveal                # only the bearer token
  keyferry kube contexts -o wide
  keyferry kube whoami --cluster-profile fleet-1.yaml --provider-file providers.json"""

# Errors of the connection, about which the explanation says nothing more.
_PLAIN = (Kind.UNREACHABLE, Kind.TIMEOUT)
# The users whose credential is being obtained, outermost first: a context must not be its own plugin.
_CHAIN = "KEYFERRY_KUBE_TOKEN_CHAIN"
# The characters of an authority's certificate in a text.
_SHORT = 40
# The columns of the contexts, by the fields of the document.
_TABLE = ("current", "name", "cluster", "server", "user", "mechanism", "file")
_WIDE = (*_TABLE, "namespace", "command", "userFile", "clusterFile")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: Namespace) -> int:
    """Run one subcommand; report its errors with hints about kubeconfigs and servers."""
    # Errors contain the server's URL, which may contain a user name and password.
    return run_subcommand(args, SUBCOMMANDS, _hint, hide_in_text)


def _hint(error: KeyferryError, args: Namespace) -> str:
    """Return what to try next, or an empty string."""
    if isinstance(error, ConfigError):
        # A file that was read, and whose lines are as they should be, may still not go together with the profile.
        is_read = all(each.line is None and os.path.exists(each.file or "/") for each in error.problems)
        if not (vars(args).get("cluster_profile") and is_read):
            return kubeconfig_hint(error, args)
    if "no_run" in vars(args):
        return ""  # this is 'explain' itself
    is_plain = isinstance(error, ClusterAuthError) and error.underlying is None and error.kind in _PLAIN
    if isinstance(error, ClusterAuthError | ConfigError | PolicyError) and not is_plain:
        # The command repeats the URL of the proxy, which may contain a password.
        return hide_in_text(f"to see what to do, try: {command_line(args, 'kube explain')}")
    return ""


def _add_token_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--reveal", action="store_true", help="print only the token, also on a terminal")
    add_session_arguments(parser)
    add_profile_arguments(parser)


def _run_token(args: Namespace) -> int:
    from keyferry.clusters.exec_info import credential_status, requested_version

    if sys.stdout.isatty() and not args.reveal:
        message = "the credential is a secret and standard output is a terminal: show the token with --reveal"
        raise WrongUsage(f"{message}, or write the ExecCredential to a pipe or file")
    api_version = requested_version()
    session = open_chosen_session(args)
    _enter_chain(session.config)
    status = credential_status(session)
    if not args.reveal:
        if name := session.config.impersonate:
            message = f"the context impersonates {name!r}, which an ExecCredential cannot contain"
            report(f"{message}; the credential is the user's own")
        _write(dumps({"kind": "ExecCredential", "apiVersion": api_version, "status": status}))
    elif "token" in status:
        _write(status["token"])
    else:
        report("the credential is a certificate and has no token to reveal")
        return Exit.NO
    return Exit.OK


def _enter_chain(config: ClientConfig) -> None:
    """Raise EnvironmentProblem if this command is its own plugin, as each run would start the next."""
    me = f"{config.user_name}@{config.cluster_name} of {os.path.abspath(config.user_origin)}"
    chain = os.environ.get(_CHAIN, "").splitlines()
    if me in chain:
        message = "its plugin runs 'keyferry kube token' for the same user again"
        raise EnvironmentProblem(
            f"{me}: {message}; set another --context or --kubeconfig in the plugin's args"
        )
    os.environ[_CHAIN] = "\n".join((*chain, me.replace("\n", " ")))


def _write(text: str) -> None:
    """Write *text* in UTF-8 under every locale, because programs read it."""
    write_exact(f"{text}\n".encode("utf-8", "surrogateescape"))


_TOKEN = Command(
    summary="print the credential as an ExecCredential",
    description="""\
Print the credential of a context as an ExecCredential: a token, a certificate with its key, or both, and
their expiry. The version is the one of KUBERNETES_EXEC_INFO, else v1. With this command, keyferry can be the
exec plugin of another kubeconfig and add a policy, a time limit or a user from another file to kubectl.

A terminal shows nothing unless --reveal is given, which prints only the token.""",
    examples="""\
examples:
  curl -H "Authorization: Bearer $(keyferry kube token --reveal)" https://api.example/version
  users:                                       # in a kubeconfig
  - name: ferried
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: keyferry
        args: [kube, token, --kubeconfig, /path/to/other, --context, prod]
        interactiveMode: IfAvailable""",
    add_arguments=_add_token_arguments,
    run=_run_token,
)


def _add_whoami_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "json", "yaml"))
    add_session_arguments(parser)
    add_profile_arguments(parser)


def _run_whoami(args: Namespace) -> int:
    session = open_chosen_session(args)
    answer = session.whoami(timeout_seconds=args.timeout)
    if args.output == "table":
        print(fitting_table(("ATTRIBUTE", "VALUE"), _identity_rows(answer)))
        return Exit.OK
    document = make_document(
        "ClusterIdentity",
        context=session.config.context,
        clusterProfile=profile_name(args, session.config),
        server=hide_in_url(session.server),
        username=answer.username,
        uid=answer.uid,
        groups=list(answer.groups),
        extra={name: list(values) for name, values in answer.extra.items()},
    )
    print(render_document(document, args.output))
    return Exit.OK


def _identity_rows(answer: ClusterIdentity) -> list[tuple[str, str]]:
    rows = [("user", answer.username)]
    if answer.uid:
        rows.append(("uid", answer.uid))
    rows += [("group", group) for group in answer.groups]
    rows += [(f"extra {name}", value) for name, values in answer.extra.items() for value in values]
    return rows


_WHOAMI = Command(
    summary="print your identity as the server sees it",
    description="""\
Print your identity as a cluster's server sees it: user name, groups and extra fields, from a
SelfSubjectReview (Kubernetes 1.28 and later; 1.27 with the beta API). Any authenticated user may create one.""",
    examples="""\
examples:
  keyferry kube whoami
  keyferry kube whoami --context prod --user admin
  keyferry kube whoami -o json | jq -r .username""",
    add_arguments=_add_whoami_arguments,
    run=_run_whoami,
)


def _add_raw_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", type=_path, metavar="PATH", help="the path, such as /version or /api/v1/nodes"
    )
    add_session_arguments(parser)
    add_profile_arguments(parser)


def _run_raw(args: Namespace) -> int:
    from keyferry.clusters.request import request

    session = open_chosen_session(args)
    with request(
        session, args.path, timeout_seconds=args.timeout, is_endless=_is_endless(args.path)
    ) as reply:
        for chunk in reply.chunks():
            write_exact(chunk)
    if reply.is_success:
        return Exit.OK
    # The command in the advice repeats the URL of the proxy.
    report(hide_in_text(f"the server responded {reply.status} {reply.reason}{_advice(args, reply.status)}"))
    return Exit.REFUSED


def _advice(args: Namespace, status: int) -> str:
    if status == 401:
        hint = f"to see what to do, try: {command_line(args, 'kube explain')}"
        return f": it did not accept the credential; {hint}"
    if status == 403:
        hint = f"to see the user, try: {command_line(args, 'kube whoami')}"
        return f": this user may not read the path; {hint}"
    return "; a redirect to another server is not followed" if 300 <= status < 400 else ""


def _is_endless(path: str) -> bool:
    query = path.partition("?")[2].split("&")
    return any(f"{name}={value}" in query for name in ("watch", "follow") for value in ("true", "1"))


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ArgumentTypeError(f"{text!r} does not begin with '/'")
    return text


_RAW = Command(
    summary="send a GET request for any path of the server",
    description="""\
Send a GET request for any path of a cluster's server, as the context's user. The response's body is written
to standard output as it arrives, for every status; if the status is not 2xx, the exit code is 5.

PATH is relative to the server's URL and begins with a slash. --timeout limits the time until the response
begins and each pause in its body; with watch=true or follow=true, pauses are not limited. Redirects to
another server are not followed, so that no other server gets the credential.""",
    examples="""\
examples:
  keyferry kube raw /version
  keyferry kube raw /api/v1/namespaces --context prod | jq '.items[].metadata.name'
  keyferry kube raw '/api/v1/pods?watch=true'""",
    add_arguments=_add_raw_arguments,
    run=_run_raw,
)


def _add_exec_info_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "raw", "json", "yaml"))
    parser.add_argument("--reveal", action="store_true", help="show values that look like secrets")
    group, _ = add_context_arguments(parser)
    add_namespace_argument(group)
    add_profile_arguments(parser)


def _run_exec_info(args: Namespace) -> int:
    found = find_profile(args)
    config = (
        resolve(load_kubeconfig(args.kubeconfig), cluster_options(args)) if found is None else found.config
    )
    check_transport(config)
    if config.exec is None or not config.uses_plugin:
        report(_why_no_plugin(config))
        return Exit.NO
    interactive, question = _interactive(config.exec)
    text, is_masked = _exec_info(config, interactive=interactive, reveal=args.reveal)
    if args.output == "raw":
        write_exact(text.encode("utf-8", "surrogateescape"))
        if is_masked:
            report("values that look like secrets are masked; show them with --reveal")
        return Exit.OK
    arguments = list(config.exec.args or ())
    document = make_document(
        "ExecInfo",
        context=config.context,
        clusterProfile=profile_name(args, config),
        user=config.user_name,
        file=config.user_origin,
        command=config.exec.command,
        args=arguments if args.reveal else list(mask_arguments(arguments)),
        env=[variable.name for variable in config.exec.env],
        interactive=question,
        execInfo=json.loads(text),
    )
    print(_exec_info_text(document) if args.output == "table" else render_document(document, args.output))
    return Exit.OK


def _why_no_plugin(config: ClientConfig) -> str:
    who = f"no plugin is run for user {config.user_name!r}"
    if not config.server.startswith("https://"):
        return f"{who}: the server {hide_in_url(config.server)!r} is not https, and kubectl then ignores the user"
    if config.exec is not None:
        return f"{who}: its token, basic auth or certificate takes precedence over its exec section"
    return f"{who}: it has no exec section"


def _interactive(plugin: ExecConfig) -> tuple[bool, str]:
    """Return whether the plugin may read standard input, and why."""
    from keyferry.clusters.auth.runner import is_interactive

    mode = plugin.interactive_mode
    try:
        interactive = is_interactive(mode, terminal=os.isatty(0))
    except EnvironmentProblem as error:
        return False, f"{mode}: the plugin cannot run, {error.message}"
    return interactive, f"{mode}: {'the terminal' if interactive else 'nothing'} on standard input"


def _exec_info(config: ClientConfig, *, interactive: bool, reveal: bool) -> tuple[str, bool]:
    """Return KUBERNETES_EXEC_INFO, and whether something in it is masked."""
    from keyferry.clusters.why.masking import exec_info_document, exec_info_text, write_document

    text = exec_info_text(config, interactive=interactive)
    masked = write_document(exec_info_document(text))
    # The exact text if nothing is masked: numbers and white space stay as the plugin gets them.
    is_masked = not reveal and json.loads(masked) != json.loads(text)
    return (masked if is_masked else text), is_masked


def _exec_info_text(document: dict[str, Any]) -> Lines:
    env = ", ".join(document["env"]) or "none"
    parts = (
        ("command", [shlex.join((document["command"], *document["args"]))]),
        ("variables", [f"{env}; in addition to those of this process and KUBERNETES_EXEC_INFO"]),
        ("interactive", [document["interactive"]]),
        ("KUBERNETES_EXEC_INFO", as_json(_shorten(document["execInfo"])).split("\n")),
    )
    return sections((title, (Whole(printable(line)) for line in lines)) for title, lines in parts)


def _shorten(value: object, name: str = "") -> object:
    """Return *value* with long certificate authority data shortened; ``-o json`` has all of it."""
    if isinstance(value, dict):
        return {key: _shorten(item, key) for key, item in value.items()}
    if name == "certificate-authority-data" and isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}... ({len(value)} characters)"
    return value


_EXEC_INFO = Command(
    summary="print the input of a plugin",
    description="""\
Print the input of a context's exec plugin: its command and arguments, the names of the variables that are
set for it, and KUBERNETES_EXEC_INFO. No plugin is run. Values that look like secrets are masked unless
--reveal is given. With -o raw and --reveal, the output is the exact KUBERNETES_EXEC_INFO, to run a plugin by
hand.""",
    examples="""\
examples:
  keyferry kube exec-info --context prod
  KUBERNETES_EXEC_INFO="$(keyferry kube exec-info -o raw --reveal)" my-plugin""",
    add_arguments=_add_exec_info_arguments,
    run=_run_exec_info,
)


def _add_contexts_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "wide", "name", "json", "yaml"))
    add_kubeconfig_argument(parser)


def _run_contexts(args: Namespace) -> int:
    loaded = load_kubeconfig(args.kubeconfig)
    contexts = _list_contexts(loaded)
    if args.output in ("json", "yaml"):
        print(render_document(make_document("ContextList", contexts=contexts), args.output))
    elif args.output == "name":
        for context in contexts:
            print(context["name"])
    elif contexts:
        columns = _WIDE if args.output == "wide" else _TABLE
        rows = [
            ["*" if context["current"] else "", *(str(context[name]) for name in columns[1:])]
            for context in contexts
        ]
        # userFile becomes USER FILE.
        header = [re.sub("(?=[A-Z])", " ", name).upper() for name in columns]
        print(fitting_table(header, rows))
    if contexts:
        return Exit.OK
    if loaded.files:
        report(f"no contexts: {', '.join(file.path for file in loaded.files)} has none")
        return Exit.NO
    report(f"no contexts: found no {' or '.join(loaded.paths) or 'kubeconfig'}")
    return Exit.ENVIRONMENT


def _list_contexts(loaded: LoadedKubeconfig) -> list[dict[str, object]]:
    from keyferry.clusters.why.mechanism import find_mechanism

    found: list[dict[str, object]] = []
    for name, context in sorted(loaded.config.contexts.items()):
        cluster = loaded.config.clusters.get(context.cluster, Cluster())
        user = loaded.config.users.get(context.user, AuthInfo())
        found.append(
            {
                "name": name,
                "current": name == loaded.config.current_context,
                "cluster": context.cluster,
                "server": hide_in_url(cluster.server),
                "user": context.user,
                "namespace": context.namespace,
                "mechanism": str(find_mechanism(user, cluster.server)),
                "command": user.exec.command if user.exec is not None else "",
                "file": context.origin,
                "userFile": user.origin,
                "clusterFile": cluster.origin,
            }
        )
    return found


_CONTEXTS = Command(
    summary="list the contexts and their users' authentication mechanisms",
    description="""\
List the contexts of the kubeconfig, with all files of KUBECONFIG merged as kubectl merges them: the cluster
and server, the user and its authentication mechanism (exec NAME, token, token file, certificate, basic or
none), and the file that defines the context. No plugin is run and no server is contacted.""",
    examples="""\
examples:
  keyferry kube contexts
  keyferry kube contexts -o wide
  keyferry kube contexts -o name
  keyferry kube contexts -o json | jq -r '.contexts[] | select(.current).server'""",
    add_arguments=_add_contexts_arguments,
    run=_run_contexts,
)


def _add_explain_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "wide", "json", "yaml"))
    parser.add_argument(
        "--no-run", action="store_true", help="do not run the plugin and do not contact the server"
    )
    add_session_arguments(parser)
    add_profile_arguments(parser)


def _run_explain(args: Namespace) -> int:
    from keyferry.clusters.profile_access import RefusedProfile
    from keyferry.clusters.why.diagnosis import diagnose, diagnose_profile
    from keyferry.clusters.why.reasons import reasons_for
    from keyferry.clusters.why.text import document, refused_document, render, render_refused

    profile = examine_chosen(args)
    if isinstance(profile, RefusedProfile):
        is_text = args.output in ("table", "wide")
        print(render_refused(profile) if is_text else render_document(refused_document(profile), args.output))
        return exit_code(profile.error)
    if profile is not None:
        diagnosis = diagnose_profile(
            profile, trust=args.trust, run=not args.no_run, timeout_seconds=args.timeout
        )
    else:
        loaded = load_kubeconfig(args.kubeconfig)
        config = resolve(loaded, cluster_options(args))
        diagnosis = diagnose(
            loaded, config, trust=args.trust, run=not args.no_run, timeout_seconds=args.timeout
        )
    reasons = reasons_for(diagnosis)
    if args.output in ("table", "wide"):
        print(render(diagnosis, reasons, is_wide=args.output == "wide"))
    else:
        print(render_document(document(diagnosis, reasons), args.output))
    if diagnosis.error is not None:
        return exit_code(diagnosis.error)
    return Exit.OK if diagnosis.review is None or diagnosis.is_accepted else Exit.REFUSED


_EXPLAIN = Command(
    summary="explain why a context works or does not work",
    description="""\
Explain why a context works or does not work. The first line says whether it does, and the cause if it does
not: the reason that the plugin gave, or how the server responded. What to do follows, then the steps that
matter, and all common mistakes that apply.

With -o wide it has every step: the files that are read, the chosen context, cluster and user, the plugin, its
path and whether the policy allows it, the plugin's response and standard error without secrets, and each of
the server's responses.

The plugin is run, without the terminal unless its interactiveMode is Always, and the server is asked for
your identity, unless --no-run is given. The exit code is 0 if the server accepts the credential, else that of
the step that failed.""",
    examples="""\
examples:
  keyferry kube explain
  keyferry kube explain --context prod -o wide
  keyferry kube explain --context prod --no-run
  keyferry kube explain -o json | jq '.traps[].text'""",
    add_arguments=_add_explain_arguments,
    run=_run_explain,
)


SUBCOMMANDS = {
    "token": _TOKEN,
    "whoami": _WHOAMI,
    "raw": _RAW,
    "exec-info": _EXEC_INFO,
    "contexts": _CONTEXTS,
    "explain": _EXPLAIN,
}
