"""Options of keyferry-eks: the flags of both tools it replaces, their variables, and the authenticator's file."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry._core.values import Value
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags
from keyferry_plugins.oauth.answers import is_visible

CLI, AUTHENTICATOR = "get-token", "token"
_WORDS = {("eks", "get-token"): CLI, ("get-token",): CLI, ("token",): AUTHENTICATOR, (): AUTHENTICATOR}
MAX_CLUSTER_LENGTH = 512
_NOT_PLAIN = frozenset("|>&*![{")

FLAGS = (
    Flag(name="cluster-name", about="the cluster's name"),
    Flag(name="cluster-id", about="the cluster's id, in place of its name", short="i"),
    Flag(name="role-arn", about="a role to assume before signing", short="r", aliases=("role",)),
    Flag(name="external-id", about="the external id for assuming it", short="e"),
    Flag(name="session-name", about="the session name for assuming it", short="s"),
    Flag(
        name="forward-session-name",
        about="assume it with the session name of the current role",
        is_switch=True,
    ),
    Flag(name="region", about="the region of the STS endpoint"),
    Flag(name="profile", about="the profile of the AWS config file; takes precedence over keys in variables"),
    Flag(name="ca-bundle", about="a file of CA certificates to trust for AWS calls"),
    Flag(name="token-only", about="print the bare token", is_switch=True),
    Flag(name="cache", about="cache temporary credentials in a file until they expire", is_switch=True),
    Flag(
        name="config", about="a YAML or JSON file of aws-iam-authenticator with the same settings", short="c"
    ),
    Flag(
        name="output",
        about="the output format; only json is supported",
        default="json",
        choices=("json", "yaml"),
    ),
    Flag(name="timeout", about="time limit for all AWS calls together", default="50s"),
    Flag(
        name="compat",
        about="behave exactly like the tool whose subcommand is given, quirks included",
        is_switch=True,
    ),
    Flag(name="log-format", short="l", is_ignored=True),
    Flag(name="feature-gates", is_ignored=True),
    Flag(name="color", is_ignored=True),
    Flag(name="cli-read-timeout", is_ignored=True),
    Flag(name="cli-connect-timeout", is_ignored=True),
    *(
        Flag(name=name, is_ignored=True, is_switch=True)
        for name in ("debug", "no-paginate", "no-cli-pager", "no-cli-auto-prompt", "cli-auto-prompt")
    ),
    *LOG_FLAGS,
)
# Settings of the authenticator's file by lower-case name, and the flag that corresponds to each.
_FILE_KEYS = {
    "clusterid": "cluster-id",
    "role": "role-arn",
    "externalid": "external-id",
    "sessionname": "session-name",
    "forwardsessionname": "forward-session-name",
    "region": "region",
    "tokenonly": "token-only",
    "cache": "cache",
}


class Options(Value):
    """The options of a run; *tool* is the one whose behaviour applies where the two differ."""

    cluster: str
    tool: str = AUTHENTICATOR
    role_arn: str = ""
    external_id: str = ""
    session_name: str = ""
    forwards_session_name: bool = False
    region: str = ""
    profile: str = ""
    ca_bundle: str = ""
    is_token_only: bool = False
    is_cached: bool = False
    is_compat: bool = False
    timeout: str = "50s"


def read_options(flags: Flags, variables: Mapping[str, str]) -> Options:
    """Merge flags, variables and the config file, in this order of precedence; raise ProvideError if they conflict."""
    tool = _WORDS.get(flags.words, "")
    if not tool:
        raise ProvideError(
            f"found the words {' '.join(flags.words)[:80]!r}, expected 'eks get-token', 'get-token', 'token' or none"
        )
    settings = _settings(flags, variables, tool)
    if flags.text("cluster-name") and flags.text("cluster-id"):
        raise ProvideError("--cluster-name and --cluster-id are both given", "give one of them")
    if settings["session-name"] and settings["forward-session-name"] == "true":
        raise ProvideError("--session-name and --forward-session-name are both given", "give one of them")
    return Options(
        cluster=_check_cluster(flags.text("cluster-name") or settings["cluster-id"]),
        tool=tool,
        role_arn=settings["role-arn"],
        external_id=settings["external-id"],
        session_name=settings["session-name"],
        forwards_session_name=settings["forward-session-name"] == "true",
        region=settings["region"],
        profile=flags.text("profile"),
        ca_bundle=flags.text("ca-bundle"),
        is_token_only=settings["token-only"] == "true",
        is_cached=settings["cache"] == "true",
        is_compat=flags.is_on("compat"),
        timeout=flags.text("timeout"),
    )


def _settings(flags: Flags, variables: Mapping[str, str], tool: str) -> dict[str, str]:
    filed = _read_file(flags.text("config")) if flags.text("config") else {}
    # Only the authenticator reads these two variables; the AWS CLI's commands must not depend on them.
    named = {"cluster-id": "KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID", "role-arn": "DEFAULT_ROLE"}
    told = (
        {name: variables.get(variable, "") for name, variable in named.items()}
        if tool == AUTHENTICATOR
        else {}
    )
    switches = ("forward-session-name", "token-only", "cache")
    settings = {}
    for key, name in _FILE_KEYS.items():
        given = ("true" if flags.is_on(name) else "false") if name in switches else flags.text(name)
        settings[name] = given if name in flags.given else told.get(name) or filed.get(key, "")
    return settings


def _check_cluster(cluster: str) -> str:
    if not cluster:
        raise ProvideError(
            "no cluster is given",
            "give --cluster-name, or --cluster-id for a cluster that is not an EKS cluster in a region",
        )
    if len(cluster) > MAX_CLUSTER_LENGTH or not is_visible(cluster):
        raise ProvideError(
            f"the cluster {cluster[:80]!r} contains whitespace or other characters that are not valid in a header"
        )
    return cluster


def _read_file(path: str) -> dict[str, str]:
    """Return the top-level settings of a file; nested settings belong to the authenticator's server."""
    text = read_bounded(path, "the config file").decode("utf-8", "replace")
    found = _read_json(text, path) if text.lstrip().startswith("{") else _read_lines(text)
    return {name.lower(): value for name, value in found if name.lower() in _FILE_KEYS}


def _read_json(text: str, path: str) -> list[tuple[str, str]]:
    document = read_object(text)
    if document is None:
        raise ProvideError(f"the config file {path!r} is not a JSON object")
    return [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in document.items()
    ]


def _read_lines(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        value = rest.strip()
        if not colon or line[0] in " \t#-":
            continue
        if value[:1] not in _NOT_PLAIN:
            is_quoted = value[:1] in {'"', "'"}
            text = value[1:].partition(value[0])[0] if is_quoted else value.partition(" #")[0].strip()
            found.append((name.strip(), text))
    return found
