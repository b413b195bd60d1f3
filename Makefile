# `make` lists what there is to do. Everything happens in .venv, which `make setup` makes.

# The Python to make .venv with; the package is tested on 3.11.
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
TORCH := $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Without bytecode every command compiles all of DVC again; without the current folder on its path
# `python -m stages.X` would not run the code that lies there.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONSAFEPATH
# Packages that pip would find in local folders (a small CPU build of torch, say) uv finds too.
comma := ,
space := $(subst ,, )
export UV_FIND_LINKS := $(or $(UV_FIND_LINKS),$(subst $(space),$(comma),$(strip $(PIP_FIND_LINKS))))

.PHONY: help setup repro test lint format bench
.DEFAULT_GOAL := help

help:
	@echo "make setup   install everything into .venv (Python 3.11 to 3.13, Linux)"
	@echo "make repro   play, branch, train and evaluate: run what is not up to date, then say what was made"
	@echo "make test    all tests"
	@echo "make lint    ruff and mypy"
	@echo "make format  let ruff format the code"
	@echo "make bench   measure against the plain libraries, one table each"

setup: .venv/.complete

define CHECK_MACHINE
import platform, sys
def refuse(text):
    sys.exit("make setup: " + text)
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    refuse("Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is " + platform.python_version()
           + ". Say which to use: make setup PYTHON=/path/to/python3.11")
if sys.platform != "linux":
    refuse("Linux is needed (NLE has no ready-made package for " + platform.system() + "); a Linux container does")
if platform.machine() not in ("x86_64", "aarch64"):
    refuse("an x86-64 or aarch64 processor is needed, this is " + platform.machine())
try:
    import ensurepip, venv
except ImportError:
    refuse("$(PYTHON) cannot make virtual environments; on Debian and Ubuntu install python3-venv")
endef
export CHECK_MACHINE

# .venv/.unfinished is there while the set-up runs: one that was killed starts anew. torch goes first, with the
# requirements that its build for this machine has (CPU or CUDA); the lock knows the exact versions of all the rest.
.venv/.complete: requirements.lock pyproject.toml
	@$(PYTHON) -c "$$CHECK_MACHINE"
	@rm -f $@
	@if test -e .venv/.unfinished || ! test -x .venv/bin/python; then rm -rf .venv; fi
	@test -d .venv || { echo "Making .venv with $(PYTHON)"; mkdir .venv && touch .venv/.unfinished && $(PYTHON) -m venv .venv; }
	@touch .venv/.unfinished
	.venv/bin/python -m pip install --quiet uv
	uv pip install --python .venv/bin/python --compile-bytecode $(TORCH)
	uv pip install --python .venv/bin/python --compile-bytecode --no-deps -r requirements.lock
	.venv/bin/python -m nethack_pipe.native.build
	@rm .venv/.unfinished
	@touch $@

repro: setup
	dvc repro
	@python -m nethack_pipe.summary

test: setup
	python -m pytest -n 2 --dist worksteal

lint: setup
	ruff check .
	ruff format --check .
	mypy

format: setup
	ruff check --fix .
	ruff format .

bench: setup
	@for file in bench/[!_]*.py; do name=$$(basename $$file .py); echo "== bench.$$name"; python -m bench.$$name || exit 1; done
