#!/bin/sh
# Test the wheel in dist/, not the sources: install it into an environment of its own and run every test there.
set -eu
venv=.cache/wheel
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    $("${PYTHON:-python3}" tools/requirements.py dev) dist/keyferry-*.whl
"$venv/bin/python" -I -c 'import keyferry; assert "site-packages" in keyferry.__file__, keyferry.__file__'
# Pytest rewrites the asserts of every test file. Done before the workers start, it is done once, not by each of them.
rewrite() {
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m pytest --collect-only -q "$@" > /dev/null
}
if [ $# -eq 0 ]; then
    rewrite tests/unit &
    rewrite tests --ignore=tests/unit || true  # what is wrong with a file is told by the run itself
    wait
fi
# More workers than cores: much of the time is spent waiting for other programs.
exec "$venv/bin/python" -m pytest -n "${WORKERS:-4}" --dist worksteal "$@"
