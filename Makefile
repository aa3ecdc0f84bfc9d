# Everything sets itself up: a fresh clone needs Python 3.11+ and make.
PYTHON ?= python3
# A Python that is named (make unit PYTHON=python3.13) has an environment of its own.
VENV := $(if $(filter command line,$(origin PYTHON)),.cache/venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'),.venv)
BIN := $(VENV)/bin
# Written by the targets that install; newer than pyproject.toml means up to date.
TOOLS := $(VENV)/.tools
SITE := .cache/docs
SITE_TOOLS := $(SITE)/.ready
APP := .cache/app
APP_READY := $(APP)/.ready
APP_PAGE_READY := $(APP)/.ready-page
# The exact versions of all that any target installs from the package index; 'make lock' updates them. pip reads the
# first variable, and from version 25.3 on the second for what builds a package.
export PIP_CONSTRAINT := $(CURDIR)/tools/lock.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
# Tests that start few programs and no servers.
QUICK := $(addprefix tests/,api conformance core images invoke lint metrics property sdk show workloads)
SOURCES := $(shell find src -name '*.py') pyproject.toml README.md

# Every target with a help text.
.PHONY: venv-module $(shell sed -nE 's/^([a-z-]+):.*##.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help:  ## what can be made here
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(if $(PAGE),$(APP_PAGE_READY),$(APP_READY))  ## the main job, on this machine, nothing else to install; PAGE=1 first runs the node agent and shows its page
	@$(APP)/bin/keyferry demo $(if $(PAGE),--page)

test: $(TOOLS)  ## every gate: lint, types, docs, and all tests against the built wheel
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint types wheel parts
	@VENV=$(VENV) sh tools/test_wheel.sh

check: lint types  ## lint, types and the tests of what differs from main, attacks included, the longest left out: two minutes for a change of one package; SINCE=HEAD~3 for another commit
	@tests=$$($(BIN)/python tools/changed_tests.py $(SINCE)) || exit 1; \
		if [ -n "$$tests" ]; then $(BIN)/python -m pytest -q -n 2 --dist worksteal $$tests; else echo "no tests to run"; fi

outputs: $(TOOLS)  ## run the commands of the pages, and write what they print now into the pages
	@WRITE_OUTPUTS=1 $(BIN)/python -m pytest -q tests/explain/test_explanations.py tests/cli/test_tutorial.py tests/pages/test_kit.py \
		tests/workloads/test_cannot_pull.py tests/explain/test_pulls_again.py
	@git diff --stat docs

parts: | venv-module  ## install the real programs that tests drive, where that is possible
	@sh tools/parts.sh

shim: .cache/shim/keyferry-shim  ## build the static shim in C for this machine into .cache/shim; CC="..." for another compiler

.cache/shim/keyferry-shim: CC = musl-gcc
.cache/shim/keyferry-shim: native/shim.c
	@mkdir -p $(@D)
	$(CC) -O2 -static -s -Wall -Wextra -Werror -o $@ $<
	@ls -l $@

image:  ## build the agent's image and the lists of its parts (SBOM) into .cache/image, and print size and digest; FRESH=1 for newer Debian packages
	@FRESH=$(FRESH) sh deploy/container/image.sh

unit: $(TOOLS)  ## the quick tests, against the sources
	$(BIN)/python -m pytest -q $(QUICK)

pythons:  ## the quick tests with every Python that is found; VERSIONS="3.13" for some
	@for version in $(or $(VERSIONS),3.11 3.12 3.13 3.14); do \
		if command -v python$$version > /dev/null; then $(MAKE) --no-print-directory unit PYTHON=python$$version || exit 1; \
		else echo "python$$version: not found, not run"; fi; \
	done

conformance: $(TOOLS)  ## Kubernetes' recorded answers; FILES="a.json b.json" for other files
	@$(BIN)/python tests/conformance/run.py $(FILES)

lint: $(TOOLS)  ## ruff, formatting included, and the spelling of the pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell *.md docs deploy

format: $(TOOLS)  ## let ruff format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(TOOLS)  ## mypy --strict on sources, tests and benchmarks
	$(BIN)/mypy

bench: $(TOOLS)  ## measure beside floors and peers and write the section Speed of docs/figures.md; GROUPS="lookups pulls" for a quick look at some
	@PYTHON=$(PYTHON) sh tools/parts.sh bench
	@$(BIN)/python bench/run.py $(if $(GROUPS),--quick $(GROUPS))

load: $(TOOLS)  ## 2,000 requests a second to the agent for a minute; then reloads, take-overs and kill -9 under load. SECONDS=10 for a quick look
	@$(BIN)/python bench/agent_load.py $(SECONDS)

fleet: $(TOOLS)  ## simulate 1,000 to 100,000 nodes and write the tables and pictures of the fleet in docs/figures.md; some minutes. NODES="500" prints tables for other numbers
	@$(BIN)/python bench/fleet.py $(NODES)

fuzz: .cache/fuzz/.ready  ## look for bytes that a reader does not survive, for MINUTES=1 in all; TARGET="response url" for some, KEEP=1 lets tests/fuzz/corpus grow
	@.cache/fuzz/bin/python tools/run_fuzz.py --minutes $(or $(MINUTES),1) --target "$(TARGET)" $(if $(KEEP),--keep)

.cache/fuzz/.ready: pyproject.toml tools/lock.txt | venv-module
	@mkdir -p .cache
	$(PYTHON) -m venv .cache/fuzz
	.cache/fuzz/bin/python -m pip install --quiet --disable-pip-version-check '.[agent,crypto]' \
		$$($(PYTHON) tools/requirements.py fuzz)
	.cache/fuzz/bin/python -m pip uninstall --quiet --yes keyferry
	@touch $@

mutants: $(TOOLS)  ## change a module in small ways and see whether the tests notice: MODULES="keyferry/agent/access", TESTS="tests/attacks/test_page.py" in place of those that make check runs, MINUTES=30
	@$(BIN)/python tools/mutants.py --minutes $(or $(MINUTES),120) --tests "$(TESTS)" $(MODULES)

soak: $(TOOLS)  ## mixed use for an hour; writes the section Soak of docs/figures.md. MINUTES=5 for a shorter one, which writes into .cache/soak alone
	@$(BIN)/python bench/soak.py $(if $(MINUTES),--minutes $(MINUTES))

faults: $(TOOLS)  ## let things go wrong on purpose, and write the section Faults of docs/figures.md
	@$(BIN)/python -m pytest -q --write-faults tests/faults --deselect tests/faults/test_table.py

docs: generated $(SITE_TOOLS)  ## write the generated parts and build the docs as a site that works offline, with search, into .cache/site; check links and anchors
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict
	@cp $(SITE)/node_modules/iframe-worker/shim/index.js .cache/site/site/iframe-worker.js 2>/dev/null \
		|| echo "npm did not install iframe-worker: the search needs a server, such as python3 -m http.server -d .cache/site"
	@echo "open .cache/site/index.html"

generated: $(TOOLS)  ## write the generated parts of the docs alone: references, codes, help texts, the README's figures
	$(BIN)/python tools/generate_docs.py

pictures: $(TOOLS)  ## make docs/pictures again: a terminal from a real run and the agent's page, with Chromium
	@$(BIN)/python tools/terminal_picture.py
	$(BIN)/python tools/page_pictures.py

wheel: $(TOOLS)  ## build the wheel into dist/
	@rm -f dist/keyferry-*.whl
	$(BIN)/python -m build --wheel --outdir dist . > .cache/build.log 2>&1 || (cat .cache/build.log; exit 1)
	@ls dist/keyferry-*.whl

pyz: $(APP_READY)  ## build dist/keyferry.pyz: the whole command in one file, for any Python 3.11 or later
	@$(APP)/bin/python tools/build_zipapp.py keyferry dist/keyferry.pyz

binary: .cache/binary/.ready  ## build dist/keyferry.x86_64, or .aarch64: one executable for Linux machines without Python
	@mkdir -p dist
	@PATH="$(CURDIR)/.cache/binary/bin:$$PATH" sh tools/binary/build.sh dist/keyferry.$$(uname -m)

.cache/binary/.ready: $(SOURCES) tools/lock.txt | venv-module
	@mkdir -p .cache
	@$(PYTHON) -m venv .cache/binary
	@.cache/binary/bin/python -m pip install --quiet --disable-pip-version-check '.[cri,on-node]' \
		$$($(PYTHON) tools/requirements.py binary)
	@touch $@

zipapp: | venv-module  ## build dist/keyferry-plugins.pyz: all plugins in one file, for nodes without pip
	@$(PYTHON) tools/build_zipapp.py plugins dist/keyferry-plugins.pyz

packages: .cache/packages/.ready  ## build all packages into dist/: wheel, sdist, zipapps and the static shims, with a list of parts (SBOM) and SHA256SUMS
	@rm -rf dist
	@PYTHON=$(PYTHON) sh tools/parts.sh zig
	@.cache/packages/bin/python tools/build_packages.py dist

.cache/packages/.ready: pyproject.toml tools/lock.txt | venv-module
	@mkdir -p .cache
	@$(PYTHON) -m venv .cache/packages
	@.cache/packages/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) tools/requirements.py packages)
	@touch $@

release-check: $(TOOLS)  ## walk through all that must hold before a release; STEPS="tree version" for some
	@PYTHON=$(PYTHON) $(BIN)/python tools/release_check.py $(STEPS)

fresh:  ## run 'make demo' and 'make test' on fresh Debian systems, as root and as a user; an hour or more. SUITES="bookworm", USERS="user", TARGETS="demo" for less
	@sh tools/fresh.sh $(SUITES)

lock: | venv-module  ## update tools/lock.txt, the exact versions of all tools; NAMES="mypy ruff" for some
	@mkdir -p .cache
	@PYTHON=$(PYTHON) sh tools/lock.sh $(NAMES)

clean:  ## remove everything that was made
	rm -rf $(VENV) .cache dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

venv-module:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is not Python 3.11 or later: name one with PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments: install python3-venv (apt-get install python3-venv)" >&2; exit 1; }

$(TOOLS): pyproject.toml tools/requirements.py tools/lock.txt | venv-module
	@mkdir -p .cache
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) tools/requirements.py dev)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(SITE_TOOLS): pyproject.toml tools/lock.txt | venv-module
	@mkdir -p .cache
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) tools/requirements.py docs)
	@! command -v npm > /dev/null || npm --prefix $(SITE) install --silent --no-audit --no-fund --no-save \
		--fetch-retries=0 --fetch-timeout=20000 iframe-worker@1.0.4 || true
	@touch $@

$(APP_READY): $(SOURCES) | venv-module
	@mkdir -p .cache
	@$(PYTHON) -m venv $(APP)
	@$(APP)/bin/python -m pip install --quiet --disable-pip-version-check '.[on-node]'
	@touch $@

$(APP_PAGE_READY): $(SOURCES) | venv-module
	@mkdir -p .cache
	@$(PYTHON) -m venv $(APP)
	@$(APP)/bin/python -m pip install --quiet --disable-pip-version-check '.[agent,on-node]'
	@touch $(APP_READY) $@
