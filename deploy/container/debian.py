"""The base layer: files of Debian packages, without what a program in Python does not need, and without dpkg."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = "3.11"
LIBRARY = f"usr/lib/python{VERSION}"
# With what they hold. Licences stay.
DROPPED = (
    "etc/ca-certificates*",
    "etc/debian_version",
    "etc/default",
    "etc/dpkg",
    "etc/host.conf",
    "etc/issue",
    "etc/issue.net",
    "etc/ld.so.conf.d",
    "etc/profile.d",
    "etc/python*",
    "etc/skel",
    "etc/update-motd.d",
    "usr/lib/*/audit",
    "usr/lib/*/engines-3",
    "usr/lib/*/gconv",
    "usr/lib/*/libc_malloc_debug.so*",
    "usr/lib/*/libmemusage.so*",
    "usr/lib/*/libmvec.so*",
    "usr/lib/*/libpcprofile.so*",
    "usr/lib/*/ossl-modules",
    "usr/games",
    "usr/include",
    "usr/lib/binfmt.d",
    "usr/sbin/*",
    "usr/share/applications",
    "usr/share/base-files",
    "usr/share/binfmts",
    "usr/share/bug",
    "usr/share/dict",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/man",
    "usr/share/misc",
    "usr/share/pixmaps",
    "usr/src",
    "var/*",
    f"{LIBRARY}/LICENSE.txt",
    *(
        f"{LIBRARY}/{name}"
        for name in (
            "__phello__",
            "_bootsubprocess.py",
            "config-*",
            "curses",
            "dbm",
            "distutils",
            "doctest.py",
            "ensurepip",
            "idlelib",
            "lib2to3",
            "pdb.py",
            "pydoc.py",
            "pydoc_data",
            "sqlite3",
            "test",
            "tkinter",
            "turtle.py",
            "turtledemo",
            "unittest",
            "venv",
            "wsgiref",
            "xmlrpc",
        )
    ),
    *(
        f"{LIBRARY}/lib-dynload/{name}.*.so"
        for name in (
            "_crypt",
            "_ctypes_test",
            "_curses",
            "_curses_panel",
            "_dbm",
            "_sqlite3",
            "_test*",
            "_tkinter",
            "_xx*",
            "nis",
            "ossaudiodev",
            "readline",
            "xx*",
        )
    ),
)
MERGED = ("bin", "lib", "lib64", "sbin")
EMPTY_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "var")
USERS = "root:x:0:0:root:/:/none\n{name}:x:{user}:{group}:{name}:/:/none\n"
GROUPS = "root:x:0:\n{name}:x:{group}:\n"
_IMPORT_ALL = """\
import os, sys
for name in sorted(os.listdir(sys.argv[1])):
    __import__(name.partition(".")[0])
"""


class BuildError(Exception):
    """The image cannot be built here, and why."""


@dataclass(frozen=True)
class Package:
    """A package as the archive's signed index describes it."""

    name: str
    file: str
    sha256: str


def fetch_packages(names: list[str], folder: Path) -> list[tuple[Package, Path]]:
    """Return the newest packages of these names and their files; what *folder* lacks is fetched by apt.

    Apt verifies the index by the archive's signature, and the files by the index. An index that is missing or old is
    fetched, by root alone.
    """
    if shutil.which("apt-get") is None:
        raise BuildError("no apt-get here; use the Containerfile, which needs only a container engine")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _fetch(names, folder)
    except BuildError:
        if os.geteuid() != 0:
            raise
    _apt("update")
    return _fetch(names, folder)


def _fetch(names: list[str], folder: Path) -> list[tuple[Package, Path]]:
    lines = [
        line.split() for line in _apt("--print-uris", "download", *names).splitlines() if line[:1] == "'"
    ]
    packages = sorted(
        (Package(file.partition("_")[0], file, hash_.removeprefix("SHA256:")) for _, file, _, hash_ in lines),
        key=lambda package: package.name,
    )
    absent = [package.name for package in packages if not (folder / package.file).exists()]
    if absent:
        _apt("-o", "APT::Sandbox::User=root", "download", *absent, folder=folder)
    return [(package, folder / package.file) for package in packages]


def _apt(*words: str, folder: Path | None = None) -> str:
    done = subprocess.run(["apt-get", "-q", *words], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        raise BuildError(f"apt does not have the packages of Debian 12: {done.stderr.strip()}")
    return done.stdout


def read_control(package: Path) -> dict[str, str]:
    """Return the fields of a package, without the lines that continue one."""
    text = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True).stdout
    lines = [line.partition(": ") for line in text.splitlines() if not line.startswith(" ")]
    return {name: value for name, _, value in lines}


def make_root(root: Path, packages: list[Path], name: str, user: int, group: int) -> None:
    """Unpack the packages into *root*, and leave what is needed."""
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    _merge(root)
    _join_authorities(root)
    for pattern in DROPPED:
        for path in root.glob(pattern):
            _remove(path)
    _keep_licences(root / "usr/share/doc")
    for folder in EMPTY_FOLDERS:
        (root / folder).mkdir(exist_ok=True)
    for folder in ("boot", "home", "media", "mnt", "opt", "root", "srv"):
        _remove(root / folder)
    for path in (root / "run").iterdir():
        _remove(path)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(USERS.format(name=name, user=user, group=group))
    (root / "etc/group").write_text(GROUPS.format(name=name, group=group))
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    _describe_packages(root, packages)
    compile_modules(root, root)
    _check_modules(root)


def _merge(root: Path) -> None:
    """Put what Debian's packages still have in /lib and the like below /usr, with links in their places."""
    for name in MERGED:
        old, new = root / name, root / "usr" / name
        new.mkdir(parents=True, exist_ok=True)
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)
        old.symlink_to(f"usr/{name}")


def _join_authorities(root: Path) -> None:
    folder = root / "usr/share/ca-certificates"
    texts = [path.read_bytes().rstrip(b"\n") + b"\n" for path in sorted(folder.rglob("*.crt"))]
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(texts))
    shutil.rmtree(folder)


def _keep_licences(docs: Path) -> None:
    for package in docs.iterdir():
        for path in list(package.iterdir()) if package.is_dir() and not package.is_symlink() else ():
            if path.name != "copyright":
                _remove(path)


def _describe_packages(root: Path, packages: list[Path]) -> None:
    """Write where scanners look for the packages of an image without dpkg."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    for package in packages:
        text = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, check=True).stdout
        (folder / package.name.partition("_")[0]).write_bytes(text)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def compile_modules(root: Path, folder: Path) -> None:
    """Compile the modules below *folder* by the image's Python; their sources' times do not matter."""
    compile_with(_python_of(root), folder, PYTHONHOME=str(root / "usr"))


def compile_with(python: list[str], folder: Path, **environ: str) -> None:
    """Compile by another Python of the same version."""
    words = ["-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    # As if the folder were the image's root.
    _run([*python, "-S", "-B", *words, "-s", str(folder), "-p", "/", str(folder)], environ)


def _check_modules(root: Path) -> None:
    """Import every module that is a shared object: a library that is missing shows."""
    words = [*_python_of(root), "-S", "-B", "-c", _IMPORT_ALL, str(root / LIBRARY / "lib-dynload")]
    _run(words, {"PYTHONHOME": str(root / "usr")})


def _python_of(root: Path) -> list[str]:
    """Return the image's Python, with the image's libraries, as a command that needs no root."""
    libraries = root / "usr/lib" / f"{platform.machine()}-linux-gnu"
    (loader,) = libraries.glob("ld-linux-*.so.*")
    return [str(loader), "--library-path", str(libraries), str(root / "usr/bin" / f"python{VERSION}")]


def _run(words: list[str], environ: dict[str, str]) -> None:
    # Sets of constants are stored in the order of their hashes.
    fixed = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": os.defpath}
    done = subprocess.run(words, env=fixed | environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"the image's Python fails: {(done.stderr or done.stdout).strip()}")
