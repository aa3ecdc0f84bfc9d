"""Run keyferry as a user does: in its own process, or in this one where the process is not what is tested."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import keyferry
from keyferry.cli.main import main
from support.schemas import check_output

# Lines are not folded, so that a test finds a sentence in one of them; in a page they are (make outputs).
WIDTH = "100" if os.environ.get("WRITE_OUTPUTS") else "10000"

PLUGIN = """\
#!/bin/sh
cat > "$0.request"
echo run >> "$0.runs"
{before}
cat <<'X'
{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType": "{cache_key_type}", "cacheDuration": "1h", "auth": {auth}}}
X
"""

PROVIDER = """\
- name: {name}
  matchImages: [{patterns}]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
{extra}"""


class Node:
    """A folder with a provider config and plugins, like a node's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin_dir = folder / "bin"
        self.config = folder / "providers.yaml"
        self.bin_dir.mkdir()
        self._entries: list[str] = []

    def add(
        self,
        name: str,
        patterns: list[str],
        auth: str = '{"reg.io": {"username": "user", "password": "pass-word"}}',
        *,
        cache_key_type: str = "Registry",
        before: str = "",
        extra: str = "",
    ) -> Node:
        """Add a provider with a shell script as its plugin."""
        path = self.bin_dir / name
        path.write_text(PLUGIN.format(before=before, cache_key_type=cache_key_type, auth=auth))
        path.chmod(0o755)
        shown = ", ".join(f'"{pattern}"' for pattern in patterns)
        self._entries.append(PROVIDER.format(name=name, patterns=shown, extra=extra))
        self.config.write_text(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
            + "".join(self._entries)
        )
        return self

    def options(self) -> list[str]:
        """Return the two options that every command takes."""
        return ["--config", str(self.config), "--bin-dir", str(self.bin_dir)]

    def request(self, name: str) -> str:
        """Return the last request of a plugin."""
        return Path(f"{self.bin_dir / name}.request").read_text()


def plain_pod(folder: Path) -> list[str]:
    """Return the option for a pod without pull secrets, so that no credential is unknown."""
    path = folder / "plain-pod.json"
    metadata = {"name": "web", "namespace": "team", "uid": "pod-uid"}
    spec = {"serviceAccountName": "default", "containers": []}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    return ["-f", str(path)]


def run_keyferry(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with empty standard input; check a printed document against its schema.

    Lines are not folded, so that a test finds a sentence in one of them.
    """
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", *words],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": WIDTH, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    check_output(done.stdout)
    return done


def run_in_process(
    *words: str, stdin: str = "", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Do the same as ``run_keyferry`` in this process, which takes milliseconds; an unforeseen exception is raised.

    Python's own variables, such as PYTHONIOENCODING, have no effect.
    """
    entry = str(Path(keyferry.__file__).with_name("__main__.py"))
    env = {"NO_COLOR": "1", "COLUMNS": WIDTH, **env}
    done = call_in_process(lambda: main(words), [entry, *words], stdin=stdin.encode(), cwd=cwd, env=env)
    check_output(done.stdout)
    return done


def all_commands() -> list[tuple[str, ...]]:
    """Return the words of every command, and of every subcommand, as they are completed."""
    groups = [(name,) for name in _completed("")]
    return [
        words for group in groups for words in (group, *((*group, name) for name in _completed(*group, "")))
    ]


def _completed(*words: str) -> list[str]:
    """Return the commands that can follow *words*, none if arguments follow."""
    *offers, _ = run_in_process("__complete", *words).stdout.splitlines()
    pairs = (offer.partition("\t") for offer in offers)
    return [name for name, _, text in pairs if text and not name.startswith("-") and not name.endswith("/")]


def call_in_process(
    program: Callable[[], int | None],
    argv: list[str],
    *,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    """Call the main function of a program with these arguments, this input and what *env* adds to the environment."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        given.write(stdin)
        given.seek(0)
        code = call_on_streams(program, argv, (given, stdout, stderr), cwd=cwd, env=env)
        return subprocess.CompletedProcess(argv, code, _text_of(stdout), _text_of(stderr))


def call_on_streams(
    program: Callable[[], int | None],
    argv: list[str],
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str],
) -> int:
    """Do the same with these standard streams; return the exit code."""
    with _environment(env), contextlib.chdir(cwd or "."), _debug_logs(), _standard_streams(*streams):
        return _call(program, argv)


def _call(program: Callable[[], int | None], argv: list[str]) -> int:
    before, sys.argv = sys.argv, argv
    try:
        return int(program() or 0)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    finally:
        sys.argv = before


@contextlib.contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before, folder = dict(os.environ), tempfile.tempdir
    os.environ.update(added)
    tempfile.tempdir = added.get("TMPDIR", folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = folder


@contextlib.contextmanager
def _debug_logs() -> Iterator[None]:
    """Take back what ``--verbose`` does to the logger."""
    logger = logging.getLogger("keyferry")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@contextlib.contextmanager
def _standard_streams(stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> Iterator[None]:
    """Replace the streams and their descriptors, which the programs that a command starts inherit."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(descriptor) for descriptor in range(3)]
    for descriptor, stream in enumerate((stdin, stdout, stderr)):
        os.dup2(stream.fileno(), descriptor)
    try:
        with (
            open(0, encoding="utf-8", closefd=False) as sys.stdin,
            open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
            open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False) as sys.stderr,
        ):
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for descriptor, saved in enumerate(kept):
            os.dup2(saved, descriptor)
            os.close(saved)


def _text_of(stream: IO[bytes]) -> str:
    """Return what was written, with line ends as ``subprocess`` gives them."""
    stream.seek(0)
    return stream.read().decode().replace("\r\n", "\n").replace("\r", "\n")
