"""Plugins for the conformance kit: good ones, and the template of the broken ones.

They are shell scripts, so that fifty runs of one take less than a second. The good one is a template with
gaps, and each broken one fills a gap.
"""

from __future__ import annotations

import base64
import json
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyferry.kit.plugin import PluginKind, PluginUnderTest, full_api_version

from .plugins import write_executable

IMAGE_NAME = "registry.example/team/app"
PASSWORD = "s3cret-password"
TOKEN = "s3cret-token-of-a-cluster"
ACCOUNT_TOKEN = "s3cret-service-account-token"
V1 = "credentialprovider.kubelet.k8s.io/v1"
# What a kubelet takes.
GOOD = (
    f'{{"kind":"CredentialProviderResponse","apiVersion":"{V1}","cacheKeyType":"Registry","cacheDuration":"1m",'
    '"auth":{"r.io":{"username":"u","password":"p"}}}\n'
).encode()

# Answers only what it understands fully: one line, in a known version, for an image of its registry.
IMAGE_FRAME = """\
#!/bin/sh
{start}
fail() {{
{failing}
}}
first() {{ mkdir "{here}/first" 2>/dev/null; }}
request=$(head -c 100000 | tr -d '\\0')
{early}
case $request in
*'
'*) fail "more than one line" ;;
'{{"kind":"CredentialProviderRequest","apiVersion":"'*'}}') ;;
*) fail "not a request" ;;
esac
version=${{request#*'"apiVersion":"'}}; version=${{version%%'"'*}}
image=${{request#*'"image":"'}}; image=${{image%%'"'*}}
main=; [ "$image $version" = "{image} {version}" ] && main=yes
{late}
case $version in
credentialprovider.kubelet.k8s.io/v1|credentialprovider.kubelet.k8s.io/v1beta1) ;;
credentialprovider.kubelet.k8s.io/v1alpha1) ;;
*) fail "version $version is not known" ;;
esac
case $image in registry.example/*) ;; *) fail "no credentials for this registry" ;; esac
{before}
if [ -n "$main" ]; then {main}; else {other}; fi
{after}
"""

# Answers only what it understands fully: a version it knows, and nothing after spec.
CLUSTER_FRAME = """\
#!/bin/sh
{start}
fail() {{
{failing}
}}
first() {{ mkdir "{here}/first" 2>/dev/null; }}
info=$KUBERNETES_EXEC_INFO
{early}
case $info in
'{{"kind":"ExecCredential","apiVersion":"'*'","spec":{{'*'"interactive":false}}}}'*) ;;
*) fail "KUBERNETES_EXEC_INFO cannot be read" ;;
esac
version=${{info#*'"apiVersion":"'}}; version=${{version%%'"'*}}
{late}
case $version in
client.authentication.k8s.io/v1|client.authentication.k8s.io/v1beta1) ;;
*) fail "version $version is not known" ;;
esac
main=; [ "$version" = "{version}" ] && main=yes
{before}
if [ -n "$main" ]; then {main}; else {other}; fi
{after}
"""

FAILING = 'echo "plugin: $1" >&2; exit 1'


def say(document: object, end: str = "\\n") -> str:
    """Return the shell command that prints a document; ``$version`` in it is the version of the request."""
    text = document if isinstance(document, str) else json.dumps(document)
    return f"printf '%s{end}' " + '"$version"'.join(shlex.quote(part) for part in text.split("$version"))


def response(
    key_type: str = "Registry",
    duration: str | None = "10m0s",
    auth: Mapping[str, tuple[str, str]] | None = None,
    **other: object,
) -> dict[str, object]:
    """Return the answer of an image plugin."""
    logins = {"registry.example": ("user", PASSWORD)} if auth is None else auth
    document: dict[str, object] = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "$version",
        "cacheKeyType": key_type,
        "auth": {key: {"username": name, "password": word} for key, (name, word) in logins.items()},
    }
    if duration is not None:
        document["cacheDuration"] = duration
    return {**document, **other}


def credential(status: object = None, **other: object) -> dict[str, object]:
    """Return the answer of a cluster plugin."""
    good = {"token": TOKEN, "expirationTimestamp": "2099-01-01T00:00:00Z"}
    return {
        "kind": "ExecCredential",
        "apiVersion": "$version",
        "status": good if status is None else status,
        **other,
    }


def jwt(seconds: float) -> str:
    """Return an unsigned token that expires in *seconds*."""
    parts = ({"alg": "none"}, {"sub": "someone", "exp": int(time.time() + seconds)})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join((*encoded, "c2lnbmF0dXJl"))


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that fails one check: the text for the gaps of the template, and how it is examined."""

    gaps: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)
    # Other codes that it cannot help breaking.
    also: tuple[str, ...] = ()
    kind: PluginKind = PluginKind.IMAGE


def main(document: object, **fields: object) -> Broken:
    """Return a plugin with this answer to the main request, and good answers to others."""
    return Broken({"main": say(document)}, fields)


def always(document: object, also: tuple[str, ...] = (), **fields: object) -> Broken:
    """Return a plugin with this answer to every request."""
    return Broken({"main": say(document), "other": say(document)}, fields, also)


def cluster(gaps: Mapping[str, str], also: tuple[str, ...] = (), **fields: object) -> Broken:
    """Return a cluster plugin."""
    return Broken(gaps, fields, also, PluginKind.CLUSTER)


def answering(status: object = None, **other: object) -> Broken:
    """Return a cluster plugin with this answer to the main request."""
    return cluster({"main": say(credential(status, **other))})


def write_plugin(folder: Path, broken: Broken | None = None, name: str = "plugin") -> Path:
    """Write the plugin into a folder, where it may store its state."""
    broken = broken or Broken()
    good = say(response() if broken.kind == PluginKind.IMAGE else credential())
    gaps = {"start": "", "failing": FAILING, "early": "", "late": "", "before": "", "after": ""}
    gaps |= {"main": good, "other": good, **broken.gaps}
    here = folder / "state"
    here.mkdir(exist_ok=True)
    frame = IMAGE_FRAME if broken.kind == PluginKind.IMAGE else CLUSTER_FRAME
    gaps = {key: text.replace("{here}", str(here)) for key, text in gaps.items()}
    version = full_api_version(broken.kind, "v1")
    return write_executable(folder / name, frame.format(here=here, image=IMAGE_NAME, version=version, **gaps))


def plugin_at(path: Path, broken: Broken | None = None) -> PluginUnderTest:
    """Return the plugin at a path as the subject of a quick examination."""
    broken = broken or Broken()
    fields: dict[str, object] = {
        "kind": broken.kind,
        "images": (IMAGE_NAME,) if broken.kind == PluginKind.IMAGE else (),
        "api_versions": (full_api_version(broken.kind, "v1"),),
        "timeout_seconds": 20.0,
        **broken.fields,
    }
    return PluginUnderTest(path=str(path), **fields)  # type: ignore[arg-type] # by name, from the tables below


def give(document: object, version: str = "") -> str:
    """Return the shell commands that print a document and exit; *version* replaces that of the request."""
    known = f"version={version}; " if version else ""
    return f"{known}{say(document)}; exit"


PYTHON_PLUGIN = """#!{python} -IS
import json, sys

GROUP = "credentialprovider.kubelet.k8s.io/"

def main():
    try:
        request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
        kind, version, image = request["kind"], request["apiVersion"], request["image"]
        if kind != "CredentialProviderRequest" or version not in (GROUP + "v1", GROUP + "v1beta1", GROUP + "v1alpha1"):
            return fail("not a request in a version that is known")
        if not image.startswith("registry.example/"):
            return fail("no credentials for this image")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return fail("not a request")
    auth = {{"registry.example": {{"username": "user", "password": {password!r}}}}}
    answer = {{"kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Registry",
              "cacheDuration": "10m0s", "auth": auth}}
    print(json.dumps(answer))
    return 0

def fail(why):
    print("plugin: " + why, file=sys.stderr)
    return 1

sys.exit(main())
"""


def write_python_plugin(folder: Path) -> Path:
    """Write a good image plugin in Python."""
    text = PYTHON_PLUGIN.format(python=sys.executable, password=PASSWORD)
    return write_executable(folder / "python-plugin", text)
