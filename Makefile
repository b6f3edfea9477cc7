# SPDX-License-Identifier: Apache-2.0
# For a machine without ROS; with ROS 2 use colcon and ros2 launch.
PYTHON ?= python3
.DEFAULT_GOAL := help
.PHONY: help setup demo test bench faults soak clean

help:
	@echo 'make demo    the arm picks up the cube and puts it down, in simulation'
	@echo '             METHOD=ik|resolved_rate|gradient|all  START="x y yaw"  TARGET="x y yaw"  RTF=…  SEED=…'
	@echo '             (cube on the table in base_link: metres and degrees)'
	@echo 'make test    all tests'
	@echo 'make bench   how fast, beside others'
	@echo 'make faults  every fault in every stage, all methods: a table (an hour; METHOD=ik for one);'
	@echo '             NODES=1 through the real nodes: a night; RTF=…'
	@echo 'make soak    N=100 cycles over random spots, a random fault in every third; SEED=… METHOD=…'
	@echo '             NODES=1 through the real nodes; RTF=…'
	@echo 'make setup   only what demo and test need first (PYTHON=python3.12 to choose one)'
	@echo 'make clean   forget what was built; out/ stays'

setup:
	@$(PYTHON) underlay/make_venv.py

export METHOD START TARGET RTF SEED N
demo: setup
	@exec .venv/bin/demo $(if $(METHOD),--method "$$METHOD") $(if $(START),--start "$$START") \
	  $(if $(TARGET),--target "$$TARGET") $(if $(RTF),--rtf "$$RTF") $(if $(SEED),--seed "$$SEED")

test: setup
	.venv/bin/ruff check --config .ci/ruff.toml
	.venv/bin/python -m pytest -m 'not nodes' --numprocesses 2 --dist worksteal
	.venv/bin/python -m pytest -m nodes

# What cannot be installed is named and left out.
bench: setup
	@grep -v '^#' underlay/requirements-bench.txt | \
	  xargs -n 1 .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps || true
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python bench

faults: setup
	@exec .venv/bin/faults $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(METHOD),--method "$$METHOD")

soak: setup
	@exec .venv/bin/soak --faults $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(N),-n "$$N") $(if $(SEED),--seed "$$SEED") $(if $(METHOD),--method "$$METHOD")

clean:
	rm -rf .venv build install log *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
