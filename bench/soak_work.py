"""What goes on during the soak: each kind of work repeats one step, whose outcome is known in advance.

A step returns what it did; whatever it raises is an unexpected error. An error that a step provokes, such as that of a
plugin that fails, is expected and counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bench.agent_place import AgentPlace, image_of, write_plugin
from bench.clusters import TOKEN, exec_user, make_kubeconfig, serve_api
from bench.plugins import REGISTRY, write_config
from bench.pulls import Server, serve_registry, skopeo_copy, trust_options, write_image

from keyferry import Providers, load_cluster, load_providers, pull
from keyferry.agent.log import AgentLog
from keyferry.agent.providers import AgentProviders
from keyferry.agent.refresh import Refresher
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.clusters.request import request
from keyferry.errors import KeyferryError, PluginExitError, PluginOutputError, PluginTimeoutError
from keyferry.images.provider.provider import Provider
from keyferry.pulls.request import PullOptions

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND = 1_000_000_000
_IMAGES = 200
_NEW_IMAGES = 20
# Enough to fill every bounded memo of lookups, so that what comes after them is growth.
_FILLING = 4_200
_HANG_SECONDS = 0.4
# Short, so that answers expire during the soak; long enough for the agent to renew them.
_LIFE = "70s"
_LAYERS = (200_000, 100_000, 1_000)
_BAD = {
    "fails": ("#!/bin/sh\necho no >&2\nexit 3\n", PluginExitError),
    "hangs": ("#!/bin/sh\nexec sleep 60\n", PluginTimeoutError),
    "floods": ("#!/bin/sh\nexec yes flood\n", PluginOutputError),
}
# The credential of a cluster lives for a second or two: the instant has no fractions.
_EXEC_SCRIPT = """\
#!/bin/sh
expires=$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)
cat << END
{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",\
"status":{"token":"TOKEN","expirationTimestamp":"$expires"}}
END
"""


class Done(NamedTuple):
    """What one step did: operations, and the errors among them that were expected."""

    operations: int
    expected_errors: int = 0


class Work(Protocol):
    """One kind of work."""

    def step(self) -> Done:
        """Do it once; raise an exception for what should not happen."""


class Clock:
    """A clock that is stepped."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * _SECOND

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns

    def step(self, seconds: float) -> None:
        """Advance it."""
        self.now_ns += int(seconds * _SECOND)


def check_answer(providers: Providers, image: str) -> None:
    """Look up an image, and compare its password."""
    _check_password(providers.lookup(image).credentials[0].password, image)


def _check_password(password: str, image: str) -> None:
    if password != f"for {image}":
        raise AssertionError(f"the answer for {image} is for another image")


class Lookups:
    """Lookups in this process: from the cache, and of images that are new each time."""

    def __init__(self, folder: str) -> None:
        write_plugin(os.path.join(folder, "plugin"), cache_duration=_LIFE)
        config = write_config(os.path.join(folder, "config.json"), "plugin", [REGISTRY])
        self.providers = load_providers(config, folder)
        self._steps = 0
        for number in range(_FILLING):
            self.providers.lookup(f"elsewhere.example/app-{number}")

    def new_image(self) -> str:
        """Return an image that was not asked for before."""
        self._steps += 1
        return f"{REGISTRY}/new/app-{self._steps}"

    def step(self) -> Done:
        """Look up all images of the set, and one that is new."""
        for number in range(_IMAGES):
            check_answer(self.providers, image_of(number))
        check_answer(self.providers, self.new_image())
        return Done(_IMAGES + 1)


class AsyncLookups(Lookups):
    """The same in one event loop that goes on."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        super().__init__(folder)
        self._runner = stack.enter_context(asyncio.Runner())

    def step(self) -> Done:
        """Look up images at once."""
        images = [image_of(number) for number in range(_IMAGES)] + [self.new_image() for _ in range(4)]
        self._runner.run(self._look_up(images))
        return Done(len(images))

    async def _look_up(self, images: list[str]) -> None:
        answers = await asyncio.gather(*map(self.providers.lookup_async, images))
        for image, answer in zip(images, answers, strict=True):
            _check_password(answer.credentials[0].password, image)


class ThreadedLookups(Lookups):
    """The same in threads, which ask for the same new images at once."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        super().__init__(folder)
        self._pool = stack.enter_context(ThreadPoolExecutor(8))

    def step(self) -> Done:
        """Ask for each image in several threads."""
        new = self.new_image()
        images = [image_of(number) for number in range(_IMAGES)] + 8 * [new]
        list(self._pool.map(lambda image: check_answer(self.providers, image), images))
        return Done(len(images))


class BadPlugins:
    """Plugins that fail, hang and flood: each lookup tells which."""

    def __init__(self, folder: str) -> None:
        self._bad: list[tuple[Providers, type[KeyferryError]]] = []
        for name, (script, error) in _BAD.items():
            path = Path(folder) / name
            path.write_text(script, encoding="utf-8")
            path.chmod(0o755)
            config = write_config(os.path.join(folder, f"{name}.json"), name, [REGISTRY])
            self._bad.append((load_providers(config, folder, timeout_seconds=_HANG_SECONDS), error))

    def step(self) -> Done:
        """Ask each of them once."""
        for providers, expected in self._bad:
            found = [type(each.error) for each in providers.lookup(image_of(0)).failures]
            # One that floods may be ended by the clock on a busy machine.
            if found not in ([expected], [PluginTimeoutError]):
                raise AssertionError(f"expected {expected.__name__}, found {found}")
        return Done(len(self._bad), len(self._bad))


class Rotations:
    """A password that changes at its owner's: the old one is evicted, and the next lookup has the new one."""

    def __init__(self, folder: str) -> None:
        self._clock, self._number = Clock(), 0
        script = (
            '#!/bin/sh\nread -r request\nread -r password < "$0.password"\ncat << END\n'
            '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
            f'"cacheKeyType":"Registry","cacheDuration":"1h","auth":{{"{REGISTRY}":'
            '{"username":"bench","password":"$password"}}}\nEND\n'
        )
        path = Path(folder) / "rotating"
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
        self._secret = Path(f"{path}.password")
        config = write_config(os.path.join(folder, "rotating.json"), "rotating", [REGISTRY])
        self._providers = load_providers(config, folder, clock=self._clock)
        self._rotate()

    def _rotate(self) -> None:
        self._number += 1
        self._secret.write_text(f"made-up-{self._number}\n", encoding="ascii")

    def step(self) -> Done:
        """Rotate, evict, ask again."""
        before = self._providers.lookup(image_of(0)).credentials[0]
        self._rotate()
        if self._providers.lookup(image_of(0)).credentials[0].password != before.password:
            raise AssertionError("a cached answer changed by itself")
        self._clock.step(31)  # an entry is evicted once in 30 seconds
        if not self._providers.evict(image_of(0), before):
            raise AssertionError("the refused credential was not evicted")
        after = self._providers.lookup(image_of(0)).credentials[0]
        if after.password != f"made-up-{self._number}":
            raise AssertionError("the new password was not found after the old one was evicted")
        return Done(4)


class Refreshes:
    """The agent's renewals on a stepped clock: ten minutes of a node in one step; every seventh renewal fails."""

    def __init__(self, stack: ExitStack) -> None:
        self._clock, self._runs = Clock(), 0
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - the stack closes it
        log = AgentLog(stream=stack.enter_context(nowhere))
        spread = Random(1).random  # noqa: S311 - it spreads renewals, and makes no secret
        self._refresher = Refresher(log, 1 << 60, clock=self._clock, random_number=spread)
        config = CredentialProvider(
            name="plugin",
            match_images=(REGISTRY,),
            default_cache_duration_ns=0,
            api_version="credentialprovider.kubelet.k8s.io/v1",
        )
        provider = Provider(config, self._answer, clock=self._clock, on_cached=self._refresher.note)
        self.providers = AgentProviders([provider], clock=self._clock)
        self._runner = stack.enter_context(asyncio.Runner())

    def _answer(
        self, asked: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        del timeout_seconds
        self._runs += 1
        if self._runs % 7 == 0:
            raise PluginExitError("plugin", 3, "text", "no")
        login = AuthConfig(username="bench", password=f"for {asked.image}")
        return CredentialProviderResponse(
            cache_key_type="Image", cache_duration_ns=600 * _SECOND, auth={REGISTRY: login}
        ), 0.001

    def step(self) -> Done:
        """Let ten minutes pass, a minute at a time."""
        before = self._refresher.succeeded, self._refresher.failed
        self._runner.run(self._pass_ten_minutes())
        succeeded, failed = self._refresher.succeeded - before[0], self._refresher.failed - before[1]
        return Done(succeeded + failed + _NEW_IMAGES, failed)

    async def _pass_ten_minutes(self) -> None:
        renewing = asyncio.create_task(self._refresher.run(lambda: self.providers))
        try:
            for _ in range(10):
                for number in range(_NEW_IMAGES):
                    await self._ask(image_of(number))
                self._clock.step(60)
                await asyncio.sleep(0.05)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _ask(self, image: str) -> None:
        answer = await self.providers.lookup_async(image)
        if answer.credentials:
            _check_password(answer.credentials[0].password, image)
        elif not answer.failures:
            raise AssertionError("a renewed answer is missing and no run has failed")


class AgentRequests:
    """Requests to an agent that lives as long as the soak."""

    def __init__(self, place: AgentPlace, life: str = _LIFE) -> None:
        self._place, self._steps = place, 0
        write_plugin(place.plugin, cache_duration=life)

    def step(self) -> Done:
        """Ask for known images, each on a connection of its own, and for a new one."""
        self._steps += 1
        for image in (*map(image_of, range(20)), f"{REGISTRY}/new/app-{self._steps}"):
            reply = self._place.ask("POST", "/v1/lookup", {"image": image})
            if f'"for {image}"'.encode() not in reply:
                raise AssertionError(f"the agent answered {reply.partition(b' ')[2][:40]!r}")
        return Done(21)


class AgentReloads:
    """Reloads of the same agent; every tenth config is broken, and refused."""

    def __init__(self, place: AgentPlace) -> None:
        self._place, self._number = place, 0
        self._good = place.config.read_bytes()

    def step(self) -> Done:
        """Reload once."""
        self._number += 1
        is_broken = self._number % 10 == 0
        self._place.config.write_bytes(b"{" if is_broken else self._good)
        is_refused = b'"applied":false' in self._place.ask("POST", "/v1/reload")
        if is_refused is not is_broken:
            raise AssertionError(f"reload {self._number}: refused is {is_refused}, broken is {is_broken}")
        return Done(1, is_refused)


class TakeOvers:
    """A second agent, replaced by a new process again and again; its cache is handed over."""

    def __init__(self, place: AgentPlace) -> None:
        self._place = place
        # Longer than a soak, so that no plugin runs again because an answer has expired.
        AgentRequests(place, "24h").step()

    def step(self) -> Done:
        """Replace the agent; nothing that it had cached is asked of the plugin again."""
        runs = self._place.runs()
        self._place.replace()
        for number in range(20):
            if b'"for ' not in self._place.ask("POST", "/v1/lookup", {"image": image_of(number)}):
                raise AssertionError("the successor does not answer")
        if self._place.runs() != runs:
            raise AssertionError(f"the successor ran the plugin {self._place.runs() - runs} times")
        return Done(21)


class Pulls:
    """Pulls from a registry into a layout that is new each time, and once more when the image is there."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        home = Path(folder)
        self._server: Server = stack.enter_context(serve_registry(home, has_tls=False))
        self._image = f"{self._server.host}/bench/soak:v1"
        self._target = home / "target"
        write_image(home / "source", _LAYERS)
        source = f"oci:{home / 'source'}:v1"
        options = trust_options(self._server, "dest")
        subprocess.run(skopeo_copy(source, f"docker://{self._image}", options), check=True)

    def step(self) -> Done:
        """Pull twice."""
        first, second = (pull(self._image, PullOptions(credentials=()), to=self._target) for _ in range(2))
        if first.manifest_digest != second.manifest_digest:
            raise AssertionError("two pulls of one image differ")
        if len(list((self._target / "blobs" / "sha256").iterdir())) != len(_LAYERS) + 2:
            raise AssertionError("the layout does not have exactly the image's blobs")
        shutil.rmtree(self._target)
        return Done(2)


class ClusterRequests:
    """Requests to an API server with a plugin's token that expires after a second or two."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        plugin = Path(folder) / "exec-plugin"
        plugin.write_text(_EXEC_SCRIPT.replace("TOKEN", TOKEN), encoding="utf-8")
        plugin.chmod(0o755)
        port, authority = stack.enter_context(serve_api(folder))
        config = Path(folder) / "kubeconfig"
        document = make_kubeconfig(f"https://127.0.0.1:{port}", authority, exec_user(str(plugin)))
        config.write_text(json.dumps(document), encoding="utf-8")
        config.chmod(0o600)
        self._session = load_cluster(kubeconfig=config)

    def step(self) -> Done:
        """Send a request on a connection of its own."""
        with request(self._session, "/version") as response:
            if response.status != 200:
                raise AssertionError(f"the API server answered {response.status}")
            response.read()
        return Done(1)


def count_answers(work: Work) -> int:
    """Return how many answers the caches of a kind of work hold in this process."""
    providers = work.providers.providers if isinstance(work, Lookups | Refreshes) else ()
    return sum(use.entries for each in providers for use in each.cache_uses())


class Chosen(NamedTuple):
    """A kind of work, and the seconds between two of its steps."""

    work: Work
    pause_seconds: float


def start_all(folder: str, agent: AgentPlace, stack: ExitStack) -> tuple[dict[str, Chosen], list[str]]:
    """Return all work by name, and the names of what cannot be done here, with the reason."""

    def below(name: str) -> str:
        path = os.path.join(folder, name)
        os.mkdir(path)
        return path

    second = AgentPlace(below("taken-over"), "--watch", "false")
    stack.callback(second.close)
    second.start()
    makers: dict[str, tuple[Callable[[], Work], float]] = {
        "lookups": (lambda: Lookups(below("lookups")), 0.1),
        "lookups in an event loop": (lambda: AsyncLookups(below("async"), stack), 0.2),
        "lookups in threads": (lambda: ThreadedLookups(below("threads"), stack), 0.2),
        "plugins that fail, hang and flood": (lambda: BadPlugins(below("bad")), 0.5),
        "rotations": (lambda: Rotations(below("rotations")), 0.5),
        "refreshes on a stepped clock": (lambda: Refreshes(stack), 0.2),
        "requests to the agent": (lambda: AgentRequests(agent), 0.1),
        "reloads of the agent": (lambda: AgentReloads(agent), 1.0),
        "take-overs of a second agent": (lambda: TakeOvers(second), 5.0),
        "requests to a cluster": (lambda: ClusterRequests(below("cluster"), stack), 0.3),
    }
    left_out = []
    if shutil.which("docker-registry") and shutil.which("skopeo"):
        makers["pulls from a registry"] = (lambda: Pulls(below("pulls"), stack), 0.5)
    else:
        left_out.append("pulls from a registry: docker-registry or skopeo is not installed")
    return {name: Chosen(make(), pause) for name, (make, pause) in makers.items()}, left_out
