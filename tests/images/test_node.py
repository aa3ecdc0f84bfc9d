"""A kubelet is found by its process; what it is set to is read as it reads it itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from keyferry import Node
from keyferry.images.config.contents import hash_of_files
from keyferry.images.node.changes import ChangedFile, changed_at, newer_than_kubelet, read_config_hash
from keyferry.images.node.kubelet import CONFIG_FLAG
from keyferry.images.node.settings import KubeletSettings, node_config_candidates
from support.kubelets import Processes, write_config
from support.parts import root as as_root

NOBODY = 65534


@pytest.mark.parametrize(
    ("argv", "is_kubelet"),
    [
        (("kubelet",), True),
        (("/usr/bin/kubelet", "--v=2"), True),
        (("hyperkube", "kubelet"), True),
        (("hyperkube", "apiserver"), False),
        (("/usr/local/bin/k3s server",), True),
        (("/usr/local/bin/k3s", "agent", "--token=x"), True),
        (("k3s", "kubectl", "logs", "-f", "server"), False),
        (("k3s", "ctr", "images", "pull"), False),
        (("k3s-server",), True),
        (("/usr/local/bin/rke2", "server"), True),
        (("kubelite", "--start-kubelet=true"), True),
        (("grep", "kubelet"), False),
        (("not-kubelet",), False),
        (("kubelet-exporter",), False),
        ((), False),
    ],
)
def test_which_programs_run_a_kubelet(
    processes: Processes, argv: tuple[str, ...], *, is_kubelet: bool
) -> None:
    """The name and the subcommand tell; a client that comes with one does not count."""
    processes.write(17, *argv)
    assert [each.pid for each in Node().kubelets.found] == [17] * is_kubelet


def test_a_process_that_runs_is_found_with_its_flags_and_environment(processes: Processes) -> None:
    """A real process, as the system shows it."""
    with processes.kubelet("--root-dir=/data", "--kubeconfig", "/k", env={"A": "1=2", "EMPTY": ""}) as pid:
        (kubelet,) = Node().kubelets.found
        assert (kubelet.pid, kubelet.program) == (pid, "kubelet")
        assert kubelet.flags == {"--root-dir": "/data", "--kubeconfig": "/k"}
        assert kubelet.is_trusted
        environment = kubelet.read_environment()
        assert environment is not None
        assert environment.items() >= {"A": "1=2", "EMPTY": ""}.items()
        assert "1=2" not in repr(kubelet)
    assert Node().kubelets.found == ()


def test_an_environment_that_cannot_be_read_is_none(processes: Processes) -> None:
    """Which is not the same as an empty one."""
    processes.write(17, "kubelet")
    processes.write(18, "kubelet", environ=b"")
    kubelets = Node().kubelets.found
    assert [each.read_environment() for each in kubelets] == [None, {}]


def test_kubelets_proper_come_first(processes: Processes) -> None:
    """RKE2 runs a kubelet as a process of its own, which has all the flags."""
    processes.write(5, "rke2", "server", "--kubelet-arg=root-dir=/half")
    processes.write(17, "kubelet", "--root-dir=/whole")
    assert [each.pid for each in Node().kubelets.found] == [17, 5]


@as_root
@pytest.mark.parametrize("where", ["owner", "real", "saved"])
def test_a_process_that_was_ever_another_users_is_not_believed(processes: Processes, where: str) -> None:
    """Whoever starts a set-uid program chooses its name and its flags."""
    users = {"owner": "0 0 0", "real": f"{NOBODY} 0 0", "saved": f"0 0 {NOBODY}"}[where]
    home = processes.write(17, "kubelet", status=f"Name:\tsu\nUid:\t{users} 0\n".encode())
    if where == "owner":
        os.chown(home, NOBODY, NOBODY)
    kubelets = Node().kubelets
    assert [each.pid for each in kubelets.found] == [17]
    assert kubelets.trusted == ()
    assert Node().settings is None


def test_a_set_uid_program_is_no_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Also if it has become root altogether, as sudo does while it asks for a password."""
    program = tmp_path / "sudo"
    program.touch()
    program.chmod(0o4755)
    home = processes.write(17, "kubelet", f"{CONFIG_FLAG}=/evil")
    (home / "exe").symlink_to(program)
    assert Node().kubelets.found == ()
    program.chmod(0o755)
    assert len(Node().kubelets.found) == 1


def test_what_hides_processes_is_said(processes: Processes, tmp_path: Path) -> None:
    """A machine whose processes are all seen is told from one where some may be hidden."""
    assert Node().kubelets.hidden == ""
    (processes.folder / "1" / "ns" / "pid").unlink()
    assert Node().kubelets.hidden == "", "what cannot be read says nothing"
    processes.set_namespace("pid:[4026532198]")
    contained = Node().kubelets
    assert contained.is_contained
    assert "container" in contained.hidden
    processes.hide()
    hidden = Node().kubelets
    assert not hidden.is_contained
    assert "cannot be seen" in hidden.hidden
    assert "cannot be seen" in Node(str(tmp_path / "missing")).kubelets.hidden


def test_this_machine_is_looked_at_unless_a_variable_names_another(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have the processes of its host in another folder than /proc."""
    processes.write(17, "kubelet")
    assert [each.pid for each in Node().kubelets.found] == [17]
    monkeypatch.delenv("KEYFERRY_PROC")
    assert all(each.process.startswith("/proc/") for each in Node().kubelets.found)


def test_the_flags_of_k3s_are_its_own(processes: Processes) -> None:
    """Its --config is no kubelet's, which comes as --kubelet-arg; some flags they have in common."""
    words = [f"{CONFIG_FLAG}=/p", "--container-runtime-endpoint", "unix:///x"]
    words += ["--kubelet-arg=config=/kubelet.yaml", "--kubelet-arg", "root-dir=/data"]
    words += ["--kubelet-arg=--kubeconfig=/k", "--kubelet-arg", "v"]
    words += ["--config=/etc/rancher/k3s/config.yaml", "--root-dir=/no"]
    processes.write(17, "k3s", "server", *words)
    (kubelet,) = Node().kubelets.found
    assert kubelet.flags == {
        CONFIG_FLAG: "/p",
        "--container-runtime-endpoint": "unix:///x",
        "--config": "/kubelet.yaml",
        "--root-dir": "/data",
        "--kubeconfig": "/k",
    }


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["kubelet", "--hostname-override= Node1 "], "node1"),
        (["kubelet", "--hostname-override", "a", "--hostname-override=b"], "b"),
        (["kubelet", "--node-name=x"], os.uname().nodename.lower()),
        (["k3s", "server", "--node-name", "Edge"], "edge"),
        (["k3s", "agent", "--kubelet-arg=hostname-override=edge2"], "edge2"),
        (["kubelet"], os.uname().nodename.lower()),
    ],
)
def test_the_name_of_the_node_is_the_kubelets_own(processes: Processes, argv: list[str], name: str) -> None:
    """The flag without white space and in lower case, else the host name."""
    processes.write(17, *argv)
    (found,) = Node().kubelets.found
    assert found.node_name == name


def test_a_kubelet_with_another_host_name_is_on_no_known_node(processes: Processes) -> None:
    """In another UTS namespace the host name of this process says nothing; the flag still does."""
    for pid, flags in ((17, []), (18, ["--hostname-override=n"])):
        home = processes.write(pid, "kubelet", *flags)
        (home / "ns").mkdir()
        (home / "ns" / "uts").symlink_to("uts:[1]")
    assert [each.node_name for each in Node().kubelets.found] == ["", "n"]


DEFAULT = "the kubelet's default"
ENDPOINT = "containerRuntimeEndpoint"


def settings_of_running() -> KubeletSettings:
    """The settings of the only kubelet."""
    settings = Node().settings
    assert settings is not None
    return settings


def settings_of(processes: Processes, *argv: str) -> KubeletSettings:
    """What a kubelet with this command line is set to."""
    processes.write(17, *argv)
    return settings_of_running()


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
        processes,
        *("kubelet", f"--config={path}", "--kubeconfig=/k"),
        *("--feature-gates=One=false,Two=true", "--feature-gates", "One=true"),
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
        node = Node()
        settings = node.settings_of(node.kubelets.found[-1])
        assert settings.notes
        assert "kf-word" not in f"{settings.notes}{settings!r}"


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


def test_a_drop_in_folder_that_is_missing_is_noted(processes: Processes, tmp_path: Path) -> None:
    """The kubelet would not have started with it, so it is gone since."""
    (note,) = settings_of(processes, "kubelet", f"--config-dir={tmp_path / 'gone'}").notes
    assert "gone" in note


def test_relative_paths_are_the_kubelets_own(processes: Processes, tmp_path: Path) -> None:
    """They start where it was started; the test's process has another folder."""
    path = write_config(tmp_path / "kubelet.yaml", containerRuntimeEndpoint="unix:///run/x.sock")
    with processes.kubelet(f"--config={str(path).lstrip('/')}"):
        assert shown(settings_of_running())["endpoint"].startswith("unix:///run/x.sock (")


def test_the_node_is_searched_in_the_kubelets_order() -> None:
    """New files everywhere before old ones; without a home its places are left out."""
    assert node_config_candidates("/r", "/w", "/h") == (
        ("/r/config.json", True),
        ("/w/config.json", True),
        ("/h/.docker/config.json", True),
        ("/.docker/config.json", True),
        ("/r/.dockercfg", False),
        ("/w/.dockercfg", False),
        ("/h/.dockercfg", False),
        ("/.dockercfg", False),
    )
    assert len(node_config_candidates("/r", "/w", "")) == 6


def touch(path: Path, seconds: float = 60) -> float:
    """Change a file in the future, which no test waits for; return the time."""
    then = float(int(time.time() + seconds))
    os.utime(path, (then, then))
    return then


def test_the_start_of_a_running_kubelet_is_known(processes: Processes) -> None:
    before = time.time()
    with processes.kubelet():
        started = settings_of_running().kubelet.started
    assert started is not None
    assert before - 1.1 <= started <= time.time()


@pytest.mark.parametrize(
    ("stat", "system", "expected"),
    [
        (b"17 (a) b (c)) S" + b" 1" * 18 + b" 200 7", b"cpu 1\nbtime 1700000000\n", True),
        (b"17 (kubelet) S 1", b"btime 1700000000\n", False),
        (b"17 (kubelet) S" + b" 1" * 18 + b" 200 7", b"cpu 1\n", False),
        (b"17 (kubelet) S" + b" 1" * 18 + b" 200 7", None, False),
    ],
    ids=["name-with-brackets", "short", "no-boot-time", "no-system"],
)
def test_a_folder_of_processes_has_its_own_times(
    processes: Processes, stat: bytes, system: bytes | None, expected: bool
) -> None:
    """As the host's, in a container; what is not there is not guessed."""
    processes.write(17, "kubelet", stat=stat)
    if system is not None:
        (processes.folder / "stat").write_bytes(system)
    started = settings_of_running().kubelet.started
    assert started == (1_700_000_000 + 200 / os.sysconf("SC_CLK_TCK") if expected else None)


def test_a_file_changes_when_it_or_a_file_in_it_or_a_link_to_it_is_set(tmp_path: Path) -> None:
    """A folder is as new as its newest file, and a link that is set to an old file is a change."""
    (tmp_path / "d").mkdir()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / "d" / name).touch()
    for path, seconds in ((tmp_path / "d" / "b.yaml", 60), (tmp_path / "d", 120)):
        then = touch(path, seconds)
        assert changed_at(str(tmp_path / "d")) == then
    (tmp_path / "link").symlink_to("d/a.yaml")
    os.utime(tmp_path / "link", (2_000_000_000, 2_000_000_000), follow_symlinks=False)
    assert changed_at(str(tmp_path / "link")) == 2_000_000_000
    assert changed_at(str(tmp_path / "gone")) is None


def test_every_file_that_changed_after_the_start_is_named(processes: Processes, tmp_path: Path) -> None:
    """The files were written before the kubelet started, then some of them change."""
    config = write_config(tmp_path / "kubelet.yaml")
    first = write_config(tmp_path / "conf.d" / "1.conf")
    second = write_config(tmp_path / "conf.d" / "2.conf")
    providers = tmp_path / "providers.yaml"
    providers.write_text("a")
    with processes.kubelet(f"--config={config}", f"--config-dir={tmp_path}/conf.d"):
        settings = settings_of_running()
        assert settings.files == (str(config), str(first), str(second))
        assert newer_than_kubelet(settings, str(providers)) == ()
        times = [touch(path) for path in (config, second, providers)]
        newer = newer_than_kubelet(settings, str(providers))
        assert [(each.path, each.changed, each.kind) for each in newer] == [
            (str(config), times[0], ChangedFile.KUBELET_CONFIG),
            (str(second), times[1], ChangedFile.KUBELET_CONFIG),
            (str(providers), times[2], ChangedFile.PROVIDER_CONFIG),
        ]
        assert {each.started for each in newer} == {settings.kubelet.started}
        assert not any(each.is_certain for each in newer)


def test_the_hash_that_the_kubelet_tells_decides(processes: Processes, tmp_path: Path) -> None:
    """Whatever the times are: a file may be written again without a change, or with an old time."""
    providers = tmp_path / "providers.yaml"
    providers.write_text("a")
    read = hash_of_files(str(providers))
    with processes.kubelet():
        settings = settings_of_running()
        assert newer_than_kubelet(settings, str(providers), "sha256:" + "0" * 64)[0].is_certain
        touch(providers)
        assert newer_than_kubelet(settings, str(providers), read) == ()


def test_the_hash_is_read_from_metrics() -> None:
    name, digest = "kubelet_credential_provider_config_info", "sha256:" + "0a" * 32
    text = f'# HELP {name} x\n# TYPE {name} gauge\n{name}{{hash="{digest}"}} 1\nother 2\n'
    assert read_config_hash(text) == digest
    assert read_config_hash("other 2\n") == ""
