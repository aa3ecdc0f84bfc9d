"""Real registries of three kinds and a real container runtime that can reach them, for the length of a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keyferry.pulls.cri import RuntimeTarget, connect_runtime
from keyferry.pulls.layout_target import LayoutTarget
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.request import PullTarget
from support.containerd import Containerd, running_containerd
from support.fake_cloud import Authority
from support.images import BuiltImage, build, push
from support.registry import Registry, basic, running
from support.token_server import TokenServer, token_server

KINDS = ("basic", "tls", "bearer")
TARGETS = ("runtime", "layout")
USERS = {"alice": "kf-alice-word", "bob": "kf-bob-word", "pusher": "kf-push-word"}


@dataclass(frozen=True)
class World:
    """A runtime, and registries by kind: Basic over plain HTTP, Basic over TLS, Bearer tokens."""

    containerd: Containerd
    registries: Mapping[str, Registry]
    tokens: TokenServer
    authority: Path

    def put(self, kind: str, repository: str, image: BuiltImage | None = None) -> str:
        """Push an image with unique content, and return its name."""
        registry = self.registries[kind]
        proof = basic("pusher", USERS["pusher"])
        if kind == "bearer":
            proof = f"Bearer {self.tokens.token('pusher', (f'repository:{repository}:pull,push',))}"
        push(registry, repository, "v1", image or build(f"{kind}/{repository}".encode()), proof)
        return f"{registry.host}/{repository}:v1"

    def host(self, kind: str) -> str:
        """Return a registry's address and port."""
        return self.registries[kind].host

    def target(self, where: str, folder: Path) -> PullTarget:
        """Return the runtime, or a layout in a folder."""
        if where == "runtime":
            return RuntimeTarget(connect_runtime(str(self.containerd.socket)))
        return LayoutTarget(folder / "layout", route=RegistryRoute(ca_file=str(self.authority)))

    def options(self, where: str, folder: Path) -> list[str]:
        """Return the same as command-line options."""
        if where == "runtime":
            return ["--cri", f"unix://{self.containerd.socket}"]
        return ["--to", str(folder / "layout"), "--ca-file", str(self.authority)]


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    """Yield the runtime and the registries, with the same users everywhere."""
    authority = Authority(folder)
    with ExitStack() as stack:
        containerd = stack.enter_context(running_containerd())
        tokens, auth = stack.enter_context(token_server(folder))
        tokens.users.update(USERS)
        pem = authority.certificate("127.0.0.1")
        registries = {
            "basic": stack.enter_context(running(folder / "basic")),
            "tls": stack.enter_context(running(folder / "tls", pem=pem, bundle=authority.bundle)),
            "bearer": stack.enter_context(running(folder / "bearer", tokens=auth)),
        }
        for kind in ("basic", "tls"):
            registries[kind].set_users(USERS)
        containerd.serve(registries["tls"].host, registries["tls"].url, authority.bundle)
        yield World(containerd, registries, tokens, authority.bundle)
