#!/bin/sh
# Build one executable of keyferry, with Python and all libraries: build.sh FILE
# PyInstaller, staticx and patchelf are in PATH, of an environment that has keyferry; staticx also needs a C library for
# the loader: that of this machine, whose programs the executable then needs nothing of.
set -eu
work=.cache/binary/work
log=.cache/binary/log
export PYINSTALLER_CONFIG_DIR="$PWD/.cache/binary/kept"
here=$(dirname "$0")
{
    pyinstaller --noconfirm --distpath "$work/made" --workpath "$work" "$here/keyferry.spec" &&
        staticx --strip "$work/made/keyferry" "$work/static"
} > "$log" 2>&1 || { tail -30 "$log" >&2; exit 1; }
install -m 755 "$work/static" "$1"
# Nothing of this environment is needed.
env -i "$1" --version
echo "$1: $(($(stat -c %s "$1") / 1000000)) MB"
