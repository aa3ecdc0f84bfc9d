"""This machine as a node: its kubelets, and their settings from flags, drop-in files, the config file and defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from keyferry._core.bounded import open_now
from keyferry._core.documents import read_document
from keyferry._core.gotext import go_strerror
from keyferry._core.host_root import on_host
from keyferry._core.values import Value
from keyferry.errors import DocumentError
from keyferry.images.node.kubelet import (
    BIN_DIR_FLAG,
    CONFIG_FLAG,
    KUBELET_ROOT,
    Kubelet,
    Kubelets,
    look_for_kubelets,
)

RECORDS_GATE = "KubeletEnsureSecretPulledImages"

KUBELET_CONFIG_API_VERSION, KUBELET_CONFIG_KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
# Fields that people write and that no version of Kubernetes has, with the flag that is meant. The kubelet logs that
# its strict decoder refuses such a field, and goes on without it.
UNKNOWN_FIELDS = {
    "imageCredentialProviderConfigFile": CONFIG_FLAG,
    "imageCredentialProviderBinDir": BIN_DIR_FLAG,
}
_DROP_IN = ".conf"
_MAX_BYTES = 16 << 20
# The default endpoint of each program's kubelet; it is not known for other programs.
_ENDPOINTS = {
    "kubelet": "unix:///run/containerd/containerd.sock",
    "k3s": "unix:///run/k3s/containerd/containerd.sock",
    "k3s-server": "unix:///run/k3s/containerd/containerd.sock",
    "k3s-agent": "unix:///run/k3s/containerd/containerd.sock",
    "rke2": "unix:///run/k3s/containerd/containerd.sock",
}

Json = dict[str, object]


class Setting(Value):
    """A value, and where it is set."""

    value: str
    origin: str

    def __str__(self) -> str:
        return f"{self.value} ({self.origin})"


class KubeletSettings(Value):
    """The settings of a kubelet that affect pulls; None for a setting that is not set or not known.

    *gates* are the feature gates that are set; *notes* name the files that could not be read, *ignored* the fields
    that are meant to name a provider config and that no kubelet has. *files* are the config file and the drop-in
    files that were read, as this process finds them. *parallel_pulls* is ``maxParallelImagePulls``.
    """

    kubelet: Kubelet
    root_dir: Setting
    endpoint: Setting | None = None
    image_endpoint: Setting | None = None
    provider_config: Setting | None = None
    bin_dir: Setting | None = None
    kubeconfig: Setting | None = None
    policy: Setting | None = None
    allowlist: tuple[str, ...] = ()
    gates: Mapping[str, bool] = {}
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    parallel_pulls: int | None = None


class Node:
    """The kubelets of this machine and their settings, read on first use and not again.

    *elsewhere* is the reason why this machine is not the node in question, or empty if it is. A node elsewhere has no
    kubelets and no files here.
    """

    def __init__(self, proc: str | None = None, *, elsewhere: str = "") -> None:
        """Use the processes in *proc*, by default KEYFERRY_PROC or ``/proc``."""
        self.elsewhere = elsewhere
        self._proc = proc
        self._read: dict[int, KubeletSettings] = {}

    @cached_property
    def kubelets(self) -> Kubelets:
        """All visible kubelets."""
        return Kubelets() if self.elsewhere else look_for_kubelets(self._proc)

    @property
    def kubelet(self) -> Kubelet | None:
        """The first trusted kubelet, whose settings are those of this node."""
        return next(iter(self.kubelets.trusted), None)

    @property
    def settings(self) -> KubeletSettings | None:
        """The settings of that kubelet."""
        return None if self.kubelet is None else self.settings_of(self.kubelet)

    def settings_of(self, kubelet: Kubelet) -> KubeletSettings:
        """Return the settings of a trusted kubelet; its files are read once."""
        if kubelet.pid not in self._read:
            self._read[kubelet.pid] = read_settings(kubelet)
        return self._read[kubelet.pid]


def read_settings(kubelet: Kubelet) -> KubeletSettings:
    """Read the settings of *kubelet* from its flags and files; a file that cannot be read is listed in the notes."""
    merged = _Merged(kubelet)
    endpoint = merged.find("containerRuntimeEndpoint", "--container-runtime-endpoint")
    default = _ENDPOINTS.get(kubelet.program)
    # A file that was not read may set another endpoint.
    if endpoint is None and default is not None and not merged.notes:
        endpoint = Setting(value=default, origin="the kubelet's default")
    parallel_pulls = merged.number("maxParallelImagePulls")
    return KubeletSettings(
        kubelet=kubelet,
        root_dir=merged.find("", "--root-dir") or Setting(value=KUBELET_ROOT, origin="the kubelet's default"),
        endpoint=endpoint,
        image_endpoint=merged.find("imageServiceEndpoint", "--image-service-endpoint"),
        provider_config=merged.find("", CONFIG_FLAG),
        bin_dir=merged.find("", BIN_DIR_FLAG),
        kubeconfig=merged.find("", "--kubeconfig"),
        policy=merged.find("imagePullCredentialsVerificationPolicy"),
        allowlist=merged.texts("preloadedImagesVerificationAllowlist"),
        gates={**merged.gates(), **_parse_gates(kubelet.flags.get("--feature-gates", ""))},
        notes=tuple(merged.notes),
        ignored=merged.ignored,
        files=tuple(merged.files),
        parallel_pulls=parallel_pulls,
    )


def node_config_candidates(root: str, cwd: str, home: str) -> tuple[tuple[str, bool], ...]:
    """Return the paths of the node's docker config, in the kubelet's order, and whether each is a ``config.json``."""
    modern = (root, cwd, os.path.join(home, ".docker") if home else "", "/.docker")
    legacy = (root, cwd, home, "/")
    return (
        *((os.path.join(folder, "config.json"), True) for folder in modern if folder),
        *((os.path.join(folder, ".dockercfg"), False) for folder in legacy if folder),
    )


def describe_unknown_field(name: str) -> str:
    """Return what is wrong with one of UNKNOWN_FIELDS, and what to set instead."""
    return (
        f"{KUBELET_CONFIG_KIND} has no field {name} in any version of Kubernetes: the kubelet ignores it; "
        f"set the flag {UNKNOWN_FIELDS[name]}"
    )


class _Merged:
    """The files of a kubelet, merged as in the kubelet, and the flags that override them."""

    def __init__(self, kubelet: Kubelet) -> None:
        self.notes: list[str] = []
        self.files: list[str] = []
        self._kubelet = kubelet
        self._fields: Json = {}
        self._origins: dict[str, str] = {}
        for path in self._files():
            fields = self._load(path)
            self._fields = _merge(self._fields, fields)
            self._origins |= dict.fromkeys(fields, f"{path} of {kubelet}")

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields that no kubelet has, with the file of each."""
        return tuple(
            f"{self._origins[name]}: {describe_unknown_field(name)}"
            for name in UNKNOWN_FIELDS
            if name in self._fields
        )

    def find(self, field: str, flag: str = "") -> Setting | None:
        """Return a string setting: the flag, else the field of the files, else None."""
        if self._kubelet.flags.get(flag):
            return Setting(value=self._kubelet.flags[flag], origin=f"flags of {self._kubelet}")
        found = self._checked(field, "a string", lambda value: isinstance(value, str))
        return Setting(value=found, origin=self._origins[field]) if found and isinstance(found, str) else None

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a field that is a list of strings."""
        found = self._checked(field, "a list of strings", _is_texts)
        return tuple(found) if isinstance(found, list) else ()

    def number(self, field: str) -> int | None:
        """Return a field that is a whole number."""
        found = self._checked(field, "a whole number", lambda value: type(value) is int)
        return found if isinstance(found, int) else None

    def gates(self) -> dict[str, bool]:
        """Return the feature gates of the files."""
        found = self._checked("featureGates", "true or false by name", _is_gates)
        return dict(found) if isinstance(found, dict) else {}

    def _checked(self, field: str, expected: str, is_right: Callable[[object], bool]) -> object:
        value = self._fields.get(field)
        if value is None or is_right(value):
            return value
        self.notes.append(f"{self._origins[field]}: {field}: expected {expected}")
        return None

    def _files(self) -> Iterator[str]:
        """Yield the config file, then the drop-in files in the order of their names."""
        config, folder = (self._kubelet.flags.get(flag, "") for flag in ("--config", "--config-dir"))
        if config:
            yield config
        if folder:
            yield from self._drop_ins(folder)

    def _drop_ins(self, folder: str) -> Iterator[str]:
        def note(error: OSError) -> None:
            self._note(folder, f"cannot be read: {go_strerror(error)}")

        try:
            top = on_host(self._kubelet.inside(folder))
        except OSError as error:
            note(error)
            return iter(())
        found = [
            os.path.join(folder, os.path.relpath(os.path.join(place, name), top))
            for place, _, names in os.walk(top, onerror=note)
            for name in names
            if os.path.splitext(name)[1] == _DROP_IN
        ]
        # Go's order: by the parts of the path, so that the files of a folder stay together.
        return iter(sorted(found, key=lambda path: path.split(os.sep)))

    def _load(self, path: str) -> Json:
        seen = self._kubelet.inside(path)
        try:
            # Opened without blocking, in case the path is a named pipe.
            with open(on_host(seen), "rb", opener=open_now) as stream:
                self.files.append(seen)
                document = read_document(stream.read(_MAX_BYTES))
        except OSError as error:
            return self._note(path, f"cannot be read: {go_strerror(error)}")
        except DocumentError as error:
            return self._note(path, str(error))
        value = document.value
        if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != (
            KUBELET_CONFIG_API_VERSION,
            KUBELET_CONFIG_KIND,
        ):
            return self._note(path, f"expected a {KUBELET_CONFIG_KIND} of {KUBELET_CONFIG_API_VERSION}")
        if document.duplicates:
            line = document.duplicates[0].position.line
            return self._note(path, f"a key is given twice, in line {line}")
        return value

    def _note(self, path: str, problem: str) -> Json:
        self.notes.append(f"{path} of {self._kubelet}: {problem}")
        return {}


def _merge(base: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7396): maps are merged, null removes, other values replace."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = _merge(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _parse_gates(text: str) -> dict[str, bool]:
    """Parse the feature gates of a flag, such as ``One=true,Two=false``."""
    pairs = (word.strip().partition("=") for word in text.split(","))
    return {
        name.strip(): value.strip().lower() in ("true", "t", "1") for name, _, value in pairs if name.strip()
    }


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and _all(value, str)


def _is_gates(value: object) -> bool:
    return isinstance(value, dict) and _all(value.values(), bool)


def _all(values: Iterable[object], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)
