# Two commands do everything on a fresh machine: `make bundle` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
BUNDLE := dist/all-MiniLM-L6-v2-linux-x86-min

.PHONY: bundle test lint clean gpu-kit test-gpu

bundle: $(VENV)/.installed
	$(BIN)/edgepack bundle --target linux-x86-min --force
	$(BUNDLE)/embed --similarity "A man is eating food." "Someone is having a meal."

# The second fetch is for an emulator, of pinned Debian packages: where these have moved on, its tests are skipped and say so.
# The last two are bundlers, Deno and TypeScript from npm, and a browser from apt where root may: for the tests of the page.
test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/edgepack fetch --target linux-x86-min
	-$(BIN)/edgepack fetch --target linux-arm64-min
	$(BIN)/edgepack fetch --target web-wasm --set runtime=stock --set webgpu=true
	-$(BIN)/python -m tests.support.npm_tools
	-$(BIN)/python -m tests.support.chromium
	$(BIN)/pytest -r s

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

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/pip
	$(PIP) install --editable '.[foundry]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/pip
	$(PIP) install --editable '.[foundry,web,dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist
