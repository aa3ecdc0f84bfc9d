"""What a kubelet is set to: flags over drop-in files over the config file over defaults, as it reads them itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.images.node.settings import KubeletSettings, Node
from support.kubelets import Processes, write_config

DEFAULT = "the kubelet's default"
ENDPOINT = "containerRuntimeEndpoint"


def settings_of(processes: Processes, *argv: str) -> KubeletSettings:
    """What a kubelet with this command line is set to."""
    processes.write(17, *argv)
    settings = Node(str(processes)).settings
    assert settings is not None
    return settings


def shown(settings: KubeletSettings) -> dict[str, str]:
    """Every setting that is known, with its origin."""
    names = ("root_dir", "endpoint", "image_endpoint", "provider_config", "bin_dir", "kubeconfig", "policy")
    return {name: str(value) for name in names if (value := getattr(settings, name)) is not None}


def test_a_kubelet_without_flags_has_its_defaults(processes: Processes) -> None:
    """Root and runtime are known; nothing else is set."""
    settings = settings_of(processes, "kubelet")
    assert shown(settings) == {
        "root_dir": f"/var/lib/kubelet ({DEFAULT})",
        "endpoint": f"unix:///run/containerd/containerd.sock ({DEFAULT})",
    }
    assert (settings.allowlist, settings.gates, settings.notes) == ((), {}, ())


@pytest.mark.parametrize(
    ("argv", "endpoint"),
    [
        (("k3s", "server"), "unix:///run/k3s/containerd/containerd.sock"),
        (("kubelite",), None),
        (("hyperkube", "kubelet"), None),
    ],
)
def test_other_programs_have_other_defaults(
    processes: Processes, argv: tuple[str, ...], endpoint: str | None
) -> None:
    """What is not known is not guessed."""
    found = settings_of(processes, *argv).endpoint
    assert (None if found is None else found.value) == endpoint


def test_the_config_file_is_read(processes: Processes, tmp_path: Path) -> None:
    """Every field of it that matters, and where it stood."""
    path = write_config(
        tmp_path / "kubelet.yaml",
        containerRuntimeEndpoint="unix:///run/crio/crio.sock",
        imageServiceEndpoint="unix:///run/images.sock",
        imagePullCredentialsVerificationPolicy="NeverVerifyAllowlistedImages",
        preloadedImagesVerificationAllowlist=["registry.example/*"],
        featureGates={"One": True, "Two": False},
        maxPods=7,
    )
    settings = settings_of(
        processes, "kubelet", f"--config={path}", "--kubeconfig=/k", "--feature-gates=Two=true"
    )
    origin = f"{path} of the kubelet, process 17"
    assert shown(settings) == {
        "root_dir": f"/var/lib/kubelet ({DEFAULT})",
        "endpoint": f"unix:///run/crio/crio.sock ({origin})",
        "image_endpoint": f"unix:///run/images.sock ({origin})",
        "kubeconfig": "/k (flags of the kubelet, process 17)",
        "policy": f"NeverVerifyAllowlistedImages ({origin})",
    }
    assert settings.allowlist == ("registry.example/*",)
    assert settings.gates == {"One": True, "Two": True}


def test_fields_that_no_kubelet_has_name_no_providers(processes: Processes, tmp_path: Path) -> None:
    """The kubelet ignores them, and reads all the rest of the file; its flags alone name the providers."""
    path = write_config(
        tmp_path / "kubelet.yaml",
        imageCredentialProviderConfigFile="/p.yaml",
        imageCredentialProviderBinDir="/bin",
    )
    settings = settings_of(processes, "kubelet", f"--config={path}")
    assert (settings.provider_config, settings.bin_dir, settings.notes) == (None, None, ())
    assert settings.endpoint is not None
    for text, flag in zip(settings.ignored, ("config", "bin-dir"), strict=True):
        assert text.startswith(f"{path} of the kubelet, process 17: ")
        assert text.endswith(f"set the flag --image-credential-provider-{flag}")


def test_flags_override_drop_ins_and_these_the_config_file(processes: Processes, tmp_path: Path) -> None:
    """Drop-in files count in the order of their names, folders included; other files are passed over."""
    fields = ("imageServiceEndpoint", "imagePullCredentialsVerificationPolicy", ENDPOINT)
    main = write_config(
        tmp_path / "main.yaml", **dict.fromkeys(fields, "main"), featureGates={"A": True, "B": True}
    )
    folder = tmp_path / "conf.d"
    write_config(
        folder / "90-last.conf", imageServiceEndpoint="last", imagePullCredentialsVerificationPolicy=None
    )
    write_config(folder / "10-first.conf", imageServiceEndpoint="first", featureGates={"B": False})
    write_config(folder / "50" / "inner.conf", imageServiceEndpoint="inner")
    write_config(folder / "99.yaml", imageServiceEndpoint="ignored")
    settings = settings_of(
        processes,
        "kubelet",
        f"--config={main}",
        "--config-dir",
        str(folder),
        "--container-runtime-endpoint=flag",
    )
    found = {name: text.partition(" ")[0] for name, text in shown(settings).items()}
    assert found["endpoint"] == "flag"
    assert found["image_endpoint"] == "last"
    assert "policy" not in found, "null takes it away"
    assert settings.gates == {"A": True, "B": False}
    assert str(settings.image_endpoint).startswith(f"last ({folder}/90-last.conf of ")


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (None, "cannot be read: no such file or directory"),
        (b"{", "not valid JSON"),
        (b"kind: [", "not valid YAML"),
        (b"kind: KubeletConfiguration\napiVersion: v1\n", "expected a KubeletConfiguration"),
        (b"[]", "expected a KubeletConfiguration"),
        (
            b"kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 1\nmaxPods: 2\n",
            "a key is given twice, in line 4",
        ),
        (
            b"kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncontainerRuntimeEndpoint: 7\n",
            "containerRuntimeEndpoint: expected a string",
        ),
    ],
    ids=["missing", "json", "yaml", "version", "list", "twice", "type"],
)
def test_a_file_that_cannot_be_read_is_noted_and_nothing_is_guessed(
    processes: Processes, tmp_path: Path, content: bytes | None, note: str
) -> None:
    """It may name another runtime than the default; the flags count all the same."""
    path = tmp_path / "kubelet.yaml"
    if content is not None:
        path.write_bytes(content)
    settings = settings_of(processes, "kubelet", f"--config={path}", "--root-dir=/data")
    (found,) = settings.notes
    assert found.startswith(f"{path} of the kubelet, process 17: ")
    assert note in found
    assert settings.endpoint is None
    assert settings.root_dir.value == "/data"


def test_a_pipe_in_place_of_a_file_makes_nobody_wait(processes: Processes, tmp_path: Path) -> None:
    """It has nothing in it."""
    os.mkfifo(tmp_path / "pipe")
    settings = settings_of(processes, "kubelet", f"--config={tmp_path / 'pipe'}")
    assert "expected a KubeletConfiguration" in settings.notes[0]


def test_what_is_in_a_file_is_in_no_note(processes: Processes, tmp_path: Path) -> None:
    """A kubelet's config may hold a password in staticPodURLHeader."""
    path = tmp_path / "kubelet.yaml"
    head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
    for number, body in enumerate(
        (
            "kf-word: [",
            "kf-word: 1\nkf-word: 2\n",
            "featureGates: kf-word\n",
            "\tkf-word",
            "&kf-word *kf-word",
        )
    ):
        path.write_text(head + body)
        processes.write(100 + number, "kubelet", f"--config={path}")
        node = Node(str(processes))
        settings = node.settings_of(node.kubelets.found[-1])
        assert settings.notes
        assert "kf-word" not in f"{settings.notes}{settings!r}"


def test_a_drop_in_folder_that_is_missing_is_noted(processes: Processes, tmp_path: Path) -> None:
    """The kubelet would not have started with it, so it is gone since."""
    settings = settings_of(processes, "kubelet", f"--config-dir={tmp_path / 'gone'}")
    (note,) = settings.notes
    assert "gone" in note


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        ("preloadedImagesVerificationAllowlist", [1], "a list of strings"),
        ("featureGates", {"A": "yes"}, "true or false by name"),
    ],
)
def test_a_field_of_another_type_is_noted(
    processes: Processes, tmp_path: Path, field: str, value: object, note: str
) -> None:
    """And left out."""
    path = write_config(tmp_path / "kubelet.yaml", **{field: value})
    settings = settings_of(processes, "kubelet", f"--config={path}")
    assert (settings.allowlist, settings.gates) == ((), {})
    assert note in settings.notes[0]


def test_relative_paths_are_the_kubelets_own(processes: Processes, tmp_path: Path) -> None:
    """They start where it was started; the test's process has another folder."""
    path = write_config(tmp_path / "kubelet.yaml", containerRuntimeEndpoint="unix:///run/x.sock")
    with processes.kubelet(f"--config={str(path).lstrip('/')}"):
        settings = Node(str(processes)).settings
    assert settings is not None
    assert settings.endpoint is not None
    assert settings.endpoint.value == "unix:///run/x.sock"
