"""The commands of the agent's page and of the bridges' page work as they stand there.

The set-up runs in namespaces of its own, in which /etc and /run can be changed, with a stand-in for systemctl that
starts the unit's program on the unit's socket by systemd's own tool. systemd as process 1 is not there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry import __version__
from support.agent_here import agent_here
from support.commands import run_in_process
from support.pages import check_shown
from support.parts import need, root
from support.plugins import Node, provider_entry, write_config, write_executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("agent.md", "bridges.md")]
AGENT, BRIDGES = (page.read_text(encoding="utf-8") for page in PAGES)
KUBELETS_PLUGIN = "ecr-credential-provider"
SYSTEMCTL = """\
#!/bin/sh
set -e
unit=/etc/systemd/system/keyferry-agent
case "$1 $2" in
"enable --now")
    socket=$(sed -n 's/^ListenStream=//p' $unit.socket)
    mkdir -m "$(sed -n 's/^DirectoryMode=//p' $unit.socket)" "$(dirname "$socket")"
    program=$(sed -n 's/^ExecStart=\\/usr\\/bin\\///p' $unit.service)
    systemd-socket-activate -E PATH -E KEYFERRY_CONFIG -E KEYFERRY_BIN_DIR -l "$socket" env $program >/run/log 2>&1 &
    echo $! > /run/agent.pid
    until grep -q " 00010000 .* $socket\\$" /proc/net/unix; do sleep 0.05; done;;
"disable --now")
    kill "$(cat /run/agent.pid)"
    while kill -0 "$(cat /run/agent.pid)" 2>/dev/null; do sleep 0.05; done;;
"daemon-reload ") ;;
*) exit 9;;
esac
"""
# In place of the interpreter that makes an environment: its pip notes what it installs, and makes the programs.
PYTHON = """\
#!/bin/sh
set -e
[ "$1 $2" = "-m venv" ]
mkdir -p "$3/bin" "$3/share/man/man1"
cat > "$3/bin/pip" <<'PIP'
#!/bin/sh
echo "$@" >> "$PLACE/pip"
cp PREFIX/share/man/man1/keyferry-agent*.1 "${0%/*}/../share/man/man1"
for name in keyferry docker-credential-keyferry kubectl-keyferry kubectl_complete-keyferry; do
    printf '#!/bin/sh\\nexec INTERPRETER -m keyferry "$@"\\n' > "${0%/*}/$name"
    chmod +x "${0%/*}/$name"
done
PIP
chmod +x "$3/bin/pip"
"""
# Programs can be put into /usr/bin, where all that are there already stay.
BEFORE_INSTALLING = """\
mkdir "$PLACE/real" "$PLACE/bin-of-all"
mount --bind /usr/bin "$PLACE/real"
mount -t tmpfs none "$PLACE/bin-of-all"
cp -as "$PLACE/real/." "$PLACE/bin-of-all"
mount --bind "$PLACE/bin-of-all" /usr/bin
mount -t tmpfs none /opt
mount -t tmpfs none /usr/local/share
"""
NAMES = ("keyferry", "docker-credential-keyferry", "kubectl-keyferry", "kubectl_complete-keyferry")
BEFORE = """\
set -e
mkdir "$PLACE/etc"
mount -t tmpfs none "$PLACE/etc"
cp -a /etc/. "$PLACE/etc"
mount --bind "$PLACE/etc" /etc
mount -t tmpfs none /run
mkdir -p /etc/systemd/system
"""


def blocks(page: str, language: str = "sh") -> list[str]:
    """Return the blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a plugin under the kubelet's usual name, and stand-ins for sudo and systemctl."""
    made = Node(tmp_path)
    made.recording(name=KUBELETS_PLUGIN)
    write_config(made.config, [provider_entry(KUBELETS_PLUGIN)])
    (tmp_path / "path").mkdir()
    write_executable(tmp_path / "path" / "sudo", '#!/bin/sh\nexec "$@"\n')
    write_executable(tmp_path / "path" / "systemctl", SYSTEMCTL)
    write_executable(tmp_path / "path" / "keyferry", f'#!/bin/sh\nexec {sys.executable} -m keyferry "$@"\n')
    return made


def environ_of(node: Node) -> dict[str, str]:
    # Those of install.sh are also words of make, which passes them on.
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "SOURCE")}
    return {
        **inherited,
        "PATH": f"{node.root / 'path'}:{os.environ['PATH']}",
        "PLACE": str(node.root),
        "HOME": str(node.root),
        "KEYFERRY_CONFIG": str(node.config),
        "KEYFERRY_BIN_DIR": str(node.bin_dir),
    }


def run(node: Node, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a place of its own; all that it starts ends with it."""
    for program in ("curl", "systemd-socket-activate"):
        need(program)
    apart = [need("unshare"), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return subprocess.run(
        [*apart, "sh", "-c", BEFORE + script],
        cwd=ROOT,
        env=environ_of(node),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def stand_in_for_python(node: Node) -> None:
    """Make the interpreter with which install.sh makes its environment, and leave no other keyferry on the PATH."""
    (node.root / "path" / "keyferry").unlink()
    made = PYTHON.replace("INTERPRETER", sys.executable).replace("PREFIX", sys.prefix)
    write_executable(node.root / "path" / "python3", made)


@root
def test_three_commands_set_the_agent_up_and_one_undoes_it(node: Node) -> None:
    """From nothing; and what the page asks with curl is answered meanwhile."""
    stand_in_for_python(node)
    set_up = blocks(AGENT)[0]
    assert len(set_up.splitlines()) == 3
    [undo] = re.findall(r"^Undo: `([^`]+)`", AGENT, re.MULTILINE)
    curls = next(block for block in blocks(AGENT) if block.startswith("curl"))
    mark = "echo; echo ======\n"
    asked = "".join(f"{line}; {mark}" for line in curls.splitlines())
    left = (
        "find /opt /usr/bin /etc/systemd/system -name '*keyferry*'; find /usr/local/share -name 'keyferry*'"
    )
    again = set_up.splitlines()[0]
    done = run(node, f"{BEFORE_INSTALLING}{set_up}{mark}{asked}{again}\n{left}; {mark}{undo}; {undo}; {left}")
    assert done.returncode == 0, done.stderr
    shown, looked_up, status, installed, rest = done.stdout.split("======\n", 4)
    assert KUBELETS_PLUGIN in shown, done.stderr
    assert json.loads(looked_up)["credentials"][0]["username"] == "user"
    assert json.loads(status)["socketActivated"] is True
    found = {Path(line) for line in installed.split()}
    pages = {each for each in found if each.suffix == ".1"}
    assert {each.parent for each in pages} == {
        *(Path("/opt/keyferry/share/man/man1"), Path("/usr/local/share/man/man1")),
    }
    assert found - pages == {
        *(Path("/etc/systemd/system") / f"keyferry-agent.{kind}" for kind in ("service", "socket")),
        *(folder / name for folder in (Path("/usr/bin"), Path("/opt/keyferry/bin")) for name in NAMES),
        Path("/opt/keyferry"),
    }
    assert rest.strip() == "", done.stderr
    installed_by_pip = (node.root / "pip").read_text().splitlines()
    assert [line.split()[-1] for line in installed_by_pip] == [f"{ROOT}[agent]"] * 2


def test_the_status_on_the_page_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """Of a provider that works and one that fails; paths and times are those of the page."""
    node, hosts = Node(tmp_path), {"acme": "registry.example", "broken": "broken.example"}
    node.recording(name="acme", duration="6h", auth={"registry.example": ("robot", "pass-word")})
    node.shell("echo 'the login has expired' >&2; exit 1", name="broken")
    write_config(node.config, [provider_entry(name, matchImages=[host]) for name, host in hosts.items()])
    with agent_here(node) as agent:
        for host in hosts.values():
            agent.ask("POST", "/v1/lookup", {"image": f"{host}/team/app"})
        done = run_in_process("agent", "status", KEYFERRY_AGENT=agent.socket)
    assert done.returncode == 1
    output = re.sub(r"for (?:less than a second|\d+ s)\b", "for 2 min", done.stdout)
    output = re.sub(r"in \d h\b", "in 5 h", output)
    output = output.replace(str(node.bin_dir), "/usr/libexec/credential-providers")
    output = output.replace(str(node.config), "/etc/kubernetes/providers.yaml")
    [shown] = (block for block in blocks(AGENT, "console") if "agent status" in block)
    check_shown(PAGES[0], shown.partition("\n")[2], output)


def test_the_wheel_that_the_page_installs_has_the_name_that_is_built() -> None:
    """Pip takes no other."""
    assert f"SOURCE=dist/keyferry-{__version__}-py3-none-any.whl sh deploy/systemd/install.sh" in AGENT


@root
def test_systemd_finds_nothing_wrong_with_what_is_installed(node: Node) -> None:
    """The program and the man page that the units name are there."""
    need("man")
    stand_in_for_python(node)
    [install, *_] = blocks(AGENT)[0].splitlines()
    units = " ".join(f"/etc/systemd/system/keyferry-agent.{kind}" for kind in ("service", "socket"))
    verify = f"{need('systemd-analyze')} verify --recursive-errors=no {units}"
    done = run(node, f"{BEFORE_INSTALLING}{install}\n{verify}")
    assert (done.returncode, done.stderr) == (0, "")


@root
def test_a_keyferry_of_another_origin_is_not_replaced(node: Node) -> None:
    """It may be a distribution's; nothing is changed then."""
    [install, *_] = blocks(AGENT)[0].splitlines()
    done = run(
        node, f"{BEFORE_INSTALLING}echo mine > /usr/bin/keyferry\n{install} || cat /usr/bin/keyferry; ls /opt"
    )
    assert done.stdout == "mine\n"
    assert "/usr/bin/keyferry exists, and is not of /opt/keyferry" in done.stderr


@root
@pytest.mark.parametrize("place", ["keyferry", "keyferry/clones/keyferry"])
def test_a_clone_in_the_folder_of_the_installation_is_kept(node: Node, place: str) -> None:
    """Its files would be replaced by an environment, and deleted with it."""
    clone = f"mkdir -p /opt/{place}/deploy\ncp -r deploy/systemd /opt/{place}/deploy\n"
    marked = "touch /opt/keyferry/.made-by-install.sh\n" if "/" in place else ""
    script = f"/opt/{place}/deploy/systemd/install.sh"
    tried = "".join(f"sh {script} {command} || echo refused; ls {script}\n" for command in ("", "remove"))
    done = run(node, f"{BEFORE_INSTALLING}{clone}{marked}{tried}")
    assert done.stdout == f"refused\n{script}\n" * 2, done.stderr
    assert done.stderr.count("this clone is in /opt/keyferry") == 2


@root
def test_a_folder_that_something_else_made_is_kept(node: Node) -> None:
    """A clone of before, an environment that somebody made by hand: install.sh knows its own by a file in it."""
    before = "mkdir /opt/keyferry; echo mine > /opt/keyferry/work\n"
    tried = "".join(
        f"sh deploy/systemd/install.sh {command} || echo refused; cat /opt/keyferry/work\n"
        for command in ("", "remove")
    )
    done = run(node, f"{BEFORE_INSTALLING}{before}{tried}")
    assert done.stdout == "refused\nmine\n" * 2, done.stderr
    assert done.stderr.count("/opt/keyferry exists, and was not made by install.sh") == 2


@root
def test_the_agents_page_is_reached_by_the_link_that_is_printed(node: Node) -> None:
    """The first command stays in the foreground; with a port that is free, since the page's may be taken."""
    start, link = next(block for block in blocks(AGENT) if "agent page" in block).splitlines()
    before = "mkdir /run/keyferry\n"
    started = start.replace("127.0.0.1:7475", "127.0.0.1:0").partition("#")[0]
    wait = "until [ -S /run/keyferry/agent.sock ]; do sleep 0.05; done\n"
    visit = "curl -sfo /dev/null $(keyferry agent page) && echo open"
    done = run(node, f"{before}{started} 2>/run/log &\n{wait}{link}\n{visit}")
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr
    assert done.stdout.endswith("open\n"), done.stderr


def test_the_rules_of_the_page_are_valid(node: Node, tmp_path: Path) -> None:
    [rules] = blocks(AGENT, "yaml")
    path = tmp_path / "agent.yaml"
    path.write_text(rules, encoding="utf-8")
    path.chmod(0o600)
    findings = json.loads(run_in_process("lint", str(path), "-o", "json").stdout)["findings"]
    # The rule for every registry is meant.
    assert [each["code"] for each in findings] == ["KF552"]
    places = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    shown = run_in_process("agent", "config", "--agent-config", str(path), *places, "-o", "json")
    found = json.loads(shown.stdout)
    assert {each["name"]: each["value"] for each in found["settings"]}["socketMode"] == "0666"


@root
@pytest.mark.parametrize("number", range(3))
def test_the_commands_of_the_bridges_page(node: Node, number: int) -> None:
    """Each block sets something up, shows it, and undoes it: everything is as it was in the end."""
    block = [each for each in blocks(BRIDGES) if "keyferry bridge" in each and "REGISTRY" not in each][number]
    block = block.replace("/opt/bin/", f"{node.bin_dir}/")
    config, names = node.config.read_bytes(), sorted(os.listdir(node.bin_dir))
    done = run(node, f"mkdir -p /etc/containers\n{block}")
    assert done.returncode == 0, done.stderr
    assert (node.config.read_bytes(), sorted(os.listdir(node.bin_dir))) == (config, names)


@root
def test_a_service_gets_a_docker_config_of_its_own(node: Node) -> None:
    """For the registry that is named in place of REGISTRY."""
    (block,) = (each for each in blocks(BRIDGES) if "REGISTRY" in each)
    script = block.replace("REGISTRY", "registry.example")
    config = "/etc/snapshotter/docker/config.json"
    done = run(node, f"mkdir -p {os.path.dirname(config)}\n{script}echo ======\ncat {config}")
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout.partition("======\n")[2])
    assert written["credHelpers"] == {"registry.example": "keyferry"}
