#!/usr/bin/env bash
# Writes the lock files from pyproject.toml: every package with version and hashes, no address.
#
#   scripts/lock.sh [--upgrade]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

lock() { # lock OUTPUT ARGUMENTS...
    local output=$1
    shift
    .venv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url \
        --no-emit-find-links --python-version 3.11 --output-file "$output" "$@"
}

lock requirements/all.txt pyproject.toml --all-extras --group dev "$@"
# What goes into the images: the same versions.
lock requirements/store.txt pyproject.toml --extra store --constraint requirements/all.txt
lock requirements/operator.txt pyproject.toml --extra operator --constraint requirements/all.txt
lock requirements/analysis.txt pyproject.toml --extra analysis --extra hdfs \
    --constraint requirements/all.txt
lock requirements/patroni.txt pyproject.toml --extra store --extra patroni \
    --constraint requirements/all.txt
# The site, and what the reference of the command line imports; no Spark.
lock requirements/docs.txt pyproject.toml --extra store --extra operator --extra chaos --group docs \
    --constraint requirements/all.txt "$@"
# What the workflow `release` builds and publishes with.
lock requirements/release.txt --group release --constraint requirements/all.txt
# A Go toolchain for machines without one.
lock requirements/go.txt requirements/go.in "$@"
