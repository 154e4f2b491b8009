# Every target sets itself up: a .venv with the newest supported Python on this machine.
# PYTHON=/path/to/python picks another; JAX_PIN='jax==0.10.2' pins a version.
VENV ?= .venv
PYTHON ?= $(shell scripts/find-python)
EXTRAS ?= dev,dryrun
RUN := $(VENV)/bin/python

# XLA on CPU faults in the pages of its large outputs on every call; keep them instead. Not in one
# arena, although that is best for one thread: eight devices wait for its lock (docs/design/0005).
MALLOC := MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000

# With the plug-in to compile for GPUs and no driver, JAX would log a traceback and go on with the CPU.
ifeq ($(wildcard /dev/nvidiactl /dev/dxg),)
export JAX_SKIP_CUDA_CONSTRAINTS_CHECK ?= 1
endif

.PHONY: train test lint bench reliability clean
.DEFAULT_GOAL := test

train: $(VENV)/.installed  ## Train the MoE language model; ARGS="--steps 20 --check"
	$(MALLOC) $(RUN) examples/train_moe.py $(ARGS)

test: $(VENV)/.installed  ## Format, lint, contracts, types, tests, examples
	$(MALLOC) VENV=$(VENV) scripts/check $(ARGS)

lint: $(VENV)/.installed  ## The part of `test` that runs no code
	VENV=$(VENV) scripts/check lint

bench: $(VENV)/.installed-bench  ## Every benchmark against its peers; results in bench-results/
	$(MALLOC) VENV=$(VENV) scripts/bench $(ARGS)

reliability: $(VENV)/.installed  ## The long fuzz and fault counts; writes docs/reliability.md
	$(MALLOC) $(RUN) -m tests.reliability --long

$(VENV)/.installed: pyproject.toml scripts/find-python
	PYTHON='$(PYTHON)' VENV=$(VENV) JAX_PIN='$(JAX_PIN)' scripts/install '$(EXTRAS)'
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	PYTHON='$(PYTHON)' VENV=$(VENV) JAX_PIN='$(JAX_PIN)' scripts/install '$(EXTRAS),bench'
	touch $@

clean:
	rm -rf $(VENV) .venvs runs bench-results
