"""What a newcomer sees first is true: the pictures, the README's commands and figures, and every link."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from keyferry.cli.demo.files import write_files
from support.api_server import ApiServer
from support.certificates import Authority
from support.kube import TOKEN, Kube, credential
from support.parts import need
from support.plugins import write_executable

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *SITE, *sorted((ROOT / "deploy").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """The anchor of a heading, as the repository's pages and the site have it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text.replace("`", "")).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page; a heading that is there twice has a number."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE):
        name, number = slug(heading), 0
        while name in found:
            number += 1
            name = f"{slug(heading)}-{number}"
        found.add(name)
    return found


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The links of a page to files of the tree: the path and the anchor, either may be empty."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))
    for target in re.findall(r"\]\((?!https?://|mailto:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        yield path, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert target.is_relative_to(ROOT), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_is_in_the_sites_table_of_contents(page: Path) -> None:
    name = str(page.relative_to(ROOT / "docs"))
    assert re.search(
        rf"^ +- (.*: )?{re.escape(name)}$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    for path, _ in links(page):
        assert (page.parent / path).resolve().is_relative_to(ROOT / "docs"), f"{path} is not on the site"


@pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")
@pytest.mark.parametrize("tool", ["terminal_picture.py"])
def test_the_pictures_are_up_to_date(tool: str) -> None:
    """The terminal shows what the commands print now."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / tool), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("status", [0, 1], ids=["npm works", "no registry can be reached"])
def test_the_site_is_built_without_what_npm_installs(tmp_path: Path, status: int) -> None:
    """The tools are made with programs that note their arguments; an npm that fails is no error."""
    log = tmp_path / "log"
    note = f'#!/bin/sh\necho "${{0##*/}} $*" >> {log}\n'
    write_executable(tmp_path / "npm", f"{note}exit {status}\n")
    write_executable(tmp_path / "python", note)
    site = tmp_path / "site"
    (site / "bin").mkdir(parents=True)
    write_executable(site / "bin" / "python", note)
    done = subprocess.run(
        [need("make"), f"SITE={site}", f"PYTHON={tmp_path / 'python'}", f"{site}/.ready"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (site / ".ready").exists()
    assert f"npm --prefix {site} install " in log.read_text("utf-8")


def test_a_python_that_cannot_make_environments_is_told_what_it_lacks(tmp_path: Path) -> None:
    """As a minimal Debian has it, where python3-venv is not installed."""
    write_executable(tmp_path / "python", "#!/bin/sh\ncase $* in *ensurepip*) exit 1 ;; esac\n")
    folders = [f"SITE={tmp_path}/site", f"APP={tmp_path}/app"]
    for target in ("demo", "parts", f"{tmp_path}/site/.ready"):
        done = subprocess.run(
            [need("make"), "--no-print-directory", *folders, f"PYTHON={tmp_path / 'python'}", target],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        first, *rest = done.stderr.splitlines()
        assert first.endswith(
            "cannot make virtual environments: install python3-venv (apt-get install python3-venv)"
        )
        assert all(line.startswith("make: ") for line in rest)


def test_the_readme_names_no_more_recorded_answers_than_there_are() -> None:
    files = (ROOT / "tests" / "conformance" / "vectors").glob("*.json")
    count = sum(len(json.loads(path.read_text("utf-8"))["cases"]) for path in files)
    (stated,) = re.findall(r"more than ([\d,]+) recorded answers", README.read_text("utf-8"))
    assert count > int(stated.replace(",", ""))


def recipes() -> list[str]:
    part = README.read_text("utf-8").partition("\n## Five recipes\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\*\*", part, re.MULTILINE)) == 5
    return re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(sys.platform == "win32", reason="the recipes are for a POSIX shell")
def test_the_recipes_of_the_readme_work_on_the_demos_files(tmp_path: Path) -> None:
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
    }
    write_files(str(tmp_path), "127.0.0.1:1")
    for recipe in recipes():
        done = subprocess.run(
            ["sh", "-ec", recipe], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{recipe}\n{done.stdout}\n{done.stderr}"
    login = json.loads((tmp_path / "auth.json").read_text("utf-8"))
    assert "eu.harbour.example" in login["auths"]
    assert (tmp_path / "auth.json").stat().st_mode & 0o077 == 0


def test_the_python_of_the_readme_reaches_a_cluster_by_an_exec_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    authority, kube = Authority(), Kube(tmp_path)
    with ApiServer(authority) as server:
        server.tokens.add(TOKEN)
        kube.write(server.url, ca=authority.pem)
        kube.answer(credential(TOKEN))
        kube.path.write_text(kube.path.read_text("utf-8").replace('"test"', '"prod"'), "utf-8")
        monkeypatch.setenv("KUBECONFIG", str(kube.path))
        monkeypatch.setenv("KUBERC", "off")
        exec(source, {})  # noqa: S102 - our own page
        assert [seen.path for seen in server.seen] == ["/api/v1/namespaces"]
    assert kube.runs() == 1
