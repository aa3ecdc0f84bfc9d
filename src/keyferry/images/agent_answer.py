"""A whole answer of the node agent, for a caller that has loaded no provider: the config is hashed, not decoded."""

from __future__ import annotations

import os

from keyferry._core.json import dumps
from keyferry._core.log import log_debug
from keyferry._net.agent import ANSWER_SECONDS, API_VERSION, Fallback, FallbackReason, ask_agent
from keyferry.images.answer import AgentNote, Answer, Provision
from keyferry.images.config.contents import hash_of_files
from keyferry.images.keyring import Credential, Source, SourceKind
from keyferry.images.provider.agent import OUTCOMES, read_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.reference import ImageName

__all__ = ["ask_for_answer"]


def ask_for_answer(
    place: str, image: ImageName, config: str, bin_dir: str, timeout_seconds: float
) -> Answer | Fallback | None:
    """Return the agent's answer for an image without a pod, or why there is none.

    It is None if the agent found no credentials, or a provider may have another answer for a pod: then each provider
    has to be asked. The reasons of the answer do not have the providers that do not match.
    """
    config_hash = hash_of_files(config)
    if not config_hash:
        return None
    question = {
        "apiVersion": API_VERSION,
        "kind": "LookupRequest",
        "image": image.text,
        "configHash": config_hash,
        "binDir": os.path.abspath(bin_dir),
    }
    body = dumps(question).encode("utf-8", "surrogateescape")
    reply = ask_agent(place, "/v1/lookup", body, answer_seconds=min(ANSWER_SECONDS, timeout_seconds))
    found = reply if isinstance(reply, Fallback) else read_document(reply, "LookupResponse", config_hash)
    if not isinstance(found, Fallback) and found.get("failures") != []:
        # Not asked for each provider as well: a plugin that fails there would be run there again, and then here.
        found = Fallback(FallbackReason.FAILED, "a plugin failed in the agent")
    if isinstance(found, Fallback):
        log_debug("agent", "not used: %s", found.message)
        return found
    answer = read_lookup(found, image)
    log_debug(
        "agent", "%s: %s", image.repository, "it has the whole answer" if answer else "each provider is asked"
    )
    return answer


def read_lookup(document: dict[str, object], image: ImageName) -> Answer | None:
    """Return the answer in a LookupResponse that is complete, else None."""
    if document.get("missing") != []:
        return None
    credentials, sources = document.get("credentials"), document.get("sources")
    if not isinstance(credentials, list) or not credentials or not isinstance(sources, dict):
        return None
    read = tuple(map(_read_credential, credentials))
    outcomes = {name: OUTCOMES.get(how) for name, how in sources.items() if isinstance(how, str)}
    provisions = tuple(
        Provision(name, how, agent=AgentNote()) for name, how in outcomes.items() if how is not None
    )
    if len(provisions) != len(sources):
        return None
    known = tuple(credential for credential in read if credential is not None)
    return (
        Answer(image.text, image.repository, known, provisions, (), ()) if len(known) == len(read) else None
    )


def _read_credential(found: object) -> Credential | None:
    """Return a credential of a provider, for no service account; None for anything else."""
    if not isinstance(found, dict):
        return None
    username, password, key, source = map(found.get, ("username", "password", "key", "source"))
    is_text = isinstance(username, str) and isinstance(password, str) and isinstance(key, str)
    if not is_text or not isinstance(source, dict) or source.keys() != {"kind", "name"}:
        return None
    if source["kind"] != SourceKind.PROVIDER or not isinstance(source["name"], str):
        return None
    return Credential(str(username), str(password), Source(SourceKind.PROVIDER, source["name"]), str(key))
