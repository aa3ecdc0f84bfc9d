"""How to give the inputs that a lookup lacked, with commands to paste.

Secrets and tokens are written to new files that only the user can read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry.explain.explanation import Cure
from keyferry.explain.facts import Facts
from keyferry.images.answer import ACCOUNT_INPUTS, LookupInput, LookupOutcome, MissingInput

__all__ = ["input_cures"]


def input_cures(facts: Facts) -> Iterator[Cure]:
    """Yield how to give each missing input, and the command that tries the way of a token that is refused."""
    answer = facts.answer
    for at, (missing, hint) in enumerate(zip(answer.missing, facts.hints, strict=False)):
        # The verdict names the first one.
        is_told = not at and answer.outcome is LookupOutcome.UNKNOWN and facts.check is None
        text = hint.removeprefix(f"{missing}; ") if is_told else hint
        yield Cure(text=text, lines=tuple(_input_lines(facts, missing)))
    if facts.try_command:
        yield Cure(
            text="see which step from the service account to the registry fails", lines=(facts.try_command,)
        )


def _input_lines(facts: Facts, missing: MissingInput) -> Iterator[str]:
    command = facts.command
    if not command or missing.instead:
        return
    if missing is next((each for each in facts.answer.missing if each.input in ACCOUNT_INPUTS), None):
        yield from facts.account_lines
    elif missing.input is LookupInput.PULL_SECRET and facts.pod is not None:
        name, namespace = shlex.quote(missing.name), shlex.quote(facts.pod.namespace)
        new_file = f"secret=$(mktemp {shlex.quote(f'{missing.name}.XXXXXX')})"
        get = f'kubectl get secret {name} -n {namespace} -o yaml > "$secret"'
        yield f'{new_file} && {get} && {command} --secret "$secret"'
    elif missing.input is LookupInput.DOCKER_CONFIG:
        yield f"{command} --docker-config {shlex.quote(missing.name)}"
    elif missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN:
        namespace, _, name = missing.name.partition("/")
        create = f"kubectl create token {shlex.quote(name)} -n {shlex.quote(namespace)}{_audience(facts)}"
        yield (
            f'token=$(mktemp token.XXXXXX) && {create} > "$token" && {command} --service-account-token "$token"'
        )


def _audience(facts: Facts) -> str:
    """Return the option for the audience of the first provider that lacks a token."""
    answer = facts.answer
    lacking = {each.provider for each in answer.provisions if each.missing}
    for provider in answer.providers:
        if provider.name in lacking and provider.token_attributes is not None:
            return f" --audience {shlex.quote(provider.token_attributes.service_account_token_audience)}"
    return ""
