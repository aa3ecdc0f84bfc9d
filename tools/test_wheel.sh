#!/bin/sh
# Test the wheel in dist/, not the sources: install it into an environment of its own and run every test there.
set -eu
venv=.cache/wheel
tools=${VENV:-.venv}
rm -rf "$venv"
"$tools/bin/python" -m venv --without-pip "$venv"
"$tools/bin/python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check --no-deps dist/keyferry-*.whl
# What the tests need is installed once: packages of the other environment are found behind those of this one.
packages='import sysconfig; print(sysconfig.get_path("purelib"))'
"$tools/bin/python" -c "$packages" > "$("$venv/bin/python" -c "$packages")/tools.pth"
"$venv/bin/python" -I -c 'import keyferry; assert keyferry.__file__.startswith(__import__("sys").prefix), keyferry.__file__'
# Pytest rewrites the asserts of every test file. Done before the workers start, it is done once, not by each of them.
rewrite() {
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m pytest --collect-only -q "$@" > /dev/null
}
if [ $# -eq 0 ]; then
    rewrite tests/attacks tests/e2e &
    rewrite tests --ignore=tests/attacks --ignore=tests/e2e || true  # what is wrong with a file is told by the run itself
    wait
fi
# More workers than cores: much of the time is spent waiting for other programs.
exec "$venv/bin/python" -m pytest -n "${WORKERS:-4}" --dist worksteal "$@"
