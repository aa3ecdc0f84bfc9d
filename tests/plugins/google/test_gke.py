"""keyferry-gke run as kubectl runs it: gcloud's login, a program's, and what it keeps."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from keyferry_plugins.google.cache import current_context
from support.fake_cloud import Received, Reply
from support.google_gcloud import Gcloud, write_gcloud
from support.google_world import (
    ACCESS_TOKEN,
    ACCOUNT,
    CLOUD_PLATFORM,
    EMAIL_SCOPE,
    IAM,
    IMPERSONATED_TOKEN,
    NODE_TOKEN,
    OAUTH,
    World,
    api_error_reply,
    error_reply,
    impersonated_reply,
    token_reply,
    user,
)
from support.reference import Answer, ask_cluster

EXPIRY = "2035-01-02T03:04:05Z"
HELPER = ["config", "config-helper", "--format=json"]
ADC = "--use_application_default_credentials"


@dataclass
class Desk:
    """A user's machine: a home with a kubeconfig, and gcloud on PATH."""

    home: Path
    gcloud: Gcloud

    @property
    def cache(self) -> Path:
        """The cache file."""
        return self.home / ".kube" / "gke_gcloud_auth_plugin_cache"

    def env(self, **more: str) -> dict[str, str]:
        """The user's environment."""
        return {"HOME": str(self.home), "PATH": f"{self.gcloud.folder}:{os.environ['PATH']}", **more}

    def ask(self, *args: str, exec_info: str | None = "v1", **more: str) -> Answer:
        """Run the plugin."""
        return ask_cluster("gke", args=args, env=self.env(**more), exec_info=exec_info)

    def write_cache(self, **changes: object) -> None:
        """A cache file that is good unless a change says otherwise; ``...`` leaves a member out."""
        good: dict[str, object] = {
            "current_context": "demo",
            "access_token": "ya29.cached",
            "token_expiry": EXPIRY,
            "extra_args": "",
        }
        document = {name: value for name, value in (good | changes).items() if value is not ...}
        self.cache.write_text(json.dumps(document))
        self.cache.chmod(0o600)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A machine on which gcloud is logged in."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("apiVersion: v1\nkind: Config\ncurrent-context: demo\n")
    desk = Desk(tmp_path, write_gcloud(tmp_path / "bin"))
    desk.gcloud.prints_token(ACCESS_TOKEN, EXPIRY)
    return desk


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_gclouds_token_is_answered_in_the_version_asked_for(desk: Desk, version: str) -> None:
    """And kept in the file that gke-gcloud-auth-plugin keeps, for the user alone."""
    answer = desk.ask(exec_info=version)
    assert answer.document["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert answer.login_status == {"token": ACCESS_TOKEN, "expirationTimestamp": EXPIRY}
    assert desk.gcloud.runs == [HELPER]
    assert json.loads(desk.cache.read_text()) == {
        "current_context": "demo",
        "access_token": ACCESS_TOKEN,
        "token_expiry": EXPIRY,
        "extra_args": "",
    }
    assert stat.S_IMODE(desk.cache.stat().st_mode) == 0o600


def test_upstreams_answer_is_v1beta1_on_many_lines(desk: Desk) -> None:
    """With ``--compat``, whatever is asked, escaped as Go does it; even what cannot be read is not looked at."""
    desk.gcloud.prints_token("<ya29&>", EXPIRY)
    expected = (
        '{\n    "kind": "ExecCredential",\n    "apiVersion": "client.authentication.k8s.io/v1beta1",\n'
        '    "spec": {\n        "interactive": false\n    },\n    "status": {\n'
        f'        "expirationTimestamp": "{EXPIRY}",\n        "token": "\\u003cya29\\u0026\\u003e"\n    }}\n}}'
    )
    assert desk.ask("--compat").stdout == expected
    assert desk.ask("--compat", exec_info="garbage").stdout == expected
    assert desk.cache.read_text().startswith('{\n    "current_context": "demo",\n    "access_token"')


def test_the_words_for_gcloud_are_passed_on(desk: Desk) -> None:
    """In upstream's order, and each as one word, whatever is in it."""
    args = [
        "--impersonate_service_account",
        "sa@x",
        "--account=me;id",
        "--project=$(id)",
        "--configuration=work",
    ]
    assert desk.ask(*args, "--v=4").status == 0
    extra = [
        "--project=$(id)",
        "--account=me;id",
        "--impersonate-service-account=sa@x",
        "--configuration=work",
    ]
    assert desk.gcloud.runs == [HELPER + extra]
    assert json.loads(desk.cache.read_text())["extra_args"] == " ".join(extra)


def test_a_good_cache_saves_gcloud(desk: Desk) -> None:
    """Nothing is run."""
    desk.write_cache(token_expiry="2035-01-02T03:04:05.678Z")
    assert desk.ask().login_status == {"token": "ya29.cached", "expirationTimestamp": EXPIRY}
    assert desk.gcloud.runs == []


@pytest.mark.parametrize(
    "changes",
    [
        {"current_context": "other"},
        {"extra_args": "--project=x"},
        {"extra_args": ...},
        {"access_token": ""},
        {"access_token": 5},
        {"token_expiry": "2001-01-01T00:00:00Z"},
        {"token_expiry": "soon"},
        {"token_expiry": ...},
    ],
)
def test_any_other_cache_is_passed_over_and_rewritten(desk: Desk, changes: dict[str, object]) -> None:
    """Another context or other words, a token or time that is none, or a time that is past."""
    desk.write_cache(**changes)
    assert desk.ask().login_status["token"] == ACCESS_TOKEN
    assert json.loads(desk.cache.read_text())["access_token"] == ACCESS_TOKEN


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_malformed_cache_is_rewritten(desk: Desk, text: str) -> None:
    """It is only a cache."""
    desk.cache.write_text(text)
    desk.cache.chmod(0o600)
    assert desk.ask().login_status["token"] == ACCESS_TOKEN
    assert json.loads(desk.cache.read_text())["access_token"] == ACCESS_TOKEN


def test_a_cache_that_others_can_write_is_not_believed(desk: Desk) -> None:
    """Its token would be somebody else's choice; it is replaced by a private one."""
    desk.write_cache()
    desk.cache.chmod(0o666)
    assert desk.ask().login_status["token"] == ACCESS_TOKEN
    assert stat.S_IMODE(desk.cache.stat().st_mode) == 0o600


def test_an_unreadable_kubeconfig_means_no_cache(desk: Desk) -> None:
    """A new token each time, and nothing is written."""
    (desk.home / ".kube" / "config").write_bytes(b"current-context: \xff\xfe")
    desk.write_cache(current_context="")
    before = desk.cache.read_text()
    assert desk.ask().login_status["token"] == ACCESS_TOKEN
    assert desk.cache.read_text() == before


def test_the_cache_lies_beside_the_first_kubeconfig_there_is(desk: Desk, tmp_path: Path) -> None:
    """Of those in KUBECONFIG; the first current context counts. One that cannot be read means no cache."""
    for name, text in (
        ("b", "kind: Config\n"),
        ("c", '{"current-context": "third"}'),
        ("d", "current-context: x\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(text)
    paths = ":".join(["/none/1", "", *(str(tmp_path / name / "config") for name in "abcd")])
    assert desk.ask(KUBECONFIG=paths).status == 0
    cache = tmp_path / "b" / "gke_gcloud_auth_plugin_cache"
    assert json.loads(cache.read_text())["current_context"] == "third"
    cache.unlink()
    assert desk.ask(KUBECONFIG=f"{paths}:{tmp_path}").status == 0
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_costs_nothing_else(desk: Desk) -> None:
    """The folder is a file."""
    assert (
        desk.ask(KUBECONFIG=f"{desk.home}/.kube/config/no/such/folder").login_status["token"] == ACCESS_TOKEN
    )


def test_strict_invalidation_notices_another_gcloud_config(desk: Desk) -> None:
    """Same config, the token is kept; another active one, or another content, and it is not."""
    folder = desk.home / ".config" / "gcloud"
    (folder / "configurations").mkdir(parents=True)
    (folder / "active_config").write_text("work\n")
    for name in ("work", "home"):
        (folder / "configurations" / f"config_{name}").write_text(f"[core]\naccount = {name}\n")
    strict = {"GKE_AUTH_PLUGIN_STRICT_CACHE_INVALIDATION": "true"}
    for more, runs in (
        ({}, 1),
        ({}, 1),
        ({"CLOUDSDK_ACTIVE_CONFIG_NAME": "home"}, 2),
        ({"CLOUDSDK_ACTIVE_CONFIG_NAME": "home"}, 2),
        ({}, 3),
    ):
        assert desk.ask(**strict, **more).status == 0
        assert len(desk.gcloud.runs) == runs
    written = json.loads(desk.cache.read_text())["gcloud_config"]
    assert (written["config_dir"], written["active_config"]) == (str(folder), "work")
    (folder / "configurations" / "config_work").write_text("[core]\naccount = changed\n")
    assert desk.ask(**strict).status == 0
    assert len(desk.gcloud.runs) == 4


def test_strict_invalidation_without_gclouds_files_is_the_usual_rule(desk: Desk) -> None:
    """There is nothing to compare."""
    desk.write_cache()
    answer = desk.ask(GKE_AUTH_PLUGIN_STRICT_CACHE_INVALIDATION="true")
    assert answer.login_status["token"] == "ya29.cached"


def test_a_token_in_the_environment_is_answered_as_it_is(desk: Desk) -> None:
    """Without an end, from nothing else, and not kept."""
    answer = desk.ask(CLOUDSDK_AUTH_ACCESS_TOKEN="ya29.given")
    assert answer.login_status == {"token": "ya29.given"}
    assert desk.gcloud.runs == []
    assert not desk.cache.exists()


def test_edge_clusters_have_a_command_of_their_own(desk: Desk) -> None:
    """And its cache, under all of its words."""
    desk.gcloud.prints({"accessToken": "edge-token", "expireTime": EXPIRY})
    args = [
        "--use_edge_cloud",
        "--project=p",
        "--location=l",
        "--cluster=c",
        "--impersonate_service_account=sa@x",
    ]
    words = ["c", "--project=p", "--location=l", "--format=json", "--impersonate-service-account=sa@x"]
    for _ in range(2):
        assert desk.ask(*args).login_status == {"token": "edge-token", "expirationTimestamp": EXPIRY}
    assert desk.gcloud.runs == [["edge-cloud", "container", "clusters", "print-access-token", *words]]
    assert json.loads(desk.cache.read_text())["extra_args"] == " ".join(words)
    desk.write_cache(extra_args=" ".join(words), token_expiry="2001-01-01T00:00:00Z")
    assert desk.ask(*args).login_status["token"] == "edge-token"


@pytest.mark.parametrize("missing", ["project", "location", "cluster"])
def test_edge_needs_to_know_the_cluster(desk: Desk, missing: str) -> None:
    """All of project, location and name."""
    args = [f"--{name}=x" for name in ("project", "location", "cluster") if name != missing]
    answer = desk.ask("--use_edge_cloud", *args)
    assert answer.status == 1
    assert "--project, --location and --cluster" in answer.stderr


def test_a_cluster_name_cannot_become_a_flag_of_gclouds(desk: Desk) -> None:
    """It is the one word that has no flag before it."""
    answer = desk.ask("--use_edge_cloud", "--project=p", "--location=l", "--cluster=--flags-file=x")
    assert answer.status == 1
    assert desk.gcloud.runs == []


def test_an_authorization_token_of_gclouds_is_joined_to_the_token(desk: Desk, tmp_path: Path) -> None:
    """As the property auth/authorization_token_file asks for."""
    (tmp_path / "second").write_text("second-token\n")
    properties = {"properties": {"auth": {"authorization_token_file": str(tmp_path / "second")}}}
    desk.gcloud.prints_token(ACCESS_TOKEN, configuration=properties)
    assert desk.ask().login_status["token"] == f"iam-{ACCESS_TOKEN}^second-token"


@pytest.mark.parametrize(
    ("stdout", "status", "words"),
    [
        ("", 1, "gcloud auth login"),
        ("ya29.secret-mark", 0, "not a JSON object"),
        ({"credential": {"access_token": "", "token_expiry": EXPIRY}}, 0, "no access token"),
        ({"credential": {"access_token": "ya29.secret-mark"}}, 0, "no expiry of the token"),
        (
            {"credential": {"access_token": "ya29.secret-mark\n", "token_expiry": EXPIRY}},
            0,
            "not valid in an HTTP header",
        ),
        ({"credential": []}, 0, "no access token"),
    ],
)
def test_a_failing_gcloud_is_an_error_that_quotes_no_token(
    desk: Desk, stdout: object, status: int, words: str
) -> None:
    """Its own complaint is shown, with what looks like a secret masked."""
    desk.gcloud.prints(
        stdout, status=status, stderr="ERROR: reauth failed for ya29.secret-mark 1//secret-mark\n"
    )
    answer = desk.ask()
    assert (answer.status, answer.stdout) == (1, "")
    assert words in answer.stderr
    assert "secret-mark" not in answer.stderr
    assert ("reauth failed" in answer.stderr) == (status != 0)
    assert not desk.cache.exists()


def test_a_missing_gcloud_is_an_error_that_says_what_to_install(desk: Desk) -> None:
    """Or what to use in its place."""
    answer = desk.ask(PATH="/nonexistent")
    assert answer.status == 1
    assert "install the Google Cloud CLI" in answer.stderr
    assert ADC in answer.stderr


def test_a_version_nobody_knows_is_refused_before_anything_is_run(desk: Desk) -> None:
    """As kubectl would refuse the answer."""
    info = {"apiVersion": "client.authentication.k8s.io/v1alpha1", "kind": "ExecCredential"}
    assert desk.ask(exec_info=json.dumps(info)).status == 1
    assert desk.gcloud.runs == []


def test_a_machine_of_googles_asks_its_metadata_server_for_both_scopes(world: World) -> None:
    """Joined by a comma."""

    def check(received: Received) -> Reply:
        assert received.query == {"scopes": f"{CLOUD_PLATFORM},{EMAIL_SCOPE}"}
        return token_reply()

    world.on(f"GET {ACCOUNT}/token", check)
    answer = world.ask_gke(GCE_METADATA_HOST=f"127.0.0.1:{world.metadata.port}")
    assert answer.login_status["token"] == NODE_TOKEN


def test_impersonation_works_without_gcloud(world: World) -> None:
    """Upstream leaves the flag to gcloud; here the account's token is asked for with the default one."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
        assert received.json == {"lifetime": "3600s", "scope": [CLOUD_PLATFORM, EMAIL_SCOPE]}
        return impersonated_reply()

    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}/v1/projects/-/serviceAccounts/sa@demo.example.com:generateAccessToken", check)
    args = ("--impersonate_service_account=sa@demo.example.com",)
    assert world.ask_gke(None, *args).login_status == {
        "token": IMPERSONATED_TOKEN,
        "expirationTimestamp": EXPIRY,
    }
    assert world.ask_gke(None, *args, "--compat").login_status["token"] == ACCESS_TOKEN


def test_a_refused_impersonation_says_what_to_grant(world: World) -> None:
    """And to whom; the token it was asked with is masked."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    refused = api_error_reply(403, "PERMISSION_DENIED", f"denied {ACCESS_TOKEN}")
    world.on(f"POST {IAM}/v1/projects/-/serviceAccounts/sa@demo.example.com:generateAccessToken", refused)
    answer = world.ask_gke(None, "--impersonate_service_account=sa@demo.example.com")
    assert answer.status == 1
    assert "PERMISSION_DENIED" in answer.stderr
    assert "roles/iam.serviceAccountTokenCreator on sa@demo.example.com" in answer.stderr
    assert ACCESS_TOKEN not in answer.stderr


def test_upstream_tries_four_times_whatever_fails(world: World) -> None:
    """With ``--compat``; without it a refusal is final."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", "expired"))
    answer = world.ask_gke(None, "--compat")
    assert answer.status == 1
    assert "gcloud auth application-default login" in answer.stderr
    assert len(world.api.received) == 4
    assert world.ask_gke().status == 1
    assert len(world.api.received) == 5


def test_what_passes_is_tried_again(world: World) -> None:
    """Throttling and a server that is down for a moment."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", Reply(503), Reply(is_closed=True), token_reply(ACCESS_TOKEN))
    assert world.ask_gke().login_status["token"] == ACCESS_TOKEN


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("current-context: demo\n", "demo"),
        ("kind: Config\ncurrent-context:   gke_p_zone_c  # mine\nusers: []\n", "gke_p_zone_c"),
        ("current-context: 'it''s'\n", "it's"),
        ('"current-context": "demo" # x\n', "demo"),
        ("current-context: a:b/c#d\n", "a:b/c#d"),
        ("current-context: ''\n", ""),
        ('current-context: ""\n', ""),
        ("current-context:\n", ""),
        ("current-context: null\n", ""),
        ("current-context:\nkind: Config\n", ""),
        ("kind: Config\n", ""),
        ("", ""),
        ("users:\n- user:\n    current-context: no\n", ""),
        ("# current-context: no\n---\ncurrent-context: yes-this\n---\ncurrent-context: no\n", "yes-this"),
        ("kind: Config\n---\ncurrent-context: second\n", ""),
        ("\ufeffcurrent-context: demo\r\n", "demo"),
        ('{"current-context": "demo"}', "demo"),
        ('{"kind": "Config"}', ""),
        ('{"current-context": null}', ""),
    ],
)
def test_the_current_context_is_found(tmp_path: Path, text: str, context: str) -> None:
    """As it is commonly written, and where there is none."""
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    assert current_context({"KUBECONFIG": str(path)}) == context


@pytest.mark.parametrize(
    "text",
    [
        "current-context: &a demo\n",
        '{"current-context": false}',
        "current-context: *a\n",
        "current-context: !!str demo\n",
        "current-context: |\n  demo\n",
        "current-context:\n  demo\n",
        "current-context: demo\n  more\n",
        "current-context: a\ncurrent-context: b\n",
        'current-context: "a\\u0062"\n',
        "current-context: 'open\n",
        "current-context: 'a'b'\n",
        "{current-context: demo}\n",
        '{"current-context": 5}',
        "\tcurrent-context: demo\n",
        "current-context: a: b\n",
        "current-context: {a: b}\n",
    ],
)
def test_what_is_not_plain_counts_as_unreadable(tmp_path: Path, text: str) -> None:
    """That costs the cache, and no more."""
    path = tmp_path / "config"
    path.write_text(text)
    assert current_context({"KUBECONFIG": str(path)}) is None


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30))
def test_no_context_is_misread(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    """What a YAML writer writes is read as a YAML reader reads it, or not at all."""
    path = tmp_path_factory.getbasetemp() / "kubeconfig"
    text = yaml.safe_dump({"kind": "Config", "current-context": value}, allow_unicode=True, width=10_000)
    path.write_text(text, encoding="utf-8")
    assert current_context({"KUBECONFIG": str(path)}) in (None, value)


def test_without_a_variable_the_home_counts(tmp_path: Path) -> None:
    """Whether there is a file or not."""
    assert current_context({"HOME": str(tmp_path)}) == ""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("current-context: mine\n")
    assert current_context({"HOME": str(tmp_path)}) == "mine"
