# Each target works in a fresh clone: scripts/setup makes .venv and installs, once per change of the files named below.
PYTHON_IN_VENV := .venv/bin/python
# Most tests wait for processes: four at a time keep two cores busy. One that crashes ends the run, which would else hang.
# Files go in the order of tests/conftest.py.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
PEERS := $(patsubst scripts/peers/%.txt,.peers/%/list.stamp,$(wildcard scripts/peers/*.txt))
ONLY_FULL := $(patsubst %,.peers/%/list.stamp,arrays art envpool gymnasium11 gymnasium12 gymnasium13 jax rllib verl)
SOAK := kills servers disk sessions fleets
# Hundreds of tests start a process, which would compile all of paddock from its source each time.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: run quick test test-peers test-full soak hostile check bench clean

run: .venv/base.stamp  ## the tour of the product
	.venv/bin/paddock demo

quick: .venv/dev.stamp  ## the tests that start no process and count no high numbers
	$(PYTHON_IN_VENV) -m pytest -n auto --maxprocesses 4 --dist loadfile -m "not process and not slow and not peers and not full and not soak"

test: .venv/dev.stamp  ## everything that needs no other package's venv
	$(PYTHON_IN_VENV) -m pytest $(SIDE_BY_SIDE)

test-peers: .venv/dev.stamp  ## against other packages, each in a venv of its own
	$(MAKE) --jobs 3 $(filter-out $(ONLY_FULL),$(PEERS))
	$(PYTHON_IN_VENV) -m pytest $(SIDE_BY_SIDE) -m "peers and not full and not soak"

test-full: .venv/dev.stamp $(PEERS)  ## all of these, and the long counts marked `full`
	$(PYTHON_IN_VENV) -m pytest $(SIDE_BY_SIDE) -m "not soak"

soak: .venv/dev.stamp  ## what takes longer still: all parts, or `make soak PART=kills`
	$(if $(filter-out $(SOAK),$(PART)),$(error There is no part '$(PART)'. There are: $(SOAK)))
	$(PYTHON_IN_VENV) -m pytest -s --durations=0 -o faulthandler_timeout=0 -m "soak$(if $(PART),(part='$(PART)'))"

hostile: .venv/dev.stamp  ## the whole catalogue of attacks, on every wall of this machine
	PADDOCK_WALLS=needed $(PYTHON_IN_VENV) -m pytest $(SIDE_BY_SIDE) -m "not soak" tests/hostile

check: .venv/dev.stamp
	$(PYTHON_IN_VENV) -m ruff check .
	$(PYTHON_IN_VENV) -m ruff format --check .
	$(PYTHON_IN_VENV) -m mypy

bench: .venv/bench.stamp
	scripts/bench $(PYTHON_IN_VENV)

clean:
	rm -rf .venv .peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/%.stamp: pyproject.toml scripts/setup scripts/system-packages.txt
	scripts/setup $*

# What the tests compare with, each in a venv of its own.
.peers/%/list.stamp: scripts/peers/%.txt
	scripts/peer $* >/dev/null
