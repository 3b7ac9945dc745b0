#!/usr/bin/env bash
# Builds the site into .zonequake/site, in a virtual environment of its own; needs no root, no Java, no Go.
#
#   scripts/docs.sh [serve]     serve: show it at http://127.0.0.1:8000, again after each change
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly VENV=.zonequake/docs-venv
readonly LOCK=requirements/docs.txt

fail() {
    echo "docs: $*" >&2
    exit 1
}

main() {
    local python=python3
    [[ -x .venv/bin/python ]] && python=.venv/bin/python
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "found $("$python" --version), expected Python 3.11 or newer; put one on the PATH"
    if ! cmp --silent "$LOCK" "$VENV/installed.txt"; then
        "$python" -m venv --clear "$VENV"
        "$VENV/bin/python" -m pip --disable-pip-version-check --quiet \
            install --require-hashes --requirement "$LOCK"
        cp "$LOCK" "$VENV/installed.txt"
    fi
    export NO_MKDOCS_2_WARNING=1 PYTHONPATH=scripts/docs:operator:chaos:workloads:analysis
    if [[ ${1:-build} == serve ]]; then
        exec "$VENV/bin/mkdocs" serve
    fi
    "$VENV/bin/mkdocs" build --strict --quiet
    echo "docs: .zonequake/site/index.html"
}

main "$@"
