"""What the kit asks a cluster plugin, in KUBERNETES_EXEC_INFO: as client-go does, in other versions, and broken."""

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import GROUP, KIND, ClusterInfo, encode_exec_info
from keyferry.clusters.auth.execinfo import EXEC_INFO
from keyferry.clusters.why.disclose import exec_info_document, write_document
from keyferry.kit.lab.experiments import Experiment
from keyferry.kit.lab.subject import Subject

__all__ = ["cluster_experiments", "good_infos"]

_MADE_UP = ClusterInfo(
    server="https://kubernetes.keyferry.invalid:6443", certificate_authority_data=b"", config='{"a":"b"}'
)
# One variable may be 128 KiB on Linux; this leaves room for its name.
_HUGE = 100_000
_INPUT = b"keyferry\n"


def good_infos(subject: Subject) -> Iterator[Experiment]:
    """The question as client-go asks it, and the same again."""
    good = _ask("good", subject.api_version, subject.cluster)
    yield replace(good, is_sampled=True)
    yield replace(good, name="again")


def cluster_experiments(subject: Subject) -> Iterator[Experiment]:
    """Every question beside the good ones."""
    good = _ask("good", subject.api_version, subject.cluster)
    for version in subject.other_versions():
        yield _ask(f"version {version.rpartition('/')[2]}", version, subject.cluster)
    yield _ask("with cluster", subject.api_version, subject.cluster or _MADE_UP)
    yield replace(good, name="input", stdin=_INPUT, is_input_watched=True, feed="echo keyferry")
    yield replace(good, name="no exec info", env=(), shown=b"", unset=(EXEC_INFO,))
    yield from _broken(subject)


def _ask(name: str, api_version: str, cluster: ClusterInfo | None) -> Experiment:
    text = encode_exec_info(api_version, cluster, interactive=False)
    shown = write_document(exec_info_document(text)).encode()
    return Experiment(name, None, shown, api_version=api_version, env=((EXEC_INFO, text),))


def _broken(subject: Subject) -> Iterator[Experiment]:
    texts = {
        "empty exec info": "",
        "text for exec info": "this is not JSON",
        "truncated exec info": f'{{"kind":"{KIND}","apiVersion":"{subject.api_version}","spec":{{"inter',
        "array for exec info": "[]",
        "null for exec info": "null",
        "wrong types in exec info": _info(subject.api_version, spec="text"),
        "exec info of another kind": _info("v1", kind="Pod"),
        "unknown version": _info(f"{GROUP}/v99"),
        "unknown field in exec info": _info(subject.api_version, fieldOfTheFuture=[1]),
        "huge exec info": _info(subject.api_version, fieldOfTheFuture="x" * _HUGE),
    }
    for name, text in texts.items():
        shown = text.encode() if len(text) < _HUGE else b"a very long text"
        yield Experiment(name, None, shown, api_version=subject.api_version, env=((EXEC_INFO, text),))


def _info(api_version: str, /, **other: object) -> str:
    return dumps({"kind": KIND, "apiVersion": api_version, "spec": {"interactive": False}, **other}) + "\n"
