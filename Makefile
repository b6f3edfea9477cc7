# SPDX-License-Identifier: Apache-2.0
# For a machine without ROS; with ROS 2 use colcon and ros2 launch.
# The interpreter of an existing .venv, so that one chosen for the set-up stays chosen.
PYTHON ?= $(or $(shell readlink -e .venv/bin/python),python3)
# Likewise its ROS distribution.
ROS ?= $(or $(shell cat .venv/.setup/ros 2>/dev/null),kilted)
.DEFAULT_GOAL := help
.PHONY: help setup demo cell test drills docs bench lab faults soak clean

help:
	@echo 'make demo    run one simulated pick-and-place cycle'
	@echo '             START="x y yaw"  TARGET="x y yaw"  or SEED=… for random ones'
	@echo '             (centre of the cube on the table in base_link, metres and degrees)'
	@echo '             METHOD=ik|resolved_rate|gradient|all  RTF=1 is the real-time factor'
	@echo '             UR_TYPE=ur5, or another type that docs/tutorials/robot_and_pc.md names'
	@echo '             MOUNTING=floor|wall|ceiling or roll and pitch of the base, as "0 30" [deg]'
	@echo '             WALL=0.35 puts a wall of that height [m] between start and target'
	@echo '             GRIPPER=digital|vacuum|action: fingers, a suction cup, fingers behind an action'
	@echo '             CYCLE=cycle_two_boxes.yaml: another cycle file; GRID="2 2 1" fills a pallet at target;'
	@echo '             all of these go together, in any combination'
	@echo 'make cell    the simulated cell with its page, until Ctrl-C'
	@echo '             UR_TYPE=ur5  MOUNTING=…  GRIPPER=…  RTF=1  PORT=8060  PARTS=1 (cubes)  CYCLE=cycle_tag.yaml;'
	@echo '             ROS_DOMAIN_ID as in the environment, else 0'
	@echo 'make test    run linter and all tests that fit 10 minutes on 2 cores'
	@echo 'make drills  run the other tests: deaths, floods, lost links, whole cycles (12 minutes)'
	@echo 'make docs    build the documentation, build/docs/index.html'
	@echo 'make bench   compare speed with other packages'
	@echo 'make faults  inject 27 faults in 12 stages, all methods (1 h on one core; METHOD=ik for one method)'
	@echo 'make soak    N=100 cycles over random spots, a random fault in every third; SEED=…  METHOD=…'
	@echo '             GRIPPER=vacuum or action: no faults are injected; not with NODES'
	@echo 'make faults, make soak:  UR_TYPE=…  and where they run:'
	@echo '             on all cores; JOBS=1 on one; DASK=tcp://scheduler:8786 on a cluster'
	@echo '             NODES=1 with the real nodes (all faults: a night), one cell at a time unless JOBS'
	@echo '             is given; RTF=…; not with DASK'
	@echo 'make setup   create the virtual environment (PYTHON=python3.12 to choose the interpreter;'
	@echo '             ROS=jazzy takes the wheels of Jazzy instead of Kilted; both stay chosen)'
	@echo 'make clean   remove everything that was built; keeps out/'

# A variable on the command line that a target does not take is refused, not ignored.
takes_demo := METHOD UR_TYPE MOUNTING GRIPPER START TARGET RTF SEED WALL CYCLE GRID
takes_cell := UR_TYPE MOUNTING GRIPPER RTF PORT PARTS CYCLE
takes_faults := NODES RTF UR_TYPE METHOD JOBS DASK
takes_soak := NODES RTF UR_TYPE N SEED METHOD GRIPPER JOBS DASK
$(foreach goal,$(filter demo cell faults soak,$(MAKECMDGOALS)),\
  $(foreach word,$(subst \ ,,$(MAKEOVERRIDES)),$(if $(findstring =,$(word)),\
    $(foreach name,$(filter-out PYTHON ROS SHELL $(takes_$(goal)),$(firstword $(subst =, ,$(subst :,,$(word))))),\
      $(error make $(goal) does not take $(name), only $(takes_$(goal)))))))

# Without bytecode files each node compiles all its modules at each start, and pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

setup:
	@$(PYTHON) underlay/make_venv.py $(ROS)

export METHOD UR_TYPE MOUNTING GRIPPER START TARGET RTF SEED N WALL JOBS DASK CYCLE GRID PORT PARTS
demo: setup
	@exec .venv/bin/demo $(if $(METHOD),--method "$$METHOD") $(if $(UR_TYPE),--ur-type "$$UR_TYPE") \
	  $(if $(MOUNTING),--mounting "$$MOUNTING") $(if $(START),--start "$$START") \
	  $(if $(TARGET),--target "$$TARGET") $(if $(RTF),--rtf "$$RTF") $(if $(SEED),--seed "$$SEED") \
	  $(if $(WALL),--wall "$$WALL") $(if $(GRIPPER),--gripper "$$GRIPPER") \
	  $(if $(CYCLE),--cycle "$$CYCLE") $(if $(GRID),--grid "$$GRID")

cell: setup
	@exec .venv/bin/cell $(if $(UR_TYPE),--ur-type "$$UR_TYPE") $(if $(MOUNTING),--mounting "$$MOUNTING") $(if $(RTF),--rtf "$$RTF") \
	  $(if $(GRIPPER),--gripper "$$GRIPPER") $(if $(PORT),--port "$$PORT") $(if $(PARTS),--parts "$$PARTS") \
	  $(if $(CYCLE),--cycle "$$CYCLE")

test: setup
	.venv/bin/ruff check --config .ci/ruff.toml
	$(if $(filter jazzy,$(ROS)),@echo 'mypy is left out: the rclpy of Jazzy has no types',.venv/bin/mypy)
	.venv/bin/python -m pytest -m 'not drill and not nodes' --numprocesses 2 --dist worksteal
	.venv/bin/python -m pytest -m 'not drill and nodes'

drills: setup
	.venv/bin/python -m pytest -m 'drill and not nodes' --numprocesses 2 --dist worksteal
	.venv/bin/python -m pytest -m 'drill and nodes' || \
	  { echo 'repeating the failed tests once: a stall of this PC may make a test with wall-clock limits fail'; \
	    .venv/bin/python -m pytest -m 'drill and nodes' --last-failed --maxfail 1; }

# Warnings are errors: a dead link, a page outside the tree, a name without a meaning.
docs: setup
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r underlay/requirements-docs.txt
	@.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env docs build/docs
	@echo build/docs/index.html

# Packages that cannot be installed are reported and skipped.
bench: setup
	@grep -v '^#' underlay/requirements-bench.txt | \
	  xargs -n 1 .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps || true
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python bench

# The laboratory runs on dask.distributed, which nothing else needs.
lab: setup
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r underlay/requirements-lab.txt

faults: lab
	@PYTHONPATH=test exec .venv/bin/python -m lab.faults $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(UR_TYPE),--ur-type "$$UR_TYPE") \
	  $(if $(METHOD),--method "$$METHOD") $(if $(JOBS),--jobs "$$JOBS")

soak: lab
	@PYTHONPATH=test exec .venv/bin/python -m lab.soak $(if $(filter-out digital,$(GRIPPER)),,--faults) $(if $(NODES),--nodes) $(if $(RTF),--rtf "$$RTF") \
	  $(if $(UR_TYPE),--ur-type "$$UR_TYPE") \
	  $(if $(N),-n "$$N") $(if $(SEED),--seed "$$SEED") $(if $(METHOD),--method "$$METHOD") \
	  $(if $(GRIPPER),--gripper "$$GRIPPER") $(if $(JOBS),--jobs "$$JOBS")

clean:
	rm -rf .venv build install log *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache ur5_pick_place/kinematics/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
