# `make` alone prints this list. Everything runs in .venv; nothing else on the machine is touched
# but Maven's own cache and the broker's jars in the user's cache folder.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SPARK  := $(wildcard spark/jbm_spark spark/pyspark_jbm spark/bookstore spark/java)
# Most tests wait, for a broker or a timeout, so that more processes of them than processors rarely wait for each other;
# each has a broker of its own. What needs no broker waits for nothing, and shares nothing that must stay together.
# With more than these, on a slow machine, brokers and clients are kept waiting for seconds, and limits of time pass.
JOBS   ?= 4
PYTEST := $(BIN)/python -m pytest
# What plays long histories is played once, with the modules as source: faults are planted in that, lines counted.
SEEN_PURE := tests/sidecar tests/simulation tests/wires
OF_CORE := tests/core tests/model tests/local
PURE   := JBM_PURE=1 $(PYTEST) -n auto --dist worksteal -o cache_dir=.pytest_cache/pure
# What needs a broker.
BESIDE := $(PYTEST) -n $(JOBS) --dist loadscope --no-loadscope-reorder $(patsubst %,--ignore %,$(SEEN_PURE) $(OF_CORE))
# Which of them: what everybody should wait for; .ci/run has both kinds at once.
CHOSEN ?= not slow and not thorough
THOROUGH := -m "thorough and not slow"
# CODE, and where pytest has noted what failed: of runs side by side each has a place of its own.
SECOND_TRY := $(BIN)/python -m tests.house.second_try
# Where the environment forbids to keep bytecode, each of the tests' many processes would compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=
MERMAID := build/mermaid/package/dist/mermaid.min.js
AXE := build/axe/package/axe.min.js
COMPOSE := build/compose/compose/config/compose_spec.json
STATIC := jbm_kafka/console/static
UNCOMPILE := rm -f *__mypyc.*.so; find jbm_kafka -name '*.so' -delete

.DEFAULT_GOAL := help
.PHONY: help setup all-of-it proton spark-jars spark-classes console-scripts debian demo demo-spark test collected test-pure test-beside test-thorough test-slow fuzz-amqp kills-bridge kills-spark chaos kills-store chaos-cluster storm upgrade-test check cover exporter-cost console-size many-queues handler-cost way turn idle soak sizes log-sizes bench bench-instructions helm compose release-check dist dist-compiled docs docs-serve lock clean

help:             ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' Makefile

# Side by side, for most fetch something or use one processor; from the source, for its modules are compiled meanwhile.
setup:            ## .venv with the package and its tools, broker jars, Spark jars, a browser, PostgreSQL, promtool, RabbitMQ
	@JBM_PURE=1 $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 4 --output-sync=target) all-of-it

all-of-it: debian $(VENV)/.compiled $(VENV)/.broker-jars $(VENV)/.amqp-jars spark-classes console-scripts $(MERMAID) $(AXE) $(COMPOSE)

# Pip builds Proton: the sidecar needs the compiler alone, and tests, as clients, its TLS and SASL.
proton:
	@mkdir -p $(VENV)
	@{ command -v cc && pkg-config --exists openssl libsasl2; } > /dev/null 2>&1 || { \
	  test "$$(id -u)" = 0 && apt-get update && apt-get install -y --no-install-recommends \
	  gcc libc6-dev pkgconf libssl-dev libsasl2-dev libsasl2-modules; } > $(VENV)/proton.log 2>&1 || \
	  echo "Proton cannot be built whole: as root, apt-get install gcc pkgconf libssl-dev libsasl2-dev ($(VENV)/proton.log)."

$(VENV)/.stamp: pyproject.toml constraints.txt | proton
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[spark,spark-connect,dev]'
	@touch $@

# All of the package may matter to what is compiled; what did not change is not compiled again.
$(VENV)/.compiled: $(VENV)/.stamp $(shell find jbm_kafka -name '*.py')
	@$(UNCOMPILE)
	@$(BIN)/python setup.py build_ext --inplace --parallel 2 > $(VENV)/mypyc.log 2>&1 || { $(UNCOMPILE); \
	  echo "The hot modules could not be compiled ($(VENV)/mypyc.log says why); they run as Python, at three fifths of the speed."; }
	@touch $@ $$(find jbm_kafka -name '*.so')

# No stamp: it checks the jars' sums in a moment, and so mends a damaged or outdated jar too. The second compiles our own
# classes, into spark/jbm_spark/jbm-spark.jar, if their source has changed.
spark-jars: $(VENV)/.stamp
	@$(BIN)/python -m jbm_spark.jars fetch --with s3
	@$(BIN)/python spark/java/compile_classes.py || true

# They make all sessions start faster.
spark-classes: spark-jars
	@$(BIN)/python -m jbm_spark.archive_classes

# One Maven after the other, for they share its cache.
$(VENV)/.broker-jars: $(VENV)/.stamp jbm_kafka/devbroker/pom.xml | spark-jars
	$(BIN)/python -m jbm_kafka.devbroker > /dev/null
	@touch $@

$(VENV)/.amqp-jars: $(VENV)/.stamp tests/amqp/java/pom.xml tests/amqp/artemis/pom.xml | $(VENV)/.broker-jars
	@$(BIN)/python -m tests.amqp.java_clients
	@touch $@

# Tests look at pages in Debian's browser, have transactions across systems with its database, try alert rules by its
# promtool, and bridges with its RabbitMQ. Only root can install them; no service is started. By one apt-get, which locks;
# while modules are compiled, for what makes the base image asks apt at the beginning.
debian: $(VENV)/.stamp
	@there() { ls $$1 > /dev/null 2>&1 || command -v "$$2" > /dev/null; }; \
	missing="$$(there /usr/bin/chromium chromium || echo chromium chromium-driver; \
	  there '/usr/lib/postgresql/*/bin/postgres' postgres || echo postgresql; \
	  there /usr/bin/promtool promtool || echo prometheus; \
	  there '/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server' rabbitmq-server || echo rabbitmq-server)"; \
	test -z "$$missing" || { test "$$(id -u)" = 0 && apt-get update && \
	  RUNLEVEL=1 apt-get install -y --no-install-recommends $$missing; } > $(VENV)/debian.log 2>&1 || \
	  echo "Tests fail that need one of these: as root, apt-get install" $$missing "($(VENV)/debian.log)."

demo: setup       ## the bookstore, end to end, on a local Kafka
	$(BIN)/jbm-kafka demo

demo-spark: setup  ## the bookstore in Spark: streams, workers, archive, audit, and build/bookstore.html
	$(BIN)/python -m bookstore

# The checks use one processor, so that they run beside the tests that need no broker; the others are played in any case.
test: setup       ## checks, and tests of each kind, in 8 minutes (JBM_TEST_BROKER=testcontainers|local|host:port, JOBS=4)
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target check test-pure collected; first=$$?; \
	$(MAKE) --no-print-directory test-beside && exit $$first

# Pytest rewrites each file of tests as it collects it, and keeps it so: once here, and not in each of several processes.
collected: setup
	@$(PYTEST) --collect-only -q > /dev/null

test-beside: setup  ## of them those that need a broker, and all that need none and wait
	$(BESIDE) -m "$(CHOSEN)" || $(SECOND_TRY) $$? .pytest_cache

test-thorough: setup  ## the others, but for the slow ones: on Kafka what `make test` plays in memory, more kills, seeds and faults, all of Spark
	$(PURE) $(SEEN_PURE) $(THOROUGH) || JBM_PURE=1 $(SECOND_TRY) $$? .pytest_cache/pure
	$(BESIDE) $(THOROUGH) || $(SECOND_TRY) $$? .pytest_cache

fuzz-amqp: setup  ## random AMQP clients against a server in memory, for two minutes; it prints the seed that repeats them
	$(BIN)/python -m tests.amqp.fuzz 120

test-pure: cover  ## the tests that need no broker, with the compiled modules left aside
	$(PURE) $(SEEN_PURE) -m "$(CHOSEN)" || JBM_PURE=1 $(SECOND_TRY) $$? .pytest_cache/pure

test-slow: setup  ## the long targets: many kills, many seeds; and compiled what `make test` plays as source
	$(BIN)/python -m pytest -m slow --timeout 1800
	$(PYTEST) -n auto --dist worksteal $(SEEN_PURE) $(OF_CORE)

kills-bridge: setup  ## every party is killed again and again while 100,000 messages cross, between clusters, then from Artemis and back; some ten minutes each
	$(BIN)/python -m tests.chaos.bridge_kills

kills-spark: setup  ## Spark's jobs are killed ten times each, and stopped: all, or JOB="load erase"; then streams, and an audit of 200,000 messages
	$(BIN)/python -m tests.chaos.spark_kills $(JOB)
	$(BIN)/python -m pytest tests/spark/test_exactly_once_killed.py tests/spark/test_audit.py -m slow -k kills --timeout 7200

chaos: setup      ## the failure tests, full size: processes killed, frozen and replaced on a real broker
	$(BIN)/python -m pytest tests/chaos -m "slow or not slow" --timeout 600

kills-store: setup  ## 50,000 sends into a store beside the sender, which is killed 20 times, with 20 outages and a full disk: with fsync and without
	$(BIN)/python -m pytest tests/chaos/test_stored_sends.py -m slow --timeout 1500

chaos-cluster: setup  ## faults of three brokers, a row each of what went wrong: all, or FAULT="leader two_away"; build/chaos-cluster.md
	$(BIN)/python -m tests.chaos.cluster_faults $(FAULT)

storm: setup       ## how long 20 and 50 processes that start at once take until all are ready, and how many tries others ended
	$(BIN)/python -m tests.chaos.storm

upgrade-test: setup  ## from the wheel of 0.1.0 to this tree and back, whole and rolling, with kills; the wheel is built in build/versions
	$(BIN)/python -m tests.chaos.upgrades

check: setup      ## ruff, mypy --strict, layers, no circles of imports
	$(BIN)/ruff check jbm_kafka tests $(SPARK) setup.py hatch_build.py mkdocs_hooks.py
	$(BIN)/mypy jbm_kafka tests $(SPARK)
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house.ratchet

cover: setup      ## branch coverage of core/ by the tests that need no broker; must be 100 %
	$(PURE) $(OF_CORE) tests/codec --cov=jbm_kafka.core --cov-branch --cov-fail-under=100 \
	  --cov-report=term-missing:skip-covered

turn: setup        ## processor time of one turn beside 10 and beside 2,200 receivers, and calls of an idle one
	$(BIN)/python -m tests.house.turn_time
	JBM_PURE=1 $(BIN)/python -m tests.house.turn_time

idle: setup        ## percent of a core that an idle memory:// process, 1,000 listeners and 1,000 consumers take
	$(BIN)/python -m tests.house.idle_cost

exporter-cost: setup  ## processor time and memory of following 300 idle queues, and the time of a scrape
	$(BIN)/python -m tests.house.exporter_cost

console-size: setup  ## how long each view of the console takes with 1,000,000 messages, 300 queues and 50 browsers; 2 s at most, or it says that it shows a part
	$(BIN)/python -m tests.house.console_size

handler-cost: setup  ## processor time that a typed argument of a handler adds to a message
	$(BIN)/python -m tests.house.handler_cost

way: setup         ## files and functions that one CLIENT message passes through, on a local Kafka
	JBM_PURE=1 $(BIN)/python -m tests.house.message_way

log-sizes: setup   ## what 2,000,000 messages leave on a broker's disk, how long a recovery is then, and what deletion costs
	$(BIN)/python -m tests.house.log_sizes

many-queues: setup ## how long 500 queues of 1,000 messages take to be archived and audited by one pattern: QUEUES="--queues 100 --format delta"
	$(BIN)/python -m tests.spark.many_queues $(QUEUES)

soak: setup        ## memory of a worker and a sender through 500,000 messages; the last third within 5 % of the middle one
	$(BIN)/python -m tests.house.soak

sizes: $(VENV)/.stamp  ## lines of the product and of the tests, words of the pages, the largest files and classes
	$(BIN)/python -m tests.house.sizes

bench: setup      ## throughput and latency beside Kafka's own clients
	$(BIN)/jbm-kafka bench

bench-instructions: setup  ## instructions per message beside those of 23ac797 (needs valgrind)
	$(BIN)/jbm-kafka bench-instructions --check

# htmx and uPlot, which pages of the console load, with their licences; the sums are checked each time.
console-scripts:
	@cd $(STATIC) && sha256sum --check --status vendor.sha256 2> /dev/null || { mkdir -p ../../../build/vendor vendor && \
	  { (cd ../../../build/vendor && npm pack --silent htmx.org@2.0.11 uplot@1.6.32 > packed && \
	  for each in $$(cat packed); do mkdir -p $$each.d && tar -xzf $$each -C $$each.d; done) && \
	  from=../../../build/vendor && cp $$from/htmx.org-*.d/package/dist/htmx.min.js vendor/ && \
	  cp $$from/htmx.org-*.d/package/LICENSE vendor/htmx.LICENSE && cp $$from/uplot-*.d/package/LICENSE vendor/uPlot.LICENSE && \
	  cp $$from/uplot-*.d/package/dist/uPlot.iife.min.js $$from/uplot-*.d/package/dist/uPlot.min.css vendor/ && \
	  { sha256sum --check --quiet vendor.sha256 || { rm -rf vendor; false; }; }; } || \
	  echo "There is no npm, or what it fetched is not what $(STATIC)/vendor.sha256 has: the console's pages work as plain ones."; }

# What tests look for with in the console's pages: https://github.com/dequelabs/axe-core.
$(AXE):
	@mkdir -p build/axe && cd build/axe && { npm pack --silent axe-core@4.14.1 | xargs tar -xzf; } || \
	  echo "There is no npm, so no test looks whether everybody can use the console's pages."

# The schema of compose files, as the last compose in Python has it. Nothing of it runs.
$(COMPOSE): | $(VENV)/.stamp
	@mkdir -p build/compose && cd build/compose && { $(abspath $(BIN))/python -m pip download --quiet --no-deps docker-compose==1.29.2 && \
	  $(abspath $(BIN))/python -m zipfile -e docker_compose-1.29.2-*.whl . ; } || \
	  echo "There is no package docker-compose, so no test looks at compose files by their schema."

helm:             ## build/helm/helm, with Go, in some minutes: with it tests render the chart anew
	@mkdir -p build/helm && GOBIN=$(CURDIR)/build/helm go install helm.sh/helm/v3/cmd/helm@v3.22.0

compose:          ## build/compose/docker-compose, with Go, in some minutes: with it tests start the compose files
	@mkdir -p build/compose && cd build/compose && go mod download -json github.com/docker/compose/v2@v2.40.3 > module.json && rm -rf source && \
	  cp -r "$$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' module.json)" source && chmod -R u+w source && \
	  (cd source && GOFLAGS=-mod=mod go build -o ../docker-compose ./cmd) && rm -rf source

release-check: $(VENV)/.stamp console-scripts  ## walks through what a release needs, and tells what is left for people
	$(BIN)/python -m tests.house.release_check

dist: $(VENV)/.stamp console-scripts  ## dist/ with the wheel and the sdist and no compiled modules
	$(BIN)/python spark/java/compile_classes.py
	$(BIN)/python -m build --no-isolation --outdir dist .

# Pictures are drawn in the reader's browser, by a script that the site brings along.
$(MERMAID):
	@mkdir -p build/mermaid && cd build/mermaid && { npm pack --silent mermaid@11.17.2 | xargs tar -xzf; } || \
	  { echo "There is no npm, so no test looks at the pictures, and the site's are drawn with a script from elsewhere."; }

docs: $(VENV)/.stamp $(MERMAID)  ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

docs-serve: $(VENV)/.stamp $(MERMAID)  ## shows the site while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

dist-compiled: $(VENV)/.stamp console-scripts  ## dist/compiled/ with a wheel of compiled modules for this Python and platform
	$(BIN)/python spark/java/compile_classes.py
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m build --no-isolation --wheel --outdir dist/compiled .
	$(BIN)/auditwheel show dist/compiled/*.whl

lock: $(VENV)/.stamp  ## write what is installed now to constraints.txt
	{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt

clean:            ## remove what make made (not the local broker's data)
	$(UNCOMPILE)
	rm -rf $(VENV) build dist spark-warehouse .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis htmlcov .coverage
