#!/bin/sh
# Write tools/lock.txt: the exact version of everything that a target installs from the package index, for every Python
# that is supported. pip reads it as constraints (PIP_CONSTRAINT in the Makefile). uv resolves it, in an environment of
# its own. With names, only those are updated: lock.sh [NAME ...]. The programs in JavaScript have locks of their own,
# which npm writes, beside their package.json; their own versions are set there, by hand.
set -eu
venv=.cache/lock
[ -x "$venv/bin/uv" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
if [ $# -eq 0 ]; then
    set -- --upgrade
else
    for name; do
        shift
        set -- "$@" --upgrade-package "$name"
    done
fi
groups=$(sed -n '/^\[dependency-groups\]/,/^\[tool/s/^\([a-z]*\) = \[.*/--group \1/p' pyproject.toml)
"$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate \
    --custom-compile-command 'make lock' --all-extras $groups \
    pyproject.toml native/compiler.txt "$@" --output-file tools/lock.txt

for folder in tests/support/oidc_server tests/support/deploy_tools; do
    # The addresses of a registry are this machine's own affair.
    sh tools/parts.sh npm --prefix "$folder" install --silent --package-lock-only --omit-lockfile-registry-resolved
done
