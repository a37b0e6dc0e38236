# Two commands on a fresh machine with python3 (3.11 or newer), pip and make:
#   make reproduce    the papers' numbers, each beside the measured one, as a table and an HTML page
#   make test         the test suite
PYTHON ?= python3
VENV ?= .venv
OUT ?= farfield-results/implicit-bias
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: setup reproduce numbers test test-slow test-browser stress test-reference lint format bench docs encodings failure settings lock clean help

setup: $(READY) ## the environment alone

reproduce: $(READY) ## train every head of the paper, the transformer for fewer steps, and judge each number
	$(BIN)/farfield reproduce implicit-bias --out $(OUT)

test: $(READY) ## the test suite
	$(BIN)/pytest -n auto --dist loadfile

test-slow: $(READY) ## the longer checks: kills at random moments, a cluster, the reproduction
	$(BIN)/pytest -m slow

test-browser: $(READY) ## the report in headless Chromium, the machine's or that of `playwright install chromium`
	$(BIN)/pip install --quiet --no-build-isolation --editable '.[browser]'
	$(BIN)/pytest tests/reporting/test_study_page_browser.py

stress: $(READY) ## studies killed, starved of disk, run twice at once, on a cluster whose workers die; with figures
	$(BIN)/pytest -m slow -s tests/stress/test_stress.py

test-reference: .hf-venv/.ready ## formulas against transformers, in an environment with torch
	.hf-venv/bin/pytest tests/reference/test_reference_rotary.py tests/reference/test_reference_bias.py

lint: $(READY) ## style, formatting, types and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo --cache-dir $(VENV)/.import_linter_cache

format: $(READY) ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) .bench-venv/.ready ## farfield against a plain PyTorch script, in one run
	$(BIN)/python benchmarks/speed.py --torch-python .bench-venv/bin/python

docs: reproduce ## draw the README's picture again
	mkdir -p docs/images
	cp $(OUT)/figures/figure1.png docs/images/figure1.png

numbers: $(READY) ## train the transformer whole too (half an hour more) and write docs/implicit-bias.md
	$(BIN)/farfield reproduce implicit-bias --budget full --out $(OUT)-full
	$(BIN)/python docs/numbers_table.py $(OUT)-full/verdicts.json

encodings: $(READY) ## train every encoding on four rules and write docs/encodings.md (about fifteen minutes)
	$(BIN)/python docs/encodings_table.py

failure: $(READY) ## train six encodings on three offsets and write docs/failure.md with its picture (three minutes)
	$(BIN)/python docs/failure_table.py

settings: $(READY) ## write docs/settings.md, the tables of settings and measures, from the code
	$(BIN)/python docs/settings_table.py

lock: $(READY) ## write requirements.lock again from pyproject.toml
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	  --output-file requirements.lock pyproject.toml requirements.in

clean: ## remove the environments and caches, not the results
	rm -rf $(VENV) .bench-venv .hf-venv .pytest_cache .ruff_cache .hypothesis

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.hf-venv/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .hf-venv
	.hf-venv/bin/pip install --quiet --require-hashes -r requirements.lock
	.hf-venv/bin/pip install --quiet --no-build-isolation --editable '.[hf]'
	touch $@

.bench-venv/.ready: benchmarks/requirements.txt
	$(PYTHON) -m venv .bench-venv
	.bench-venv/bin/pip install --quiet -r benchmarks/requirements.txt
	touch $@
