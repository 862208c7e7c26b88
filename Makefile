# Two commands do everything on a fresh machine: `make bundle` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# As many processes as cores, four at most: each imports PyTorch. A file's tests stay together, and with them what they share.
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Without its notice about the next MkDocs.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
LOCK := requirements/build.txt
BUNDLE := dist/all-MiniLM-L6-v2-linux-x86-min

.PHONY: bundle lock test test-all fuzz prepared checked fetched lint docs docs-serve clean gpu-kit test-gpu

bundle: $(VENV)/.installed
	$(BIN)/edgepack bundle --target linux-x86-min --force
	$(BUNDLE)/embed --similarity "A man is eating food." "Someone is having a meal."

test: prepared
	$(PYTEST)

# Also what takes minutes, compiles other kinds of runtimes or for browsers, or fetches NVIDIA's wheels: hours on a new machine.
test-all: prepared
	$(PYTEST) --slow --kinds --web --gpu-wheels --fuzz 10000

# Mutated inputs for all that reads what strangers wrote, SECONDS for each parser (docs/security.md).
fuzz: prepared
	$(BIN)/python -m tests.fuzz.native $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.plans $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.readers $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.requests $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.models $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.pickles $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.outputs $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.answers $(or $(SECONDS),3600)
	$(BIN)/python -m tests.fuzz.further_models $(or $(SECONDS),3600)

# What needs no test, beside what has to be fetched for them.
prepared: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target checked fetched

checked:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The second to the fifth are emulators and wine, of pinned Debian packages: where these have moved on, their tests are skipped and say so.
# The next two are bundlers, Deno and TypeScript from npm, and a browser from apt where root may: for the tests of the page. The last is
# bubblewrap, for the tests of the sandbox.
fetched:
	$(BIN)/edgepack fetch --target linux-x86-min
	-$(BIN)/edgepack fetch --target linux-arm64-min
	-$(BIN)/edgepack fetch --target linux-armv7-min
	-$(BIN)/edgepack fetch --target linux-riscv64-min
	-$(BIN)/edgepack fetch --target windows-x64-static
	$(BIN)/edgepack fetch --target web-wasm --set runtime=stock --set webgpu=true
	-$(BIN)/python -m tests.support.npm_tools
	-$(BIN)/python -m tests.support.chromium
	-$(BIN)/python -m tests.support.bubblewrap

# The docs site, into site/; a link or heading that is not there is an error.
docs: $(VENV)/.installed-dev
	$(MKDOCS) build --strict

docs-serve: $(VENV)/.installed-dev
	$(MKDOCS) serve

# What a machine with a GPU and no network needs, and the checks to run there (docs/gpu.md).
gpu-kit: $(VENV)/.installed
	$(BIN)/python benchmarks/gpu_kit.py

test-gpu:
	$(PYTHON) benchmarks/gpu_check.py dist/gpu-kit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

# What ends up on devices, or decides about bytes there, is installed by its digests; tests and their judges are not.
$(VENV)/.installed: pyproject.toml $(LOCK) | $(VENV)/bin/pip
	$(PIP) install --require-hashes --requirement $(LOCK)
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --no-build-isolation --editable '.[build,web,docs,dev]'
	touch $@

# The newest versions that pyproject.toml allows, for every Python and machine, with the digests of the index's files.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip --disable-pip-version-check --quiet install uv
	build/lock/bin/uv --no-config pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-emit-index-url --no-annotate --custom-compile-command 'make lock' --quiet --output-file $(LOCK)

clean:
	rm -rf $(VENV) build dist site
