"""The explanation of an image from the command line's inputs: the lookup's answer, and what happened."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from copy import copy

from keyferry._core.secrets import printable
from keyferry._core.values import Value, replace
from keyferry._net.forms import encode_percent
from keyferry.cli.exits import Exit
from keyferry.cli.frame.image_lookup import ImageLookup, Inputs, missing_lines
from keyferry.cli.frame.machine import no_config_note
from keyferry.cli.frame.node_settings import PluginEnvironment
from keyferry.cli.frame.registry_arguments import check_answer, image_mirrors
from keyferry.cli.frame.sources import Sources
from keyferry.cli.hints import command_line
from keyferry.cli.image.access import decide_access
from keyferry.errors import KeyferryError
from keyferry.explain.causes import explain
from keyferry.explain.evidence import Evidence, see
from keyferry.explain.explanation import Explanation, Outcome
from keyferry.explain.facts import Facts
from keyferry.explain.mirrors import mirror_traps
from keyferry.images.answer import ACCOUNT_INPUTS, Answer, LookupInput
from keyferry.images.keyring import SourceKind
from keyferry.images.node.changes import (
    ChangedFile,
    Newer,
    changed_at,
    newer_than_kubelet,
    read_config_hash,
)
from keyferry.images.node.settings import Node
from keyferry.pulls.mirrors.endpoints import Mirrors
from keyferry.show.text import fold
from keyferry.show.writer import style
from keyferry.workloads.events import PullEvent
from keyferry.workloads.objects import Change
from keyferry.workloads.pods import PodContainer, WorkloadPod
from keyferry.workloads.secrets import UnusedReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


__all__ = ["Seen", "banner_blocks", "exit_code_of", "explain_image", "find_unread"]

# The time limit of a question that nobody asked for.
_METRICS_SECONDS = 5.0
# How long the kubelet keeps what it read of a docker config.
_DOCKER_CONFIG_SECONDS = 300.0
_EXITS = {
    Outcome.RUNS: Exit.OK,
    Outcome.FOUND: Exit.OK,
    Outcome.PLUGIN_FAILED: Exit.PLUGIN,
    Outcome.REFUSED: Exit.REFUSED,
    Outcome.CHANGED: Exit.UNKNOWN,
    Outcome.NOT_TRIED: Exit.UNKNOWN,
    Outcome.UNKNOWN: Exit.UNKNOWN,
}


class Seen(Value):
    """The pod that uses the image, the containers that do, and the pod's events about pulls.

    *unread* are the files that the pod's kubelet may not have read.
    """

    pod: WorkloadPod | None = None
    containers: tuple[PodContainer, ...] = ()
    events: tuple[PullEvent, ...] = ()
    unread: tuple[Newer, ...] = ()


def exit_code_of(explanation: Explanation) -> Exit:
    """Return the exit code of an outcome, however it became known: 1 for every failure that has none of its own."""
    return _EXITS.get(explanation.outcome, Exit.NO)


def banner_blocks(inputs: Inputs) -> tuple[str, ...]:
    """Return the problems of a config with which a kubelet does not start, as one block of text; none without any."""
    if not inputs.banner:
        return ()
    lines = (line for each in inputs.banner for line in fold(printable(each), "", "  "))
    return ("\n".join(style(line, "bold", "red") for line in lines),)


def explain_image(
    args: argparse.Namespace, lookup: ImageLookup, words: tuple[str, ...], seen: Seen
) -> Explanation:
    """Explain the answer for the image of *args*, with the registry and the node's records if options ask for it.

    *words* name what the command line asks about: an image, or a workload.
    """
    answer, inputs = lookup.answer, lookup.inputs
    sources = inputs.sources
    mirrors = image_mirrors(args, inputs.found, is_here=args.check_registry)
    is_checked = args.check_registry and sources.unreadable is None
    # The agent's plugins have its environment, not the one that was found for plugins that are run here.
    if answer.provisions and all(provision.is_from_agent for provision in answer.provisions):
        inputs = replace(inputs, environment=PluginEnvironment(owner="the node agent"))
    facts = Facts(
        answer=answer,
        evidence=_evidence(args, answer, inputs, seen, mirrors),
        check=check_answer(args, answer, mirrors) if is_checked else None,
        mirrors=mirrors,
        decision=decide_access(args, answer, is_pod=bool(seen.containers)),
        containers=seen.containers,
        config=_config(inputs),
        where=_where(args.node, inputs),
        notes=tuple(_notes(args.node, inputs)),
        traps=(*inputs.environment.traps, *mirror_traps(answer, mirrors)),
        hints=tuple(missing_lines(answer.missing, args)),
        pod=sources.pod,
        node_name=sources.node_name or "",
        secret_names=_secret_names(sources),
        account_secrets=sources.account_secrets,
        is_replaced=seen.pod is not None and seen.pod.is_controlled,
        is_static=seen.pod is not None and seen.pod.is_static,
        pull_secrets=sources.pull_secrets,
        unused=sources.unused,
        ignored_settings=_ignored_settings(args.node),
        command=command_line(args, "explain", *words),
        try_command=_try_command(args, answer),
        account_lines=tuple(_account_lines(args, answer, words)),
    )
    return explain(facts)


# What happened.


def _evidence(
    args: argparse.Namespace, answer: Answer, inputs: Inputs, seen: Seen, mirrors: Mirrors | None
) -> Evidence:
    if seen.pod is None:
        return Evidence()
    return see(
        seen.pod,
        seen.containers,
        seen.events,
        now=time.time(),
        changes=tuple(_changes(args.node, answer, inputs, seen.unread)),
        runtime_changes=() if mirrors is None else tuple(_runtime_changes(mirrors)),
        unread=seen.unread,
    )


def _runtime_changes(mirrors: Mirrors) -> Iterator[Change]:
    """Yield the last changes of the file that tells the runtime how to reach a registry, and of what that names."""
    trusted = (file for endpoint in mirrors.endpoints for file in endpoint.trust.ca_files)
    for path in dict.fromkeys((mirrors.file, *trusted)):
        at = changed_at(path)
        if at is not None:
            yield Change(what=path, at=at)


def find_unread(args: argparse.Namespace, inputs: Inputs) -> tuple[Newer, ...]:
    """Return the files that changed after the kubelet of this node started, if it is the pod's.

    Where a time says so of the provider config, the kubelet is asked for the hash of what it has read, if it can be.
    """
    node: Node = args.node
    kubelet = None if node.elsewhere else inputs.found.kubelet or node.kubelet
    if kubelet is None:
        return ()
    settings = node.settings_of(kubelet)
    path = inputs.found.config if inputs.found.kubelet is not None else ""
    newer = newer_than_kubelet(settings, path)
    if args.is_live and any(each.kind is ChangedFile.PROVIDER_CONFIG for each in newer):
        loaded = _loaded_hash(args, inputs.sources.node_name or kubelet.node_name)
        return newer_than_kubelet(settings, path, loaded)
    return newer


def _loaded_hash(args: argparse.Namespace, node_name: str) -> str:
    """Return the hash of the provider config that the kubelet's metrics have; empty if they cannot be read."""
    from keyferry.cli.options import open_session
    from keyferry.clusters.request import request

    path = f"/api/v1/nodes/{encode_percent(node_name)}/proxy/metrics"
    try:
        with request(open_session(args), path, timeout_seconds=_METRICS_SECONDS) as reply:
            return read_config_hash(reply.read().decode("utf-8", "replace")) if reply.is_success else ""
    except KeyferryError:
        return ""


def _changes(node: Node, answer: Answer, inputs: Inputs, unread: tuple[Newer, ...]) -> Iterator[Change]:
    """Yield the last changes of what the credentials that are found come from."""
    sources = inputs.sources
    found = {credential.source for credential in answer.credentials}
    secrets = {f"pull secret {source.name}" for source in found if source.secret is not None}
    yield from (change for change in sources.changes if change.what in secrets)
    account = next((source.service_account for source in found if source.service_account is not None), None)
    if account is not None and sources.account_changed_at is not None:
        yield Change(
            what=f"service account {account.namespace}/{account.name}", at=sources.account_changed_at
        )
    if node.elsewhere or node.kubelet is None:
        return
    providers = [source.name for source in found if source.kind == SourceKind.PROVIDER]
    files = [os.path.join(inputs.found.bin_dir, name) for name in providers]
    if providers and not unread:
        files.append(inputs.found.config)
    if providers and node.kubelet.started is not None:
        # It has read its config again, and forgotten the answers of plugins.
        yield Change(what="the kubelet", at=node.kubelet.started, how="restarted")
    for path in filter(None, files):
        at = changed_at(path)
        if at is not None:
            yield Change(what=path, at=at)
    is_used = any(source.kind == SourceKind.NODE_DOCKER_CONFIG for source in found)
    at = changed_at(sources.docker_config) if is_used and sources.docker_config else None
    if at is not None:
        yield Change(
            what=f"docker config {sources.docker_config}", at=at, delay_seconds=_DOCKER_CONFIG_SECONDS
        )


# The inputs, for people and programs.


def _ignored_settings(node: Node) -> tuple[str, ...]:
    """Return the settings of this node's kubelet that no kubelet reads, as sentences."""
    settings = None if node.elsewhere else node.settings
    return () if settings is None else settings.ignored


def _try_command(args: argparse.Namespace, answer: Answer) -> str:
    """Return ``plugin try`` for the account whose token is refused, with the options of *args*; empty if none is."""
    for missing in answer.missing:
        if missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN and missing.instead:
            own = copy(args)
            # The deprecated --pod FILE of this command is another option than --pod NAME of that one.
            own.service_account, own.pod = missing.name, None
            return command_line(own, "plugin try", answer.image)
    return ""


def _account_lines(args: argparse.Namespace, answer: Answer, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the command that adds the missing service account to a copy of the file of *args*, and asks again."""
    missing = next((each for each in answer.missing if each.input in ACCOUNT_INPUTS), None)
    given = args.filename or args.pod
    if missing is None or args.is_live or not given:
        return
    namespace, _, name = missing.name.partition("/")
    own = copy(args)
    own.filename = own.pod = None
    again = command_line(own, "explain", *words)
    file = "FILE" if given == "-" else shlex.quote(given)
    new_file = shlex.quote(f"with-{missing.name.replace('/', '-')}.XXXXXX")
    account = f"kubectl get serviceaccount {shlex.quote(name)} -n {shlex.quote(namespace)} -o yaml"
    both = f"(cat {file} && echo && echo --- && {account})"
    yield f'with=$(mktemp {new_file}) && {both} > "$with" && {again} -f "$with"'


def _secret_names(sources: Sources) -> tuple[str, ...]:
    """Return the names of the pull secrets that the pod lists, given or not."""
    given = (secret.name for secret in sources.pull_secrets)
    absent = (each.name for each in sources.unused if each.reason is UnusedReason.ABSENT)
    missing = (each.name for each in sources.missing if each.input is LookupInput.PULL_SECRET)
    return (*given, *absent, *missing)


def _secret_words(sources: Sources) -> Iterator[str]:
    """Yield each pull secret that the pod lists, with what is wrong with it."""
    yield from (f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets)
    for unused in sources.unused:
        if unused.reason is UnusedReason.ABSENT:
            yield f"{unused.namespace}/{unused.name} (does not exist)"
    for missing in sources.missing:
        if missing.input is LookupInput.PULL_SECRET:
            yield f"{missing.name} (not known)"


def _docker_config_words(sources: Sources) -> str:
    if sources.docker_config_from == "given":
        return sources.docker_config or "none given (--docker-config)"
    return f"{sources.docker_config or 'none'} ({sources.docker_config_from})"


def _config(inputs: Inputs) -> dict[str, object]:
    found, sources = inputs.found, inputs.sources
    return {
        "path": found.config,
        "pathFrom": found.config_from,
        "binDir": found.bin_dir,
        "binDirFrom": found.bin_dir_from,
        "environmentFrom": inputs.environment.owner,
        "dockerConfig": sources.docker_config,
        "pullSecrets": [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets],
        "notes": list(inputs.notes),
    }


def _notes(node: Node, inputs: Inputs) -> Iterator[str]:
    """Yield the notes about inputs, but for what is shown above them or among the sources; those on machines last."""
    shown = (*inputs.banner, *inputs.machine)
    yield from (note for note in inputs.notes if note not in shown)
    yield from (note for note in inputs.machine if note != no_config_note(node))


def _where(node: Node, inputs: Inputs) -> tuple[str, ...]:
    found, sources = inputs.found, inputs.sources
    inputs_missing = {each.input for each in sources.missing}
    none = "the pod lists none"
    if LookupInput.POD in inputs_missing:
        none = "not given (-f, --secret)"
    elif LookupInput.ACCOUNT_SECRETS in inputs_missing:
        none = "not known; the pod lists none, and its service account may"
    plugins = f"{found.bin_dir} ({found.bin_dir_from}), in the environment of {inputs.environment.owner}"
    return (
        f"pull secrets: {', '.join(_secret_words(sources)) or none}",
        f"node docker config: {_docker_config_words(sources)}",
        f"providers: {found.config} ({found.config_from})" if found.config else no_config_note(node),
        *((f"plugins: {plugins}",) if found.config and found.bin_dir else ()),
    )
