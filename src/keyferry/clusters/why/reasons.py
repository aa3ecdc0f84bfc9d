"""Build the reasons for a diagnosis, as text and as facts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import MASK, in_one_line, mask_arguments
from keyferry._core.user_info import hide_in_text, hide_in_url
from keyferry.api.meta import format_instant
from keyferry.clusters.api_calls import Review
from keyferry.clusters.profile_access import ProfileChoice
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.clusters.why.traps import traps_for
from keyferry.clusters.why.verdict import describe_end
from keyferry.errors import ClusterAuthError, KeyferryError, PluginError
from keyferry.invoke.executable import clean_path


def reasons_for(diagnosis: Diagnosis) -> tuple[Reason, ...]:
    """Return all reasons for the outcome, in the order of client-go's steps."""
    stages = (_files, _context, _user, _program, _policy, _plugin, _server)
    return (*(reason for stage in stages for reason in stage(diagnosis)), *traps_for(diagnosis))


def _files(diagnosis: Diagnosis) -> Iterator[Reason]:
    loaded = diagnosis.loaded
    untrusted = {file.path: file.untrusted for file in loaded.files}
    for path in loaded.paths:
        if path in loaded.missing:
            yield Reason(
                stage=ReasonStage.FILE,
                subject=path,
                outcome=ReasonOutcome.MISSING,
                text="does not exist, ignored",
            )
        elif why := untrusted.get(path):
            text = f"read; another user could have written it: {why}"
            yield Reason(
                stage=ReasonStage.FILE,
                subject=path,
                outcome=ReasonOutcome.READ,
                text=text,
                facts={"untrusted": why},
            )
        else:
            yield Reason(stage=ReasonStage.FILE, subject=path, outcome=ReasonOutcome.READ, text="read")


def _context(diagnosis: Diagnosis) -> Iterator[Reason]:
    yield from _chosen_context(diagnosis) if diagnosis.choice is None else _chosen_profile(diagnosis.choice)
    config = diagnosis.config
    shown = hide_in_url(config.server)
    proxy = f", through the proxy {hide_in_url(config.proxy_url)}" if config.proxy_url else ""
    yield Reason(
        stage=ReasonStage.CLUSTER,
        subject=config.cluster_name,
        outcome=ReasonOutcome.CHOSEN,
        text=f"{shown}{proxy}",
        facts={"server": shown, "file": config.cluster_origin},
    )


def _chosen_context(diagnosis: Diagnosis) -> Iterator[Reason]:
    config = diagnosis.config
    current = diagnosis.loaded.config.current_context
    which = "current context" if config.context == current else f"not the current context ({current!r})"
    facts: dict[str, object] = {
        "cluster": config.cluster_name,
        "user": config.user_name,
        "namespace": config.namespace,
        "file": config.context_origin,
    }
    text = (
        f"{which}, cluster {config.cluster_name!r}, user {config.user_name!r}, namespace {config.namespace!r}"
    )
    yield Reason(
        stage=ReasonStage.CONTEXT,
        subject=config.context,
        outcome=ReasonOutcome.CHOSEN,
        text=text,
        facts=facts,
    )


def _chosen_profile(choice: ProfileChoice) -> Iterator[Reason]:
    """Yield which provider serves the profile and why, what the profile adds to its plugin, and what is ignored."""
    before = ", ".join(map(repr, choice.passed_over))
    after = f"; before it the file has {before}, which the profile has not" if before else ""
    text = f"provider {choice.provider!r}: the first of the file that is in the profile's {choice.listed_in}{after}"
    facts: dict[str, object] = {
        "provider": choice.provider,
        "passedOver": list(choice.passed_over),
        "list": choice.listed_in,
    }
    yield _of_profile(choice, ReasonOutcome.CHOSEN, text, facts)
    if choice.added_args:
        arguments = mask_arguments(choice.added_args)
        text = f"adds arguments to the plugin: {_line(arguments)}"
        yield _of_profile(choice, ReasonOutcome.ADDED, text, {"args": list(arguments)})
    for names, text in (
        (choice.added_variables, "adds variables to the plugin"),
        (choice.replaced_variables, "replaces variables of the provider"),
    ):
        if names:
            facts = {"env": list(names)}
            yield _of_profile(choice, ReasonOutcome.ADDED, f"{text}: {', '.join(names)}", facts)
    if choice.kept_variables:
        kept = ", ".join(choice.kept_variables)
        text = f"does not replace variables of the provider (AppendIfNotExists): {kept}"
        facts = {"env": list(choice.kept_variables)}
        yield _of_profile(choice, ReasonOutcome.IGNORED, text, facts)
    for each in choice.ignored:
        text = f"{each.name} is ignored: {each.why}"
        yield _of_profile(choice, ReasonOutcome.IGNORED, text, {"setting": each.name})


def _of_profile(choice: ProfileChoice, outcome: ReasonOutcome, text: str, facts: dict[str, object]) -> Reason:
    return Reason(stage=ReasonStage.PROFILE, subject=choice.profile, outcome=outcome, text=text, facts=facts)


def _underlying(error: KeyferryError | None) -> KeyferryError | None:
    """Return the error that caused a ClusterAuthError, which has a shorter message."""
    return error.underlying or error if isinstance(error, ClusterAuthError) else error


def _words(error: KeyferryError | None) -> str:
    """Return an error on one line, without the password that the server's URL may contain.

    What a plugin wrote has a line of its own.
    """
    text = f"plugin {error.plugin!r}: {describe_end(error)}" if isinstance(error, PluginError) else str(error)
    return hide_in_text("; ".join(text.splitlines()))


def _user(diagnosis: Diagnosis) -> Iterator[Reason]:
    config, mechanism = diagnosis.config, diagnosis.mechanism
    facts: dict[str, object] = {
        "mechanism": list(mechanism.used),
        "ignored": list(mechanism.ignored),
        "file": config.user_origin,
    }
    outcome = ReasonOutcome.CHOSEN if mechanism.used else ReasonOutcome.ANONYMOUS
    text = f"authenticated by {mechanism}" if mechanism.used else f"not authenticated: {mechanism}"
    if diagnosis.stage is ReasonStage.USER:
        outcome = ReasonOutcome.FAILED
        text += f"; failed: {_words(diagnosis.error)}"
    yield Reason(stage=ReasonStage.USER, subject=config.user_name, outcome=outcome, text=text, facts=facts)
    if config.impersonate:
        yield Reason(
            stage=ReasonStage.USER,
            subject=config.user_name,
            outcome=ReasonOutcome.IMPERSONATES,
            text=f"impersonates {config.impersonate!r}",
        )


def _program(diagnosis: Diagnosis) -> Iterator[Reason]:
    plugin = diagnosis.config.exec
    if plugin is None or not diagnosis.uses_plugin:
        return
    command = clean_path(plugin.command)
    arguments = mask_arguments(plugin.args or ())
    names = [variable.name for variable in plugin.env]
    facts: dict[str, object] = {
        "command": command,
        "args": list(arguments),
        "env": names,
        "apiVersion": plugin.api_version,
        "interactiveMode": plugin.interactive_mode,
        "provideClusterInfo": plugin.provide_cluster_info,
    }
    if diagnosis.permit is not None:
        facts["path"] = diagnosis.permit.path
        yield _found(diagnosis, command, facts)
    yield Reason(
        stage=ReasonStage.PROGRAM,
        subject=command,
        outcome=ReasonOutcome.COMMAND,
        text=f"command: {_line((command, *arguments))}",
        facts=facts,
    )
    env = ", ".join(names) or "none"
    source = "kubeconfig" if diagnosis.choice is None else "provider file and the profile"
    own = f"the {len(os.environ)} of this process and KUBERNETES_EXEC_INFO"
    yield Reason(
        stage=ReasonStage.PROGRAM,
        subject=command,
        outcome=ReasonOutcome.ENVIRONMENT,
        text=f"variables from the {source}: {env}; plus {own}",
    )
    told = "with" if plugin.provide_cluster_info else "without"
    text = f"input {told} the cluster (provideClusterInfo), apiVersion {plugin.api_version}"
    yield Reason(
        stage=ReasonStage.PROGRAM,
        subject=command,
        outcome=ReasonOutcome.PROTOCOL,
        text=f"{text}, interactiveMode {plugin.interactive_mode}",
    )


def _line(words: tuple[str, ...]) -> str:
    return shlex.join(words).replace(f"'{MASK}'", MASK)


def _found(diagnosis: Diagnosis, command: str, facts: dict[str, object]) -> Reason:
    permit = diagnosis.permit
    if permit is not None and permit.problem:
        return Reason(
            stage=ReasonStage.PROGRAM,
            subject=command,
            outcome=ReasonOutcome.NOT_FOUND,
            text=f"cannot be found: {permit.problem}",
            facts=facts,
        )
    path = permit.path if permit is not None else command
    if not os.path.exists(path):
        return Reason(
            stage=ReasonStage.PROGRAM,
            subject=command,
            outcome=ReasonOutcome.NOT_FOUND,
            text=f"{path} does not exist",
            facts=facts,
        )
    where = "by its path" if os.sep in command else "in PATH"
    return Reason(
        stage=ReasonStage.PROGRAM,
        subject=command,
        outcome=ReasonOutcome.FOUND,
        text=f"found {where}: {path}",
        facts=facts,
    )


def _policy(diagnosis: Diagnosis) -> Iterator[Reason]:
    subject = diagnosis.config.exec.command if diagnosis.config.exec is not None else ""
    if diagnosis.stage is ReasonStage.POLICY:
        yield Reason(
            stage=ReasonStage.POLICY,
            subject=subject,
            outcome=ReasonOutcome.DENIED,
            text=f"refused: {_words(diagnosis.error)}",
        )
    if diagnosis.stage is ReasonStage.POLICY or not diagnosis.uses_plugin:
        return
    loaded = diagnosis.kuberc
    kind = loaded.policy.policy_type if loaded is not None else ""
    if loaded is None or not loaded.path:
        text = "allowed: there is no kuberc, so every program may run"
    elif kind in ("", "AllowAll"):
        text = f"allowed: {loaded.path} allows every program"
    else:
        pinned = ", with its digest" if diagnosis.permit is not None and diagnosis.permit.digests else ""
        text = f"allowed: it is in the allowlist of {loaded.path}{pinned}"
    yield Reason(
        stage=ReasonStage.POLICY,
        subject=subject,
        outcome=ReasonOutcome.ALLOWED,
        text=text,
        facts={"policy": kind or "AllowAll"},
    )


def _plugin(diagnosis: Diagnosis) -> Iterator[Reason]:
    if not diagnosis.uses_plugin or diagnosis.stage in (ReasonStage.POLICY, ReasonStage.USER):
        yield from _certificate(diagnosis)
        return
    command = diagnosis.config.exec.command if diagnosis.config.exec is not None else ""
    if diagnosis.stage is ReasonStage.PLUGIN:
        text = _words(_underlying(diagnosis.error))
        yield Reason(stage=ReasonStage.PLUGIN, subject=command, outcome=ReasonOutcome.FAILED, text=text)
        yield from _standard_error(diagnosis, command)
        return
    credential = diagnosis.credential
    if credential is None:
        yield Reason(
            stage=ReasonStage.PLUGIN,
            subject=command,
            outcome=ReasonOutcome.NOT_RUN,
            text="not run (--no-run)",
        )
        return
    kinds = [
        name
        for name, value in (("a token", credential.token), ("a certificate", credential.certificate_pem))
        if value
    ]
    until = (
        "it has no expiry"
        if credential.expires_ns is None
        else f"it {diagnosis.ending(credential.expires_ns)}"
    )
    facts: dict[str, object] = {
        "token": bool(credential.token),
        "certificate": bool(credential.certificate_pem),
        "expires": None if credential.expires_ns is None else format_instant(credential.expires_ns),
        "expired": diagnosis.is_expired,
        "seconds": round(diagnosis.seconds, 6),
    }
    text = f"answered after {diagnosis.seconds * 1000:.0f} ms with {' and '.join(kinds)}; {until}"
    yield Reason(
        stage=ReasonStage.PLUGIN, subject=command, outcome=ReasonOutcome.ANSWERED, text=text, facts=facts
    )
    yield from _certificate(diagnosis)
    if diagnosis.renewal is None:
        yield from _standard_error(diagnosis, command)


def _standard_error(diagnosis: Diagnosis, command: str) -> Iterator[Reason]:
    tail = diagnosis.stderr_tail
    if tail:
        text = f"its standard error, with secrets masked: {in_one_line(tail)}"
        yield Reason(
            stage=ReasonStage.PLUGIN,
            subject=command,
            outcome=ReasonOutcome.STDERR,
            text=text,
            facts={"stderr": tail},
        )
    elif diagnosis.needs_terminal and os.isatty(0):
        text = (
            "it had the terminal (interactiveMode is Always): what it wrote there was neither masked nor kept"
        )
        yield Reason(stage=ReasonStage.PLUGIN, subject=command, outcome=ReasonOutcome.STDERR, text=text)


def _certificate(diagnosis: Diagnosis) -> Iterator[Reason]:
    pair = diagnosis.key_pair
    if pair is not None:
        facts: dict[str, object] = {"subject": pair.subject, "notAfter": format_instant(pair.not_after_ns)}
        text = f"certificate of {pair.subject!r}, which {diagnosis.ending(pair.not_after_ns)}"
        yield Reason(
            stage=ReasonStage.PLUGIN,
            subject=pair.subject,
            outcome=ReasonOutcome.CERTIFICATE,
            text=text,
            facts=facts,
        )


def _server(diagnosis: Diagnosis) -> Iterator[Reason]:
    answer, server = diagnosis.review, hide_in_url(diagnosis.config.server)
    yield from _renewal(diagnosis, server)
    if diagnosis.stage is ReasonStage.SERVER:
        yield Reason(
            stage=ReasonStage.SERVER,
            subject=server,
            outcome=ReasonOutcome.FAILED,
            text=_words(diagnosis.error),
        )
    elif answer is not None and not answer.status:
        groups = f", in {', '.join(answer.groups)}" if answer.groups else ""
        facts: dict[str, object] = {"username": answer.username, "groups": list(answer.groups)}
        yield Reason(
            stage=ReasonStage.SERVER,
            subject=server,
            outcome=ReasonOutcome.ACCEPTED,
            text=f"identifies you as {answer.username!r}{groups}",
            facts=facts,
        )
    elif answer is not None:
        yield from _refusals(diagnosis, answer)


def _renewal(diagnosis: Diagnosis, server: str) -> Iterator[Reason]:
    """Yield the first response, if it made the plugin run again, and the result of that run."""
    renewal = diagnosis.renewal
    if renewal is None:
        return
    text = "responded 401 to the credential of the plugin's first run"
    yield Reason(
        stage=ReasonStage.SERVER,
        subject=server,
        outcome=ReasonOutcome.REFUSED,
        text=text,
        facts={"status": 401},
    )
    command = diagnosis.config.exec.command if diagnosis.config.exec is not None else ""
    if renewal.credential is None:
        text = f"run again after the response 401, it gave no other credential: {_words(renewal.error)}"
        yield Reason(stage=ReasonStage.PLUGIN, subject=command, outcome=ReasonOutcome.FAILED, text=text)
    else:
        which = "the same" if renewal.credential == diagnosis.credential else "another"
        text = f"run again after the response 401, it answered with {which} credential"
        yield Reason(stage=ReasonStage.PLUGIN, subject=command, outcome=ReasonOutcome.ANSWERED, text=text)
    yield from _standard_error(diagnosis, command)


def _refusals(diagnosis: Diagnosis, answer: Review) -> Iterator[Reason]:
    server, version, renewal = hide_in_url(diagnosis.config.server), diagnosis.version, diagnosis.renewal
    if version is not None and diagnosis.is_accepted:
        text = f"does not identify you (status {answer.status}), but /version has status {version.status}"
        yield Reason(
            stage=ReasonStage.SERVER,
            subject=server,
            outcome=ReasonOutcome.ANSWERS,
            text=text,
            facts={"status": version.status},
        )
        return
    if renewal is None or renewal.credential is not None:
        which = "" if renewal is None else " to the credential of its second run"
        yield _refusal(server, answer, which)
    if version is not None:
        yield _refusal(server, version, " to a request for /version")


def _refusal(server: str, answer: Review, which: str) -> Reason:
    facts: dict[str, object] = {"status": answer.status}
    if answer.denied is not None:
        facts |= {"username": answer.username, "denied": str(answer.denied)}
    text = f"responded {answer.status}{which}: {answer.problem}"
    return Reason(
        stage=ReasonStage.SERVER, subject=server, outcome=ReasonOutcome.REFUSED, text=text, facts=facts
    )
