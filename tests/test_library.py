"""The library as people type it: what is shown of its objects, and what a missing package asks for."""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

import keyferry
import keyferry_plugins
from support.commands import Node, run_in_process
from support.images import build, push
from support.pulling import pull_secret
from support.registry import Registry, basic, running

USER, PASSWORD = "alice", "kf-marked-word"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/app", "v1", build(b"hello"), basic(USER, PASSWORD))
        yield server


def test_a_config_that_is_not_found_names_the_arguments_and_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the flags of the command line, which a program does not have."""
    monkeypatch.setenv("KEYFERRY_HOST_ROOT", str(tmp_path))
    for name in ("KEYFERRY_CONFIG", "KEYFERRY_BIN_DIR"):
        monkeypatch.delenv(name, raising=False)
    call = r"or call load_providers\(config, bin_dir\)"
    with pytest.raises(keyferry.EnvironmentProblem) as no_config:
        keyferry.load_providers()
    assert no_config.match(f"no provider config found: set KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, {call}; ")
    with pytest.raises(keyferry.EnvironmentProblem) as no_bin_dir:
        keyferry.load_providers(__file__)
    assert no_bin_dir.match(f"no bin dir found for the config .*: set KEYFERRY_BIN_DIR, {call}")
    assert "--image-credential-provider" not in f"{no_config.value} {no_bin_dir.value}"


def test_providers_and_their_answers_say_what_they_are(tmp_path: Path) -> None:
    node = Node(tmp_path).add("one", ["reg.io"]).add("two", ["reg.io", "other.io"], before="exit 3")
    providers = keyferry.load_providers(node.config, node.bin_dir)
    assert repr(providers) == "<Providers: one, two>"
    assert repr(keyferry.Providers(())) == "<Providers: none>"
    pod = keyferry.Pod(namespace="team", name="web", uid="uid", service_account_name="default")
    answer = providers.lookup("reg.io/app", pod=pod)
    assert repr(answer) == "<Answer for 'reg.io/app': 'user' of provider one; two failed>"
    nothing = providers.lookup("elsewhere.io/app", pod=pod)
    assert repr(nothing) == "<Answer for 'elsewhere.io/app': anonymous>"
    assert "pass-word" not in repr((providers, answer, vars(answer)))


def test_an_answer_that_is_not_known_says_what_is_missing(tmp_path: Path) -> None:
    extra = (
        "  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n"
    )
    node = Node(tmp_path).add("sa", ["reg.io"], extra=extra)
    answer = keyferry.load_providers(node.config, node.bin_dir).lookup("reg.io/app")
    assert repr(answer).startswith("<Answer for 'reg.io/app': unknown; the pod was not given")


def test_pulls_and_their_outcomes_say_what_they_are(registry: Registry, tmp_path: Path) -> None:
    image, secret = f"{registry.host}/team/app:v1", pull_secret("regcred", registry.host, USER, PASSWORD)
    with keyferry.Puller(keyferry.open_target(to=tmp_path, platform="linux/amd64")) as puller:
        assert repr(puller) == f"<Puller into {tmp_path}: <Providers: none>>"
        pulled = puller.ensure(image, keyferry.PullOptions(pull_secrets=[secret]))
        present = puller.ensure(image)
        failed = puller.ensure(f"{registry.host}/team/none:v1", keyferry.PullOptions(pull_secrets=[secret]))
    size = f"in {tmp_path}, {pulled.size} bytes"
    who = "with 'alice' of pull secret team/regcred"
    assert repr(pulled) == f"<PullOutcome pulled: {image!r} {size}, {who}>"
    assert repr(present) == f"<PullOutcome present: {image!r} {size}>"
    assert repr(failed).startswith(f"<PullOutcome failed: '{registry.host}/team/none:v1': ")
    assert PASSWORD not in repr((pulled, present, failed))


def test_records_say_where_they_are(tmp_path: Path) -> None:
    policy = "VerificationPolicy('NeverVerifyPreloadedImages')"
    with closing(keyferry.load_records(str(tmp_path))) as records:
        assert repr(records) == f"<Records below {tmp_path}: {policy}>"
        records.record_intent("reg.io/app")
    with closing(keyferry.load_records(str(tmp_path), read_only=True)) as records:
        assert repr(records) == f"<Records below {tmp_path}: {policy}, read only>"


@pytest.mark.parametrize(
    ("user", "way"),
    [
        ({"token": "kf-marked-token"}, "token"),
        ({"username": "jo", "password": "kf-marked-word"}, "user name and password"),
        ({}, "no credential"),
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login",
                      "env": [{"name": "A", "value": "kf-marked-value"}], "interactiveMode": "Never"}},
            "exec plugin '{folder}/login'",
        ),
    ],
    ids=["token", "basic", "none", "exec"],
)  # fmt: skip
def test_a_session_says_where_and_as_whom(tmp_path: Path, user: dict[str, object], way: str) -> None:
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "prod",
                "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
                "contexts": [
                    {"name": "prod", "context": {"cluster": "c", "user": "jo", "namespace": "shop"}}
                ],
                "users": [{"name": "jo", "user": user}],
            }
        )
    )
    config.chmod(0o600)
    (tmp_path / "login").write_text("#!/bin/sh\n")
    (tmp_path / "login").chmod(0o755)
    session = keyferry.load_cluster(kubeconfig=config)
    by = way.format(folder=tmp_path)
    where = "https://api.example:6443, namespace 'shop'"
    assert repr(session) == f"<ClusterSession for {where}: user 'jo', by {by}>"
    assert "kf-marked" not in repr(session)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "library.md"
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def blocks() -> list[tuple[str, str]]:
    """Return the examples of the page, in its order, each after its language."""
    pattern = r"^```(python|pycon)\n(.*?)^```"
    return re.findall(pattern, PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_run_as_they_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, as at a prompt; only the two folders are other ones."""
    monkeypatch.setenv("KEYFERRY_AGENT", str(tmp_path / "none.sock"))
    auth = json.dumps({ECR: {"username": "AWS", "password": "pass-word"}})
    node = Node(tmp_path).add("ecr", ["*.dkr.ecr.*.amazonaws.com"], auth)
    folders = {
        "/etc/kubernetes/credential-providers": node.config,
        "/usr/libexec/kubernetes/plugins": node.bin_dir,
    }
    names: dict[str, object] = {"config": node.config, "bin_dir": node.bin_dir, "image": f"{ECR}/team/app:v1"}
    for language, block in blocks():
        for shown, real in folders.items():
            block = block.replace(shown, str(real))  # noqa: PLW2901 - the same block, on this machine
        if language == "pycon":
            check_prompt(block, names)
            continue
        exec(block, names)  # noqa: S102 - our own page
    printed = capsys.readouterr().out
    assert "the node agent was not used: there is no agent at" in printed
    assert "pass-word" not in printed


def check_prompt(session: str, names: dict[str, object]) -> None:
    """What the page shows at a prompt is what is shown."""
    test = doctest.DocTestParser().get_doctest(session, names, PAGE.name, str(PAGE), 0)
    test.globs = names  # the page is one session
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test, clear_globs=False).failed == 0


IMAGE = "reg.io/team/app:v1"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("KEYFERRY_AGENT", "off")
    return Node(tmp_path).add(
        "own", ["reg.io"], json.dumps({"reg.io": {"username": "u", "password": PASSWORD}})
    )


def write_pods(folder: Path, *names: str) -> str:
    """Write pods with two containers each, the second with an image that nothing is for."""
    containers = [{"name": "app", "image": IMAGE}, {"name": "side", "image": "else.io/side"}]
    items = [
        {"kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": containers}}
        for name in names
    ]
    (folder / "pods.json").write_text(json.dumps({"kind": "List", "items": items}))
    return str(folder / "pods.json")


def request_for(node: Node, filename: str, image: str = "") -> keyferry.Request:
    """A question about pods of a file, on this machine as their node."""
    files = str(node.config), str(node.bin_dir)
    return keyferry.Request(filename=filename, image=image, config=files[0], bin_dir=files[1], here=True)


def printed_explanation(*words: str) -> dict[str, object]:
    """What the command line prints of the same question."""
    found: dict[str, object] = json.loads(run_in_process("explain", *words, "-o", "json").stdout)
    return found


def test_an_image_is_explained_as_by_the_command_line(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed, and no secret is in what is returned."""
    request = keyferry.Request(image=IMAGE, config=str(node.config), bin_dir=str(node.bin_dir))
    explanation = keyferry.explain_image(request)
    assert capsys.readouterr() == ("", "")
    printed = printed_explanation(IMAGE, *node.options())
    assert printed["verdict"] == {
        "about": str(explanation.about),
        "outcome": str(explanation.verdict),
        "case": str(explanation.outcome),
        "text": explanation.text,
    }
    assert printed["cure"] == [{"text": cure.text, "lines": list(cure.lines)} for cure in explanation.cures]
    assert explanation.verdict is keyferry.PullVerdict.YES
    assert explanation.outcome is keyferry.Outcome.FOUND
    assert explanation.evidence.last_attempt.kind == "unseen"
    assert PASSWORD not in repr(explanation)


def test_every_image_of_every_pod_is_explained(node: Node, tmp_path: Path) -> None:
    request = request_for(node, write_pods(tmp_path, "web", "db"))
    pods = keyferry.explain_pods(request)
    assert [str(each.pod) for each in pods] == ["pod shop/web", "pod shop/db"]
    assert [str(image.verdict) for image in pods[0].images] == ["yes", "unknown"]
    with pytest.raises(keyferry.EnvironmentProblem, match="found pod shop/web, pod shop/db with "):
        keyferry.explain_image(request)
    (one,) = keyferry.explain_pods(request_for(node, write_pods(tmp_path, "web"), IMAGE))
    assert [image.image for image in one.images] == [IMAGE]
    with pytest.raises(keyferry.EnvironmentProblem, match=r"expected a pod: .* found none"):
        keyferry.explain_pods(keyferry.Request(image=IMAGE))


def test_inputs_are_resolved_without_an_explanation(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = keyferry.resolve_inputs(request_for(node, write_pods(tmp_path, "web"), IMAGE))
    assert (inputs.found.config, inputs.environment.owner) == (str(node.config), "this process")
    assert [each.username for each in inputs.lookup(IMAGE).credentials] == ["u"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (keyferry.Request(service_account="puller"), "expected NAMESPACE/NAME"),
        (
            keyferry.Request(target="pod/web", filename="pod.yaml"),
            "pod/web is an object of a cluster, and -f is for files",
        ),
        (keyferry.Request(target="web"), "'web' is not a pod or workload such as 'pod/web'"),
        (keyferry.Request(filename="/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
        (keyferry.Request(), "expected one image of one pod, found no pod with no image"),
    ],
    ids=["account", "both", "target", "file", "nothing"],
)
def test_a_request_that_cannot_be_resolved_is_an_environment_problem(
    request_: keyferry.Request, problem: str
) -> None:
    with pytest.raises(keyferry.EnvironmentProblem) as raised:
        keyferry.explain_image(request_)
    assert problem in str(raised.value)


SESSION = "keyferry.load_cluster(kubeconfig='kubeconfig')"
COMMAND = "from keyferry.cli.main import main; sys.exit(main({words!r}))"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of keyferry and PyYAML alone, with a kubeconfig for a server that is never asked."""
    folder = tmp_path_factory.mktemp("bare")
    for package in (keyferry, keyferry_plugins, yaml):
        place = Path(str(package.__file__)).parent
        (folder / place.name).symlink_to(place)
    (folder / "kubeconfig").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "users": [{"name": "c", "user": {"token": "t"}}],
            }
        )
    )
    (folder / "kubeconfig").chmod(0o600)
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(folder / "socket"))
    return folder


NEEDS_EXTRA = [
    ("httpx", f"{SESSION}.httpx_client()"),
    ("httpx", f"{SESSION}.httpx_async_client()"),
    ("httpx", f"{SESSION}.httpx_auth()"),
    ("httpx", "import keyferry.clusters.adapters.httpx"),
    ("httpx2", f"{SESSION}.httpx2_client()"),
    ("httpx2", f"{SESSION}.httpx2_async_client()"),
    ("httpx2", f"{SESSION}.httpx2_auth()"),
    ("httpx2", "import keyferry.clusters.adapters.httpx2"),
    ("requests", f"{SESSION}.mount_requests(None)"),
    ("requests", "import keyferry.clusters.adapters.requests"),
    ("aiohttp", f"{SESSION}.aiohttp_session()"),
    ("aiohttp", "import keyferry.clusters.adapters.aiohttp"),
    ("kubernetes", f"{SESSION}.kubernetes_api_client()"),
    ("kubernetes", f"{SESSION}.kubernetes_configuration()"),
    ("kubernetes", "import keyferry.clusters.adapters.kubernetes"),
    ("metrics", "keyferry.metrics_collector(keyferry.Providers(()))"),
    ("metrics", "keyferry.pull_metrics_collector(None)"),
    ("metrics", "keyferry.cluster_metrics_collector()"),
    ("cri", "keyferry.open_target(cri='unix://' + sys.argv[1] + '/socket')"),
    ("cri", COMMAND.format(words=["pull", "reg.io/app", "--cri", "socket"])),
    ("cri", COMMAND.format(words=["records", "recover", "--cri", "socket", "--root", "."])),
    ("crypto", "from keyferry.clusters.auth.pem import _load_certificate; _load_certificate(b'')"),
]  # fmt: skip
# Runs each work, and prints the last line that it says.
TRY_ALL = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import keyferry
said = []
for work in json.load(sys.stdin):
    shown = io.StringIO()
    try:
        with contextlib.redirect_stderr(shown):
            exec(work)
        said.append("")
    except SystemExit as left:
        said.append(shown.getvalue().rstrip().split(chr(10))[-1] if left.code else "")
    except Exception as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_a_missing_extra_is_named_with_what_to_type(bare: Path) -> None:
    """By every function that needs one, where it really is missing; nothing is fetched by keyferry's name."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", TRY_ALL, str(bare)],
        input=json.dumps([work for _, work in NEEDS_EXTRA]),
        cwd=bare,
        env={**os.environ, "KUBERC": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for (extra, work), words in zip(NEEDS_EXTRA, json.loads(done.stdout), strict=True):
        assert words.endswith(f": in a clone of keyferry, pip install '.[{extra}]'"), (work, words)
        assert extra in (metadata("keyferry").get_all("Provides-Extra") or ())


@pytest.mark.parametrize("package", ["keyferry", "keyferry.errors", "keyferry.sdk"])
def test_a_package_can_be_looked_at_without_any_extra(bare: Path, package: str) -> None:
    """An extra is asked for when a name that needs it is called, not when it is listed."""
    program = f"""
import sys; sys.path.insert(0, sys.argv[1])
import keyferry
assert keyferry.errors.KeyferryError and keyferry.sdk.serve and keyferry.api
import inspect, pydoc, {package}
assert pydoc.render_doc({package}, renderer=pydoc.plaintext).count(chr(10)) > 20
assert dict(inspect.getmembers({package})).keys() >= set({package}.__all__)
from {package} import *
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(bare)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_answer_and_its_parts_list_their_fields(tmp_path: Path) -> None:
    """At a prompt, by dir() and by the signature that help and editors show."""
    node = Node(tmp_path).add("one", ["reg.io"])
    answer = keyferry.load_providers(node.config, node.bin_dir).lookup("reg.io/app")
    assert {"image", "name", "credentials", "failures", "reasons", "outcome", "missing"} <= set(dir(answer))
    (credential,) = answer.credentials
    assert {"username", "password", "source", "key"} <= set(dir(credential))
    signature = inspect.signature(keyferry.Answer)
    assert signature.parameters["credentials"].annotation == "tuple[Credential, ...]"


def test_providers_have_the_few_methods_that_callers_need() -> None:
    """What only the agent needs is not offered to programs."""
    names = {name for name in dir(keyferry.Providers) if not name.startswith("_")}
    assert names == {"config_hash", "configs", "evict", "lookup", "lookup_async", "providers", "waiting"}


def test_the_errors_of_the_page_have_the_attributes_that_it_names() -> None:
    rows = re.findall(r"^\| (`\w+`.*?) \| .*? \| (.*?) \| .*? \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    told = [(re.findall(r"`(\w+)`", names), attributes) for names, attributes in rows]
    told = [(names, attributes) for names, attributes in told if hasattr(keyferry.errors, names[0])]
    assert len(told) > 10
    for names, attributes in told:
        sources = "".join(
            inspect.getsource(each) for name in names for each in getattr(keyferry.errors, name).__mro__[:-3]
        )
        own = attributes.replace("each with", "|").partition("|")[0]
        for attribute in re.findall(r"`(?:\w+\.)?([a-z_]+)`", own):
            assert re.search(rf"(self\.|^    ){attribute}\b", sources, re.MULTILINE), (names, attribute)
