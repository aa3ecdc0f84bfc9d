#!/bin/sh
# Test the wheel in dist/, not the sources: install it into an environment of its own and run every test there.
set -eu
venv=.cache/wheel
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    $("${PYTHON:-python3}" tools/dev_requirements.py) dist/keyferry-*.whl
"$venv/bin/python" -I -c 'import keyferry; assert "site-packages" in keyferry.__file__, keyferry.__file__'
# More workers than cores: much of the time is spent waiting for other programs.
exec "$venv/bin/python" -m pytest -n "${WORKERS:-4}" --dist worksteal "$@"
