# Two commands do everything on a fresh machine: `make bundle` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported, not all of them beforehand: that is half of the time.
PIP := $(BIN)/pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-compile
# Where Python is told to write no bytecode, each of the hundreds of processes that tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
# One more process than cores (tests/conftest.py). A file's tests stay together, and with them what they share; tests/durations.txt says which begin.
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Kept beside the other caches, for it is valid in every clone: without it the types alone take a minute and a half.
MYPY := $(BIN)/mypy --cache-dir $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/edgepack-mypy
# Without its notice about the next MkDocs.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
LOCK := requirements/build.txt
BUNDLE := dist/all-MiniLM-L6-v2-linux-x86-min

.PHONY: bundle lock test test-judges test-all test-changed durations compile_commands fuzz checked collected fetched fetched-all lint docs docs-serve distributions clean gpu-kit test-gpu

bundle: $(VENV)/.installed
	$(BIN)/edgepack bundle --target linux-x86-min --force
	$(BUNDLE)/embed --similarity "A man is eating food." "Someone is having a meal."

# Lint, types, and what tells a mistake within minutes: no PyTorch, few bundles, this processor alone.
test: $(VENV)/.installed-test
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target checked fetched collected
	$(PYTEST)

# What independent implementations say: of vectors (and whether what is recorded of them still holds), clients, signatures.
test-judges: $(VENV)/.installed-judges fetched
	$(PYTEST) --override-ini 'python_files=judge_*.py'

# All there is: also other processors, wine, browsers, other kinds of runtimes, NVIDIA's wheels; hours on a new machine.
test-all: $(VENV)/.installed-judges checked fetched-all
	$(PYTEST) --override-ini 'python_files=test_*.py judge_*.py' --slow --kinds --web --gpu-wheels --fuzz 10000

# The tests that a change can matter to, but for whole bundles: since COMMIT, or since the last one.
test-changed: $(VENV)/.installed-test
	$(PYTEST) $$($(BIN)/python -m tests.support.changed $(or $(COMMIT),HEAD))

# What editors and clang-tidy open the C++ of the program with.
compile_commands: $(VENV)/.installed-test
	$(BIN)/python -m tests.support.compile_commands

# Writes what each file of `make test` takes of processor time into tests/durations.txt.
durations: $(VENV)/.installed-test fetched
	$(PYTEST) --record-durations

# Mutated inputs for all that reads what strangers wrote, SECONDS for each parser (docs/security.md).
fuzz: $(VENV)/.installed-test fetched
	$(BIN)/python -m tests.fuzz $(or $(SECONDS),3600)

# What needs no test.
checked: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MYPY)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .

# In a new clone the tests are compiled here, once and beside the types; else each test process compiles all of them for itself.
# What is wrong with one is said by the run.
collected: $(VENV)/.installed-test
	@$(BIN)/pytest --collect-only --quiet --quiet > /dev/null 2>&1 || :

# What the tests are not to fetch themselves.
fetched: $(VENV)/.installed-test
	$(BIN)/edgepack fetch --target linux-x86-min
	$(BIN)/edgepack fetch --target web-wasm --set runtime=stock

# The first four are emulators and wine, of pinned Debian packages: where these have moved on, their tests are skipped and say so.
# The next two are bundlers, Deno and TypeScript from npm, and a browser from apt where root may: for the tests of the page. Then there are
# bubblewrap, for the tests of the sandbox, and OpenSSH's server, adb and proot from apt where root may, for those of devices.
fetched-all: fetched
	$(BIN)/edgepack fetch --target web-wasm --set runtime=stock --set webgpu=true
	-$(BIN)/edgepack fetch --target linux-arm64-min
	-$(BIN)/edgepack fetch --target linux-armv7-min
	-$(BIN)/edgepack fetch --target linux-riscv64-min
	-$(BIN)/edgepack fetch --target windows-x64-static
	-$(BIN)/python -m tests.support.npm_tools
	-$(BIN)/python -m tests.support.browsers
	-$(BIN)/python -m tests.support.bubblewrap
	-$(BIN)/python -m tests.support.device_tools

# The docs site, into site/; a link or heading that is not there is an error.
docs: $(VENV)/.installed-test
	$(MKDOCS) build --strict

docs-serve: $(VENV)/.installed-test
	$(MKDOCS) serve

# What a release has: a wheel, and a source distribution that can be tested.
distributions: $(VENV)/.installed
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist")'

# What a machine with a GPU and no network needs, and the checks to run there (docs/gpu.md).
gpu-kit: $(VENV)/.installed
	$(BIN)/python benchmarks/gpu_kit.py
	PYTHONPATH=. $(BIN)/python benchmarks/gpu_kit.py --families

test-gpu:
	$(PYTHON) benchmarks/gpu_check.py dist/gpu-kit

lint: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(MYPY)

$(VENV)/bin/pip:
	@PYTHONPATH=src $(PYTHON) -c 'import edgepack, sys; sys.exit("\nhint: ".join(edgepack.wrong_python() or ()) or 0)'
	$(PYTHON) -m venv $(VENV)

# What ends up on devices, or decides about bytes there, is installed by its digests; tests and their judges are not.
$(VENV)/.installed: pyproject.toml $(LOCK) | $(VENV)/bin/pip
	$(INSTALL) --require-hashes --requirement $(LOCK)
	PYTHONWARNINGS=ignore $(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) --no-build-isolation --editable '.[build,web,docs,test]'
	touch $@

$(VENV)/.installed-judges: $(VENV)/.installed-test
	$(INSTALL) --no-build-isolation --editable '.[judges]'
	touch $@

# The newest versions that pyproject.toml allows, for every Python and machine, with the digests of the index's files.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip --disable-pip-version-check --quiet install uv
	build/lock/bin/uv --no-config pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-emit-index-url --no-annotate --custom-compile-command 'make lock' --quiet --output-file $(LOCK)

clean:
	rm -rf $(VENV) build dist site
