"""Azure's clouds: their token authorities and registry suffixes."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import loads
from keyferry._core.values import Value, replace
from keyferry.errors import DocumentError
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import fetch
from keyferry_plugins.oauth.answers import object_of, refused, text_of
from keyferry_plugins.oauth.calls import check_https

# The audience of tokens for registries is the same in every cloud.
REGISTRY_RESOURCE = "https://containerregistry.azure.net"
REGISTRY_SCOPE = f"{REGISTRY_RESOURCE}/.default"
_VARIABLE = "AZURE_ENVIRONMENT_FILEPATH"


class Cloud(Value):
    """One cloud; *authority* ends in a slash, *registry_suffix* has no leading dot unless a file sets one."""

    authority: str
    registry_suffix: str


PUBLIC = Cloud(authority="https://login.microsoftonline.com/", registry_suffix="azurecr.io")
_GOVERNMENT = Cloud(authority="https://login.microsoftonline.us/", registry_suffix="azurecr.us")
_CHINA = Cloud(authority="https://login.chinacloudapi.cn/", registry_suffix="azurecr.cn")
_CLOUDS = {
    "": PUBLIC,
    "azurecloud": PUBLIC,
    "azurepublic": PUBLIC,
    "azurepubliccloud": PUBLIC,
    "azureusgovernment": _GOVERNMENT,
    "azureusgovernmentcloud": _GOVERNMENT,
    "azurechinacloud": _CHINA,
}
KNOWN_NAMES = "AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud, AzureStackCloud"


def find_cloud(name: str, environ: Mapping[str, str]) -> Cloud | None:
    """Return the cloud of that name, in any letter case, or None if it is unknown."""
    key = name.strip().lower()
    return _load_stack_cloud(environ) if key == "azurestackcloud" else _CLOUDS.get(key)


def _load_stack_cloud(environ: Mapping[str, str]) -> Cloud:
    """Return the cloud of the file in AZURE_ENVIRONMENT_FILEPATH, with the public cloud's values as defaults."""
    path = environ.get(_VARIABLE, "")
    if not path:
        raise ProvideError(
            f"cloud AzureStackCloud: {_VARIABLE} is not set",
            "set it to the JSON file with the cloud's activeDirectoryEndpoint and containerRegistryDNSSuffix",
        )
    what = f"the cloud's file {path!r}"
    document = _read_json(read_bounded(path, "the cloud's file").removeprefix(b"\xef\xbb\xbf"), what)
    if not isinstance(document, dict):
        raise ProvideError(f"{what} is not a JSON object")
    fields = {key.lower(): value for key, value in document.items() if isinstance(value, str) and value}
    authority = fields.get("activedirectoryendpoint", PUBLIC.authority)
    return Cloud(
        authority=read_authority(authority, f"activeDirectoryEndpoint in {path!r}"),
        registry_suffix=fields.get("containerregistrydnssuffix", PUBLIC.registry_suffix),
    )


def ask_resource_manager(endpoint: str, name: str, cloud: Cloud, deadline: Deadline) -> Cloud:
    """Return the cloud that the resource manager describes: the entry *name*, or the first entry if *name* is empty."""
    url = f"{check_https(endpoint, 'resourceManagerEndpoint').rstrip('/')}/metadata/endpoints"
    reply = fetch("GET", f"{url}?api-version=2019-05-01", deadline=deadline)
    if not reply.is_success:
        raise refused(
            reply,
            f"{reply.url}: answered status {reply.status}, expected the endpoints of the cloud",
            "check resourceManagerEndpoint in the cloud config",
        )
    entry = _choose_entry(_read_json(reply.body, reply.url), name, reply.url)
    login = text_of(object_of(entry, "authentication"), "loginEndpoint")
    suffix = text_of(object_of(entry, "suffixes"), "acrLoginServer")
    return replace(
        cloud,
        authority=read_authority(login, f"loginEndpoint from {reply.url}") if login else cloud.authority,
        registry_suffix=suffix or cloud.registry_suffix,
    )


def read_authority(text: str, what: str) -> str:
    """Return an authority as a base URL: https, with a trailing slash."""
    if any(mark in text for mark in "?#@\\") or any(char <= " " for char in text):
        raise ProvideError(f"{what} is not a plain https:// URL")
    return f"{check_https(text, what).rstrip('/')}/"


def _choose_entry(document: object, name: str, url: str) -> dict[str, object]:
    found = document if isinstance(document, list) else [document]
    entries = [entry for entry in found if isinstance(entry, dict)]
    wanted = name.strip().lower()
    for entry in entries:
        if not wanted or str(entry.get("name", "")).lower() == wanted:
            return entry
    names = ", ".join(repr(str(entry.get("name"))[:40]) for entry in entries[:8]) or "none"
    raise ProvideError(
        f"{url}: there is no cloud {name!r}, only {names}", "set 'cloud' in the config to one of them"
    )


def _read_json(data: bytes, what: str) -> object:
    try:
        return loads(data)
    except DocumentError as error:
        problem = str(error)
    raise ProvideError(f"{what}: {problem}")
