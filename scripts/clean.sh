#!/usr/bin/env bash
# Stops this checkout's cluster and removes everything that was built or cached here.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -x .venv/bin/zonequake ]]; then
    .venv/bin/zonequake cluster down
fi
state=${PWD// /\\040}/.zonequake # as the kernel writes it
# What a killed build of images left, the last one first.
cut --delimiter=' ' --fields=5 /proc/self/mountinfo | tac | while read -r mounted; do
    if [[ $mounted == "$state"/buildah/* ]]; then umount "$(printf %b "$mounted")"; fi
done
# Removing a tree with something mounted in it would remove what is mounted.
if grep --fixed-strings " $state/" /proc/self/mounts; then
    echo "clean: these are still mounted; unmount them, then again" >&2
    exit 1
fi
chmod --recursive u+w .zonequake 2>/dev/null || true # Go's module cache is read-only
rm -rf .zonequake .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
