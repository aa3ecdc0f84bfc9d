"""``keyferry plugin try`` with keyferry-federate, whose calls are links of the chain, and with plugins that pretend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.account_world import HOST, IMAGE, LOGIN, AccountWorld, account_world
from support.commands import run_keyferry
from support.fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from support.federation import issued, write_config
from support.kubernetes_api import ISSUER
from support.reference import write_launcher

AUDIENCE = "registry.audience.example"
EXCHANGE_HOST = "quay.example.com"
OWN = ["plugin/subject", "plugin/call-1", "plugin/login"]
PLUGIN = """\
#!/bin/sh
cat >"$0.request"
if [ "$KEYFERRY_LINKS" = 1 ]; then :
{lines}
fi
printf '%s' '{response}'
exit {status}
"""


def links_of(done: CompletedProcess[str]) -> dict[str, dict[str, object]]:
    """Return the links by name, in order."""
    assert done.stdout, done.stderr
    return {link["name"]: link for link in json.loads(done.stdout)["links"]}


@contextmanager
def federate_world(
    folder: Path, answer: Callable[[Received], Reply], **changes: object
) -> Iterator[AccountWorld]:
    """Yield a chain whose plugin is keyferry-federate, with one call to a server that answers with *answer*."""
    exchange = Authority(folder / "exchange")
    with (
        account_world(folder) as world,
        serving(answer, exchange.context(EXCHANGE_HOST)) as server,
        ConnectProxy({EXCHANGE_HOST: server.port}) as proxy,
    ):
        rule = {
            "registries": [HOST],
            "subject": {"audience": AUDIENCE, "issuer": ISSUER},
            "preset": "quay",
            "params": {"host": EXCHANGE_HOST, "robot": LOGIN[0]},
            "caFile": str(exchange.bundle),
            **changes,
        }
        config = write_config(folder / "federation.json", rule)
        write_launcher(world.bin_dir, "federate", file_name="provider")
        world.fields["args"] = [f"--config={config}"]
        world.fields["env"] = [{"name": "HTTPS_PROXY", "value": proxy.url}]
        yield world


@pytest.fixture(autouse=True)
def exchange_folder(tmp_path: Path) -> None:
    """A folder for the certificates of the exchange."""
    (tmp_path / "exchange").mkdir()


def test_each_call_is_a_link(tmp_path: Path) -> None:
    """With the claims that were sent, what the server answered and what was taken; no value of it."""
    login = issued()
    with federate_world(tmp_path, lambda _: Reply(document={"token": login})) as world:
        world.accepts[:] = [(LOGIN[0], login)]
        done = world.run(IMAGE, "-o", "json")
        text = world.run(IMAGE)
    assert done.returncode == 0, done.stdout
    links = links_of(done)
    assert [name for name in links if "/" in name] == OWN
    assert list(links).index("plugin/login") + 1 == list(links).index("plugin")
    claims = links["plugin/subject"]["facts"]
    assert isinstance(claims, dict)
    assert (claims["iss"], claims["aud"]) == (ISSUER, AUDIENCE)
    assert claims["sub"] == "system:serviceaccount:shop:puller"
    call = links["plugin/call-1"]["facts"]
    assert isinstance(call, dict)
    assert call.pop("seconds") >= 0
    assert call == {
        "method": "GET", "host": EXCHANGE_HOST, "path": "/oauth2/federation/robot/token", "status": 200,
        "taken": ["token"],
    }  # fmt: skip
    assert (
        "\n✓   > call-1  GET https://quay.example.com/oauth2/federation/robot/token: status 200\n"
        in text.stdout
    )
    for secret in (*world.api.issued, login):
        assert secret not in done.stdout + done.stderr + text.stdout + text.stderr


BROKEN: dict[str, tuple[Reply, Mapping[str, object], str, str, str]] = {
    "the exchange refuses": (
        Reply(401, document={"error": "invalid_grant"}), {}, "plugin/call-1",
        "refused with status 401 and the error 'invalid_grant'", "check what the server expects",
    ),
    "the exchange redirects": (
        Reply(302, headers={"Location": "https://evil.example/"}), {}, "plugin/call-1",
        "answered with a redirect", "set the host and path that it leads to",
    ),
    "no token": (Reply(document={"other": 1}), {}, "plugin/call-1", "without a text at /token", ""),
    "another audience": (
        Reply(), {"subject": {"audience": "other", "issuer": ISSUER}}, "plugin/subject",
        "the subject token's aud is 'registry.audience.example', expected 'other'",
        "make the rule's audience and serviceAccountTokenAudience equal",
    ),
    "another issuer": (
        Reply(), {"subject": {"audience": AUDIENCE, "issuer": "https://other.example"}}, "plugin/subject",
        "the subject token's iss is", "set the rule's issuer",
    ),
    "no rule": (
        Reply(), {"registries": ["other.example.com"]}, "plugin/rule", "no rule is for the registry",
        "add the registry to a rule",
    ),
    "no annotation": (
        Reply(), {"params": {"host": EXCHANGE_HOST, "robot": {"annotation": "x/robot", "pattern": "a"}}},
        "plugin/parameters", "has no annotation 'x/robot'", "requiredServiceAccountAnnotationKeys",
    ),
    "expired": (
        Reply(document={"token": issued(-10)}), {}, "plugin/login", "has expired already", "clock",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "changes", "name", "text", "cure"), BROKEN.values(), ids=BROKEN)
def test_the_broken_step_is_the_first_problem(
    tmp_path: Path, reply: Reply, changes: Mapping[str, object], name: str, text: str, cure: str
) -> None:
    """With its cure; the plugin's link after it is broken too, and the exit code is the plugin's."""
    with federate_world(tmp_path, lambda _: reply, **changes) as world:
        done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 4, done.stdout
    links = links_of(done)
    assert json.loads(done.stdout)["firstProblem"] == name
    assert links[name]["state"] == links["plugin"]["state"] == "broken"
    assert text in str(links[name]["text"])
    assert cure in str(links[name]["cure"])
    assert "keyferry-link" not in done.stdout + done.stderr
    assert world.api.issued[-1] not in done.stdout + done.stderr


def test_the_second_call_may_be_the_broken_link(tmp_path: Path) -> None:
    """The first is told as it went, and the second has the cause; there is no login after it."""

    def answer(received: Received) -> Reply:
        if received.method == "POST":
            return Reply(document={"auth": {"client_token": "hvs.vault-token"}})
        return Reply(403, document={"errors": ["permission denied"]})

    params = {"host": EXCHANGE_HOST, "role": "puller", "secret": "secret/data/registry"}
    with federate_world(tmp_path, answer, preset="vault", params=params) as world:
        done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 4, done.stdout
    links = links_of(done)
    assert [name for name in links if "/" in name] == ["plugin/subject", "plugin/call-1", "plugin/call-2"]
    assert json.loads(done.stdout)["firstProblem"] == "plugin/call-2"
    assert [links[f"plugin/call-{number}"]["state"] for number in (1, 2)] == ["ok", "broken"]
    url = f"https://{EXCHANGE_HOST}/v1/secret/data/registry"
    assert (
        links["plugin/call-2"]["text"] == f"{url}: refused with status 403 and the error 'permission denied'"
    )
    assert "hvs.vault-token" not in done.stdout + done.stderr


def respond(world: AccountWorld, lines: list[str], status: int = 0) -> None:
    """Let a plugin in shell write lines on standard error, and then answer."""
    response = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "1m",
        "auth": {HOST: {"username": LOGIN[0], "password": LOGIN[1]}},
    }
    echoes = "\n".join(f"printf '%s\\n' '{line}' >&2" for line in lines)
    world.plugin(
        PLUGIN.format(lines=echoes, response=json.dumps(response) if not status else "", status=status)
    )


def line(**fields: object) -> str:
    """Return a line of the protocol."""
    return "keyferry-link: " + json.dumps({"name": "step", "state": "ok", "text": "done", **fields})


def test_a_plugin_in_any_language_can_report(tmp_path: Path) -> None:
    """Only if it is asked to; what it writes is masked, and cannot be taken for another link."""
    with account_world(tmp_path) as world:
        said = f"the password is {LOGIN[1]}"
        respond(world, [line(name="registry", text=said, facts={"n": 1, "list": ["a"]})])
        done = world.run(IMAGE, "-o", "json")
        text = world.run(IMAGE).stdout
    links = links_of(done)
    assert done.returncode == 0
    assert links["plugin/registry"]["text"] == "the password is ********"
    assert links["plugin/registry"]["facts"] == {"n": 1, "list": ["a"]}
    assert "\n✓   > registry the password is ********\n" in text
    assert LOGIN[1] not in done.stdout + text


def test_a_step_that_failed_does_not_count_if_the_plugin_succeeds(tmp_path: Path) -> None:
    """It is shown; the response is what counts."""
    with account_world(tmp_path) as world:
        respond(world, [line(state="broken", text="no luck"), line(name="second")])
        done = world.run(IMAGE, "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "ok")
    assert links_of(done)["plugin/step"]["state"] == "broken"


MALFORMED = [
    "keyferry-link: ", "keyferry-link: []", "keyferry-link: {", line(name="UPPER"), line(name=""),
    line(state="notReached"), line(text=""), line(text=1), line(text="x" * 501), line(facts=[]),
    line(facts={"a": {}}), line(facts={"a\u001b": "b"}), line(facts={"a": "x" * 301}), line(cure=[]),
    line(facts={str(number): 1 for number in range(21)}), line(more="x" * 9000),
]  # fmt: skip


def test_malformed_lines_are_ordinary_messages(tmp_path: Path) -> None:
    """They are no links, and a failure quotes them like any other line."""
    with account_world(tmp_path) as world:
        respond(world, MALFORMED)
        done = world.run(IMAGE, "-o", "json")
        assert not [name for name in links_of(done) if "/" in name]
        respond(world, [line(text="fine"), "keyferry-link: []", "out of luck"], status=3)
        failed = world.run(IMAGE, "-o", "json")
    links = links_of(failed)
    assert links["plugin/step"]["text"] == "fine"
    assert "keyferry-link: [] | out of luck" in str(links["plugin"]["text"])
    assert "fine" not in str(links["plugin"]["text"])


def test_there_is_a_limit(tmp_path: Path) -> None:
    """Sixteen are shown, and a flood is cut."""
    with account_world(tmp_path) as world:
        respond(world, [line(name=f"step-{number}") for number in range(40)])
        done = world.run(IMAGE, "-o", "json")
    assert len([name for name in links_of(done) if "/" in name]) == 16


def test_nothing_is_reported_to_a_kubelet(tmp_path: Path) -> None:
    """Without the variable, keyferry-federate writes nothing but the error of a failure."""
    with federate_world(tmp_path, lambda _: Reply(401)) as world:
        world.run(IMAGE)
        token = tmp_path / "token"
        token.write_text(world.api.issued[-1])
        done = run_keyferry(
            "explain", IMAGE, "--config", str(tmp_path / "providers.json"), "--bin-dir", str(world.bin_dir),
            "--service-account", "shop/puller", "--service-account-token", str(token), HTTPS_PROXY=world.proxy.url,
        )  # fmt: skip
    assert "refused with status 401" in done.stdout + done.stderr
    assert "keyferry-link" not in done.stdout + done.stderr
