"""The root file system of a node below a folder, with the absolute links that nodes have, for ``--host-root``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from support.commands import run_in_process
from support.plugins import answer, compile_program, provider_entry, write_config

# The usual place of EKS, here a link, and where it leads.
USUAL = "/etc/eks/image-credential-provider"
REAL = "/usr/share/eks"
CONFIG, PLUGIN = f"{USUAL}/config.json", f"{USUAL}/ecr"
IMAGE = "registry.example/team/app:v1"

# A plugin without libraries, which a root file system with nothing else can run. It tells what it finds at its root,
# and leaves its environment there if it may write.
_PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(void) {
    char name[64] = "", folder[64] = "";
    FILE *environment = fopen("/environment", "w");
    for (char **each = environ; environment && *each; each++) fprintf(environment, "%s\\n", *each);
    if (environment) fclose(environment);
    int fd = open("/etc/node-name", O_RDONLY);
    if (fd < 0 || read(fd, name, sizeof name - 1) < 0 || !getcwd(folder, sizeof folder)) return 7;
    if (strcmp(folder, "/")) return 8;
    printf(ANSWER, name);
    return 0;
}
"""


class HostRoot:
    """A folder with a provider config in the usual place of EKS, which is an absolute link."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.link(USUAL, REAL)
        write_config(
            self.write(f"{REAL}/config.json"), [provider_entry("ecr", matchImages=["registry.example"])]
        )
        self.write("/etc/node-name", "node-7")

    def at(self, path: str) -> Path:
        """Return where this process finds a path that is no link, and whose folders are none."""
        return self.folder / path.lstrip("/")

    def write(self, path: str, text: str = "") -> Path:
        """Write a file."""
        found = self.at(path)
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(text)
        return found

    def link(self, path: str, target: str) -> None:
        """Set a link."""
        found = self.at(path)
        found.parent.mkdir(parents=True, exist_ok=True)
        found.unlink(missing_ok=True)
        found.symlink_to(target)

    def add_plugin(self) -> None:
        """Add the plugin, which the config's folder has as an absolute link; it answers with the node's name."""
        printed = json.dumps(answer(auth={"registry.example": ("node", "%s")}))
        (self.folder / "opt").mkdir()
        compile_program(self.folder / "opt/ecr", _PROGRAM.replace("ANSWER", printed), static=True)
        self.link(f"{REAL}/ecr", "/opt/ecr")

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command about this node."""
        return run_in_process(*words, "--host-root", str(self.folder), cwd=None, **env)
