"""The steps that install the packages, in environments that have nothing else."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from release.subject import ROOT, Problem, Release, make_environment, run

PROBE = ROOT / "tools" / "release" / "probe.py"
# The config of a plugin that tells which libraries it is given.
CONFIG = """{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [
{"name": "plugin",
"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["r.example"], "defaultCacheDuration": "0s"}]}"""
PLUGIN = """#!/bin/sh
echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",'
echo '"cacheKeyType": "Image", "auth": {"r.example": {"username": "'"${LD_LIBRARY_PATH-none}"'", "password": "p"}}}'
"""
# The pages with commands that install from a clone.
PAGES = ("README.md", "docs/index.md", "docs/tutorial.md")


def check_install(release: Release) -> str:
    """In an empty environment, every program starts, and man pages and completions are found."""
    with tempfile.TemporaryDirectory() as name:
        programs = make_environment(Path(name) / "venv", str(release.wheel))
        expect_version(release, str(programs / "keyferry"), "--version")
        expect_version(release, str(programs / "python"), "-I", "-m", "keyferry", "--version")
        run(str(programs / "python"), "-m", "pip", "check", "--disable-pip-version-check")
        for script in release.project["scripts"]:
            if script not in {
                "keyferry",
                "keyferry-shim",
                "docker-credential-keyferry",
                "kubectl_complete-keyferry",
            }:
                expect_version(release, str(programs / script), "--version")
        found = check_man(programs), *check_completions(programs.parent / "share")
        run(
            str(programs / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            *own_shim(release),
        )
        expect_shim(programs)
    return f"{len(release.project['scripts'])} programs, {', '.join(found)}, shim"


def check_binary(release: Release) -> str:
    """The executable runs in an empty root, hands none of its libraries to a plugin, and leaves no file behind."""
    run("make", "--silent", "binary", cwd=ROOT)
    built = ROOT / "dist" / f"keyferry.{platform.machine()}"
    with tempfile.TemporaryDirectory() as name:
        root, unpacked = Path(name), Path(name) / "tmp"
        for folder in (root / "proc", unpacked):
            folder.mkdir()
        shutil.copy(built, root / "keyferry")
        mount = 'mount --bind /proc "$0/proc" && exec chroot "$0" /keyferry --version'
        expect_version(release, "unshare", "--mount", "sh", "-c", mount, name)
        (root / "config.json").write_text(CONFIG)
        (root / "plugin").write_text(PLUGIN)
        (root / "plugin").chmod(0o755)
        words = (str(root / "keyferry"), "get", "r.example/app", "-o", "json", "--reveal")
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(unpacked)}
        found = run(*words, "--config", str(root / "config.json"), "--bin-dir", name, env=environment)
        if '"username": "none"' not in found:
            raise Problem(f"a plugin is run with libraries of the executable: {found[-600:]}")
        if left := os.listdir(unpacked):
            raise Problem(f"it leaves {', '.join(left)}")
    return f"{built.name}, {built.stat().st_size // 1_000_000} MB"


def check_pages(release: Release) -> str:
    """The blocks of the pages that install from a clone work, with a pip that refuses to install anywhere else."""
    blocks = {
        block: page
        for page in PAGES
        for block in re.findall(r"(?ms)^```sh\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"))
        if "pip install ." in block
    }
    for block, page in blocks.items():
        with tempfile.TemporaryDirectory() as home:
            environment = os.environ | {"HOME": home, "PIP_REQUIRE_VIRTUALENV": "1"}
            try:
                run("sh", "-ec", block, cwd=ROOT, env=environment)
            except Problem as problem:
                raise Problem(f"{page}: {problem}") from None
            expect_version(release, str(Path(home) / "keyferry" / "bin" / "keyferry"), "--version")
    return ", ".join(sorted(set(blocks.values())))


def expect_version(release: Release, *words: str, **options: Any) -> None:
    """Raise Problem unless a program prints the version."""
    if release.version not in (out := run(*words, **options)):
        raise Problem(f"{' '.join(words)} prints {out[:200]!r}")


def check_man(programs: Path) -> str:
    """Return the word for the table if ``man`` finds the pages by PATH alone."""
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(programs)}
    found = run("man", "--where", "keyferry-explain", env=environment).strip()
    if Path(found) != programs.parent / "share" / "man" / "man1" / "keyferry-explain.1":
        raise Problem(f"man finds {found!r}")
    return "man"


def check_completions(share: Path) -> list[str]:
    """Return the shells that complete by the installed files; those that are not here are left out."""
    programs = {
        "bash": f"source {share}/bash-completion/completions/keyferry; complete -p keyferry",
        "fish": "complete -C 'keyferry expl'",
        "zsh": f"fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -D -u; "
        "print $_comps[keyferry]",
    }
    expected = {"bash": "_keyferry", "fish": "explain", "zsh": "_keyferry"}
    search = f"{share.parent / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"XDG_DATA_DIRS": f"{share}:/usr/share", "PATH": search}
    here = [shell for shell in programs if shutil.which(shell)]
    for shell in here:
        if expected[shell] not in run(shell, "-c", programs[shell], env=environment):
            raise Problem(f"{shell} does not complete keyferry")
    return here


def own_shim(release: Release) -> list[str]:
    """Return the shim's wheel for this machine, if there is one."""
    wheel = release.shims.get(os.uname().machine)
    return [str(wheel)] if wheel else []


def expect_shim(programs: Path) -> None:
    """Raise Problem unless the installed static shim is found."""
    code = "from keyferry.bridge.kubelet_install import find_native_shim, read_native_shim as r; r(find_native_shim())"
    run(str(programs / "python"), "-I", "-c", code)


def check_extras(release: Release) -> str:
    """Every extra works alone."""
    extras = sorted(release.project["optional-dependencies"])
    for extra in extras:
        with tempfile.TemporaryDirectory() as name:
            programs = make_environment(Path(name), f"{release.wheel}[{extra}]")
            try:
                run(str(programs / "python"), "-I", str(PROBE), extra)
            except Problem as problem:
                raise Problem(f"[{extra}]: {problem}") from None
    return ", ".join(extras)


def check_installers(release: Release) -> str:
    """Pipx and uv install keyferry as a tool."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        environment = os.environ | {
            "HOME": name,
            "PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "pipx-bin"), "PIPX_MAN_DIR": str(home / "man"),
            "UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "uv-bin"), "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": str(home / "cache"),
        }  # fmt: skip
        run(
            str(release.tools / "pipx"),
            "install",
            "--python",
            sys.executable,
            str(release.wheel),
            env=environment,
        )
        expect_version(release, str(home / "pipx-bin" / "keyferry"), "--version")
        if not (home / "man" / "man1" / "keyferry.1").exists():
            raise Problem("pipx installs no man pages")
        uv = [str(release.tools / "uv"), "tool", "install", "--quiet", "--python", sys.executable]
        with_shim = [word for wheel in own_shim(release) for word in ("--with", wheel)]
        run(*uv, *with_shim, str(release.wheel), env=environment)
        expect_version(release, str(home / "uv-bin" / "keyferry"), "--version")
        if with_shim:
            expect_shim(home / "uv" / "keyferry" / "bin")
    return "pipx, uv tool"


def check_pythons(release: Release) -> str:
    """The wheel and the zipapp run with every Python that the classifiers name."""
    start = "Programming Language :: Python :: 3."
    named = [each.rpartition(" ")[2] for each in release.project["classifiers"] if each.startswith(start)]
    found = {version: find_python(version) for version in named}
    for python in filter(None, found.values()):
        expect_version(release, python, "-IS", str(release.zipapp), "keyferry-ecr", "--version")
        with tempfile.TemporaryDirectory() as name:
            programs = make_environment(Path(name), str(release.wheel), python=python)
            expect_version(release, str(programs / "keyferry"), "--version")
    missing = [version for version, python in found.items() if not python]
    if missing:
        raise Problem(f"not found, not tried: {', '.join(missing)}")
    return ", ".join(named)


def find_python(version: str) -> str:
    """Return an interpreter of a version, by PATH or in pyenv's folder; empty if there is none."""
    places = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    return shutil.which(f"python{version}") if not places else str(places[-1])  # type: ignore[return-value]  # None is empty
