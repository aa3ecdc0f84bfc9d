"""Requests to a cluster plugin in KUBERNETES_EXEC_INFO: client-go's own, other versions, and malformed ones."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import GROUP, KIND, ClusterInfo, encode_exec_info
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.why.masking import exec_info_document, write_document
from keyferry.kit.lab.experiments import Experiment, Family
from keyferry.kit.lab.plugin_under_test import PluginUnderTest

__all__ = ["cluster_experiments", "good_infos"]

_MADE_UP = ClusterInfo(
    server="https://kubernetes.keyferry.invalid:6443", certificate_authority_data=b"", config='{"a":"b"}'
)
# A variable is limited to 128 KiB on Linux; this leaves room for its name.
_HUGE = 100_000
_INPUT = b"keyferry\n"


def good_infos(plugin: PluginUnderTest) -> Iterator[Experiment]:
    """Yield client-go's own request, and the same request again."""
    good = _ask("good", plugin.api_version, plugin.cluster)
    yield replace(good, is_sampled=True, family=Family.NORMAL)
    yield replace(good, name="again")


def cluster_experiments(plugin: PluginUnderTest) -> Iterator[Experiment]:
    """Yield all experiments other than the normal requests."""
    good = _ask("good", plugin.api_version, plugin.cluster)
    for version in plugin.other_versions():
        one = _ask(f"version {version.rpartition('/')[2]}", version, plugin.cluster)
        yield replace(one, family=Family.VERSION)
    yield _ask("with cluster", plugin.api_version, plugin.cluster or _MADE_UP)
    yield replace(good, name="input", stdin=_INPUT, is_input_watched=True, feed="echo keyferry")
    yield replace(good, name="no exec info", env=(), shown=b"", unset=(EXEC_INFO,))
    yield from _broken(plugin)


def _ask(name: str, api_version: str, cluster: ClusterInfo | None) -> Experiment:
    text = encode_exec_info(api_version, cluster, interactive=False)
    shown = write_document(exec_info_document(text)).encode()
    return Experiment(name=name, stdin=None, shown=shown, api_version=api_version, env=((EXEC_INFO, text),))


def _broken(plugin: PluginUnderTest) -> Iterator[Experiment]:
    texts = {
        "empty exec info": "",
        "text for exec info": "this is not JSON",
        "truncated exec info": f'{{"kind":"{KIND}","apiVersion":"{plugin.api_version}","spec":{{"inter',
        "array for exec info": "[]",
        "null for exec info": "null",
        "wrong types in exec info": _info(plugin.api_version, spec="text"),
        "exec info of another kind": _info("v1", kind="Pod"),
        "unknown version": _info(f"{GROUP}/v99"),
        "unknown field in exec info": _info(plugin.api_version, fieldOfTheFuture=[1]),
        "huge exec info": _info(plugin.api_version, fieldOfTheFuture="x" * _HUGE),
    }
    for name, text in texts.items():
        shown = text.encode() if len(text) < _HUGE else b"a very long text"
        yield Experiment(
            name=name, stdin=None, shown=shown, api_version=plugin.api_version, env=((EXEC_INFO, text),)
        )


def _info(api_version: str, /, **other: object) -> str:
    return dumps({"kind": KIND, "apiVersion": api_version, "spec": {"interactive": False}, **other}) + "\n"
