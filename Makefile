.DEFAULT_GOAL := help
GROUPS := programs lint unit images simulation processes chart kube spark model foreign cluster
LONG_GROUPS := audit hunt long-unit long-simulation long-processes long-kube long-spark long-foreign long-model long-cluster

# A benchmark's file is run as the module that it is: they share code by their full names.
as_module = .venv/bin/python -m $$(echo $${program%.py} | tr / .)

.PHONY: demo check test test-all setup bench bench-all bench-store detection record evidence-ignite docs lock clean help $(GROUPS) $(LONG_GROUPS)

demo: setup ## set up, start a cluster, kill pods during catch-up, judge what happened
	.venv/bin/zonequake demo

check: setup ## format, lint, types, layers and the unit tests of what changed: a minute
	.venv/bin/python scripts/check.py

test: setup ## every check and every test but the long sweeps
	.venv/bin/python -m scripts.run_tests

test-all: setup ## that, and then the long sweeps: hours
	.venv/bin/python -m scripts.run_tests --all

$(GROUPS): setup ## one group of `test`
	.venv/bin/python -m scripts.run_tests $@

$(LONG_GROUPS): setup ## one sweep of `test-all`
	.venv/bin/python -m scripts.run_tests $@

setup: ## system packages and .venv; does nothing if nothing is missing
	scripts/setup.sh

bench: setup ## beside etcd, Porcupine, DuckDB and a bare control plane, into docs/performance.md; about 13 minutes
	.venv/bin/python -m benchmarks.peers.side_by_side --write docs/performance.md

bench-all: bench ## that, and every bench_*.py of benchmarks/, for docs/performance.md
	@set -e; for program in benchmarks/*/bench_*.py; do echo "=== $$program"; $(as_module); done

bench-store: setup ## those of the store alone, in Markdown; takes about 8 minutes
	@set -e; for program in benchmarks/store/bench_*.py; do echo "### $$program"; echo; $(as_module); done

detection: setup ## plant faults, look for them, write docs/detection.md; goes on if broken off
	.venv/bin/python -m tests.simulation.detection

record: setup ## repeat published faults of other systems, write docs/evidence/record.md; hours; goes on if broken off
	.venv/bin/python -m benchmarks.record.record

evidence-ignite: setup ## Apache Ignite and our store through the same scenarios, write docs/evidence/ignite-3.1.md; hours; goes on if broken off
	.venv/bin/python -m benchmarks.evidence_ignite.evidence

docs: ## build the site of docs/ into .zonequake/site; needs Python alone
	scripts/docs.sh

lock: setup ## write requirements/*.txt from pyproject.toml
	scripts/lock.sh

clean: ## stop this checkout's cluster and remove what was built here
	scripts/clean.sh

help: ## this list
	@awk -F ':.*## ' '/^[-a-z$$()A-Z_]+:.*## / { name = $$1; sub(/\$$\(GROUPS\)/, "$(GROUPS)", name); sub(/\$$\(LONG_GROUPS\)/, "$(LONG_GROUPS)", name); printf "  make %-14s %s\n", name, $$2 }' Makefile
