"""What the docs say is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import keyferry
import keyferry.sdk
from support.commands import run_in_process
from support.fake_cloud import Reply, serving
from support.plugins import write_executable
from support.public_names import API, SDK
from support.sdk_plugins import exec_info, image_plugin, request_bytes, run_source

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_link_leads_to_an_address_that_nobody_serves() -> None:
    """The name of the API group is no address, nor is the $id of a schema, which names it."""
    folders = (ROOT / each for each in ("src", "deploy", "docs", "tools", "native"))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    texts = {path: path.read_bytes() for path in files if "__pycache__" not in path.parts}
    assert texts
    link = re.compile(rb'(?<!"\$id": ")https?://[\w.-]*keyferry\.dev')
    assert [path for path, text in texts.items() if link.search(text)] == []


def test_the_files_on_the_page_about_the_architecture_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", page))
    source = Path(keyferry.__file__).parent
    places = (source, source.parent, ROOT)
    assert named
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def names_of(directive: str) -> Sequence[str]:
    """The name that the page shows, or all of a module that is there as a whole."""
    try:
        found: Sequence[str] = import_module(directive).__all__
    except ImportError:
        return [directive.rpartition(".")[2]]
    return found


def test_every_public_name_is_on_the_page_of_names() -> None:
    """Once; the page is built from the sources, and its build fails for a name that is not there."""
    directives = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert len(set(directives)) == len(directives)
    adapters = (
        f"keyferry.clusters.adapters.{name}"
        for name in ("httpx", "httpx2", "requests", "aiohttp", "kubernetes")
    )
    modules = {"keyferry.errors", *adapters, *(f"keyferry.sdk.{name}" for name in SDK), *API}
    assert modules <= set(directives)
    shown = {name for directive in directives for name in names_of(directive)}
    assert {*keyferry.__all__, *keyferry.sdk.__all__} <= shown


SDK_PAGE = ROOT / "docs" / "sdk.md"


def sdk_examples() -> list[str]:
    """The Python of the page, in order: image plugin, cluster plugin, an error, tests, a launcher."""
    return re.findall(
        r"^```python\n(.*?)^```", SDK_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def run_example(
    folder: Path, source: str, stdin: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Save a program of the page and execute it, in the environment in which keyferry is installed."""
    program = write_executable(folder / "plugin", source)
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run([program], input=stdin, env=env, capture_output=True, check=False)


def test_the_image_plugin_of_the_sdks_page_works(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pass-word\n")
    source = sdk_examples()[0].replace("/etc/acme/password", str(tmp_path / "password"))
    for registry, password in (("registry.acme.example", b"pass-word"), ("elsewhere.example", b"")):
        done = run_example(tmp_path, source, request_bytes(f"{registry}/team/app"))
        assert (done.returncode, done.stderr) == (0, b"")
        assert (b'"password":"' + password in done.stdout) is bool(password)
    (tmp_path / "password").write_text("\n")
    done = run_example(tmp_path, source, request_bytes("registry.acme.example/app"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"plugin: the password file is empty\nplugin: write a password into ")


def test_the_cluster_plugin_of_the_sdks_page_works(tmp_path: Path) -> None:
    with serving(lambda received: Reply(document={"access_token": received.form["password"]})) as server:
        source = sdk_examples()[1].replace("https://login.acme.example", server.url)
        done = run_example(tmp_path, source, b"typed\n", **exec_info(interactive=True))
    assert done.returncode == 0, done.stderr
    assert b'"token":"typed"' in done.stdout
    assert done.stderr.startswith(b"Password: ")
    assert server.received[0].form["username"] == "jo"


def test_the_tests_and_errors_of_the_sdks_page_are_true() -> None:
    names: dict[str, object] = {}
    exec(sdk_examples()[3], names)  # noqa: S102 - our own page
    tests = [value for name, value in names.items() if name.startswith("test_") and callable(value)]
    for test in tests:
        test()
    assert len(tests) == 2
    source = image_plugin(sdk_examples()[2])
    shown = re.search(r"^```text\n(.*?)^```", SDK_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert run_source(source, request_bytes()).stderr == shown[1].replace("acme-registry: ", "plugin: ")


def test_the_launcher_of_the_sdks_page_works(tmp_path: Path) -> None:
    (tmp_path / "acme_registry").mkdir()
    (tmp_path / "acme_registry" / "plugin.py").write_text("def main(): print('started')\n")
    source = sdk_examples()[4].replace("/opt/acme/lib", str(tmp_path))
    assert source.startswith("#!/usr/bin/python3 -IS\n")
    done = run_example(tmp_path, source.replace("/usr/bin/python3", sys.executable))
    assert done.stdout == b"started\n", done.stderr


def test_every_install_command_is_one_that_works() -> None:
    """Keyferry is on no package index, where its name may be somebody else's: it is installed from a clone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    found = [
        command
        for page in [*PAGES, *(ROOT / "docs" / "plugins").glob("*.md"), *(ROOT / "src").rglob("*.py")]
        for command in re.findall(r"pipx? install ([^\s`\"]+)", page.read_text(encoding="utf-8"))
    ]
    # A plugin's own project and what its tests need, and a hint that is completed as it is printed.
    installed = {f"'.[{extra}]'" for extra in (*extras, "{extra}")}
    wanted = {".", "./keyferry", "-e", "pytest", *installed}
    assert found
    assert set(found) <= wanted
    assert not [page for page in (ROOT / "src").rglob("*.py") if "pytest keyferry" in page.read_text("utf-8")]


def test_the_readme_and_the_first_page_install_the_same() -> None:
    """Every extra that a user of the command line may need."""
    found = [
        block
        for page in PAGES
        for block in re.findall(
            r"```sh\n(python3 -m venv ~/keyferry.*?)```", page.read_text("utf-8"), re.DOTALL
        )
        if "[agent]" in block
    ]
    assert len(found) == 2
    assert found[0] == found[1]


def test_every_requirement_is_on_the_page_about_the_architecture() -> None:
    """Those of keyferry and its extras, and the tools of the dependency groups."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    lines = [*settings["build-system"]["requires"], *project["dependencies"]]
    for group in (*project["optional-dependencies"].values(), *settings["dependency-groups"].values()):
        lines += group
    found = {match[0] for line in lines if (match := re.match(r"[\w-]+", line))}
    assert found
    named = set(re.findall(r"[\w-]+", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    assert found | {"ziglang"} <= named, found - named


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    *commands, _ = run_in_process("__complete", "").stdout.splitlines()
    for name in (line.partition("\t")[0] for line in commands):
        assert f"`keyferry {name}" in readme, name
