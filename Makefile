# SPDX-License-Identifier: Apache-2.0
# For a machine without ROS; with ROS 2 use colcon and ros2 launch.
PYTHON ?= python3
.DEFAULT_GOAL := help
.PHONY: help setup demo test bench faults soak clean

help:
	@echo 'make demo    run one simulated pick-and-place cycle'
	@echo '             METHOD=ik|resolved_rate|gradient|all  START="x y yaw"  TARGET="x y yaw"  RTF=…  SEED=…'
	@echo '             WALL=0.35 puts a wall of that height [m] between start and target'
	@echo '             (centre of the cube on the table in base_link, metres and degrees)'
	@echo 'make test    run linter and all tests'
	@echo 'make bench   compare speed with other packages'
	@echo 'make faults  inject every fault in every stage, all methods (1 h on one core; METHOD=ik for one method)'
	@echo '             NODES=1 with the real nodes (a night), RTF=…  JOBS=… or DASK=… as below'
	@echo 'make soak    N=100 cycles over random spots, a random fault in every third; SEED=… METHOD=…'
	@echo '             NODES=1 with the real nodes, RTF=…'
	@echo '             both run on all cores: JOBS=1 for one, DASK=tcp://scheduler:8786 for a cluster'
	@echo 'make setup   create the virtual environment (PYTHON=python3.12 to choose the interpreter)'
	@echo 'make clean   remove everything that was built; keeps out/'

setup:
	@$(PYTHON) underlay/make_venv.py

export METHOD START TARGET RTF SEED N WALL JOBS DASK
demo: setup
	@exec .venv/bin/demo $(if $(METHOD),--method "$$METHOD") $(if $(START),--start "$$START") \
	  $(if $(TARGET),--target "$$TARGET") $(if $(RTF),--rtf "$$RTF") $(if $(SEED),--seed "$$SEED") \
	  $(if $(WALL),--wall "$$WALL")

test: setup
	.venv/bin/ruff check --config .ci/ruff.toml
	.venv/bin/mypy
	.venv/bin/python -m pytest -m 'not nodes' --numprocesses 2 --dist worksteal
	.venv/bin/python -m pytest -m nodes

# Packages that cannot be installed are reported and skipped.
bench: setup
	@grep -v '^#' underlay/requirements-bench.txt | \
	  xargs -n 1 .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps || true
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python bench

faults: setup
	@exec .venv/bin/faults $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(METHOD),--method "$$METHOD") $(if $(JOBS),--jobs "$$JOBS")

soak: setup
	@exec .venv/bin/soak --faults $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(N),-n "$$N") $(if $(SEED),--seed "$$SEED") $(if $(METHOD),--method "$$METHOD") \
	  $(if $(JOBS),--jobs "$$JOBS")

clean:
	rm -rf .venv build install log *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
