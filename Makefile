# Requires Python 3.11+, make and a package index.
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := libs/deviceshare libs/deviceshare-bus libs/deviceshare-cluster libs/deviceshare-localcluster libs/deviceshare-cli \
	services/inventory services/placement services/binder services/metrics lab
READY := .venv/.ready
# Packages whose modules are compiled where there is a C compiler.
COMPILED := libs/deviceshare/src/deviceshare/kernels lab/src/deviceshare_lab/traces libs/deviceshare-bus/src/deviceshare_bus/wire/framing

# Processes start in a fifth of the time with bytecode. It is kept apart from the sources, also where the environment
# tells Python to write none.
export PYTHONDONTWRITEBYTECODE =
export PYTHONPYCACHEPREFIX = $(CURDIR)/.cache/bytecode

.DEFAULT_GOAL := help
.PHONY: help setup run test test-system test-node kube promtool charts node gpu-kit manifests site dist fuzz mutate soak chaos lint format bench lock clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(READY)  ## install everything into .venv/

# Hashes of packages from the index are checked; our own packages are installed in place, without build isolation.
# Compiled modules are removed first: without a compiler the current source is used, not an old build. On a terminal uv shows
# how many packages it has of how many, and which it compiles.
QUIET = $(shell test -t 2 || echo --quiet)
PYTHON_FITS = $(shell $(PYTHON) -c 'import sys; print("yes" if sys.version_info >= (3, 11) else "")' 2> /dev/null)
$(READY): requirements/uv.txt requirements/runtime.txt requirements/dev.txt $(PACKAGES:%=%/pyproject.toml) \
		$(wildcard libs/*/setup.py lab/setup.py $(COMPILED:%=%/*.py) $(COMPILED:%=%/*.pxd))
	$(if $(wildcard $(BIN)/python)$(PYTHON_FITS),,$(error Python 3.11 or later is required, $(PYTHON) is \
		$(or $(shell $(PYTHON) --version 2> /dev/null),not installed): name another one, such as `make $(MAKECMDGOALS) PYTHON=python3.12`))
	@echo "Setting up .venv/, once, in some minutes: 1/3 the installer" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@echo "2/3 packages, nats-server among them" >&2
	@$(BIN)/uv pip install $(QUIET) --python $(BIN)/python --require-hashes -r requirements/runtime.txt -r requirements/dev.txt
	@echo "3/3 deviceshare; compiling its modules takes most of the time" >&2
	@rm -rf $(COMPILED:%=%/*.so) libs/*/build lab/build
	@$(BIN)/uv pip install $(QUIET) --python $(BIN)/python --no-deps --no-build-isolation $(PACKAGES:%=-e %)
	@touch $@

# On a terminal it runs until Ctrl-C; elsewhere it ends when every pod is placed or has a reason. With job control
# (set -m) Ctrl-C reaches only the command, and make does not report an error.
run: $(READY)  ## schedule the pods of examples/ on its nodes
	@if test -t 1; then test ! -t 0 || set -m; else end=--until-settled; fi; \
		$(BIN)/deviceshare up --cluster local:examples --conf examples/volcano-scheduler.conf $$end

# A process (TEST_PROCESSES) runs whole files, in the order of tests/conftest.py.
PYTEST = $(BIN)/pytest -n $${TEST_PROCESSES:-3} --dist loadfile --no-loadscope-reorder

test: $(READY)  ## run all tests but those of test-system, on real nats-servers
	@$(PYTEST) -m "not system and not node"

test-system: $(READY)  ## run the tests on the services as processes, a kube-apiserver and a browser
	@test -n "$$KUBEBUILDER_ASSETS" || $(MAKE) --no-print-directory kube || echo "no kube-apiserver: its tests are skipped" >&2
	@$(PYTEST) -m system

# The node has namespaces and a cgroup of its own, which end with it; without root there is none, and the tests are skipped.
test-node: $(READY)  ## run the tests on a real kubelet and containerd; needs root, and makes `node`
	@test "$$(id -u)" != 0 || $(MAKE) --no-print-directory node charts || echo "no programs or images of a node: its tests are skipped" >&2
	@test "$$(id -u)" != 0 || inside=tests/node/run.sh; $$inside $(BIN)/pytest -n 2 --dist loadfile -rpsfE -m node tests/node

kube:  ## build etcd and a control plane for the tests into .cache/kube, once; takes minutes
	@tests/apiserver/build.sh .cache/kube

promtool:  ## build promtool for the tests into .cache/promtool, once; takes minutes
	@tests/promtool/build.sh .cache/promtool

charts:  ## build Helm and kustomize for the tests into .cache/charts, once; takes minutes
	@tests/charts/build.sh .cache/charts

node: $(READY)  ## build kubelet and its control plane, and images, for test-node into .cache/node, once; takes minutes and needs root
	@tests/node/build.sh .cache/node
	@tests/node/images.sh .cache/node/images
	@tests/node/plugins/build.sh .cache/node/plugins || echo "no device plugins: their tests are skipped" >&2
	@tests/node/previous.sh .cache/node/images
	@test -x .cache/node/venv/bin/podman-compose && cmp -s requirements/node.txt .cache/node/requirements.txt || { \
		$(BIN)/uv venv --quiet --clear --python $(BIN)/python .cache/node/venv && \
		$(BIN)/uv pip install $(QUIET) --python .cache/node/venv/bin/python --require-hashes -r requirements/node.txt && \
		cp requirements/node.txt .cache/node/requirements.txt; }

gpu-kit: $(READY) kube  ## build what lab/gpu/run.sh takes to a machine with a GPU into .cache/gpu; takes minutes
	@lab/gpu/build.sh .cache/gpu

manifests: $(READY) charts  ## render deploy/kubernetes/base and crds from the Helm chart
	@PYTHONPATH=tests $(BIN)/python -m support.charts

# Warnings are errors: links and anchors are checked.
site: $(READY)  ## build the documentation site into .cache/site/html
	@test -x .cache/site/venv/bin/mkdocs && cmp -s requirements/docs.txt .cache/site/docs.txt || { \
		$(BIN)/uv venv --quiet --clear --python $(BIN)/python .cache/site/venv && \
		$(BIN)/uv pip install $(QUIET) --python .cache/site/venv/bin/python --require-hashes -r requirements/docs.txt && \
		cp requirements/docs.txt .cache/site/docs.txt; }
	@NO_MKDOCS_2_WARNING=1 .cache/site/venv/bin/mkdocs build --strict > .cache/site/log 2>&1 || { cat .cache/site/log >&2; exit 1; }

dist: $(READY)  ## build wheels and sdists of the current commit into .cache/dist
	@$(BIN)/python .ci/build_dist.py .cache/dist

fuzz: $(READY)  ## fuzz the parsers for FUZZ_SECONDS (60); FUZZ_SEED repeats a run
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/pytest tests/fuzz

# CHAOS_SEED gives other histories and faults.
chaos: $(READY)  ## faults: CHAOS_HOURS (1000) simulated hours, 20 of bus servers, CHAOS_MINUTES (60) on real processes
	@$(BIN)/deviceshare lab chaos --simulated --seed $${CHAOS_SEED:-1} --hours $${CHAOS_HOURS:-1000}
	@DEVICESHARE_LEADER_FAULTS=20 DEVICESHARE_POWER_LOSSES=1000 $(BIN)/pytest --capture=no \
		tests/system/test_bus_cluster.py tests/bus/test_power_loss.py
	@DEVICESHARE_SECURED_BINDINGS=2000 $(BIN)/pytest --capture=no tests/system/test_secured_bus.py
	@$(BIN)/deviceshare lab chaos --seed $${CHAOS_SEED:-1} --minutes $${CHAOS_MINUTES:-60} \
		--replicas placement=2,binder=2,inventory=2

mutate: $(READY)  ## measure which mutants of our code the tests kill, by group: MUTATE_SAMPLE (20) each, MUTATE_SEED (1)
	@PYTHONPATH=tests $(BIN)/python -m mutation

# The sizes can be set: DEVICESHARE_SYSTEM_NODES=50 make soak.
soak: $(READY) kube  ## the whole system on a real kube-apiserver, at full size, with one failure after the other
	@DEVICESHARE_SYSTEM_NODES=$${DEVICESHARE_SYSTEM_NODES:-200} DEVICESHARE_SYSTEM_PODS=$${DEVICESHARE_SYSTEM_PODS:-2000} \
		DEVICESHARE_SYSTEM_MORE=$${DEVICESHARE_SYSTEM_MORE:-600} DEVICESHARE_SYSTEM_DELAY=$${DEVICESHARE_SYSTEM_DELAY:-3} \
		DEVICESHARE_PACKED_PODS=$${DEVICESHARE_PACKED_PODS:-60} DEVICESHARE_CONTAINER_PODS=$${DEVICESHARE_CONTAINER_PODS:-100} \
		DEVICESHARE_BURST_PODS=$${DEVICESHARE_BURST_PODS:-100000} DEVICESHARE_UPGRADE_PODS=$${DEVICESHARE_UPGRADE_PODS:-200} \
		DEVICESHARE_PREEMPTIONS=$${DEVICESHARE_PREEMPTIONS:-500} DEVICESHARE_DEVICE_PODS=$${DEVICESHARE_DEVICE_PODS:-2000} \
		$(BIN)/pytest --capture=no tests/kube/test_system.py tests/kube/test_handoff.py tests/kube/test_containers.py \
		tests/kube/test_preemption.py tests/kube/test_device_claims_killed.py tests/system/test_burst.py tests/system/test_upgrade.py tests/cli/test_simulate_trace.py

lint: $(READY)  ## ruff, mypy, import-linter, words
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python .ci/check_words.py

format: $(READY)  ## format and fix with ruff
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## measure the whole system and the floor
	@$(BIN)/deviceshare lab bench bus --nodes 1000 --pods 10000

lock: $(READY)  ## resolve requirements/*.in again
	@for f in uv runtime dra dev docs release node; do $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header requirements/$$f.in -o requirements/$$f.txt > /dev/null; done
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		-c requirements/runtime.txt requirements/service.in -o requirements/service.txt > /dev/null

clean:  ## remove files of setup and tests
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		$(COMPILED:%=%/*.so) libs/*/build lab/build
