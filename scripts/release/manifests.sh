#!/usr/bin/env bash
# Joins the images of several architectures under one tag: REPOSITORY/NAME:VERSION-ARCH, as
# `zonequake images push` left them, become REPOSITORY/NAME:VERSION. Prints NAME and digest.
#
#   scripts/release/manifests.sh REPOSITORY VERSION ARCH...
#
# BUILDAH_OPTIONS: for instance --tls-verify=false.
set -euo pipefail

readonly REPOSITORY=${1:?REPOSITORY} VERSION=${2:?VERSION}
shift 2
digest=$(mktemp)
trap 'rm "$digest"' EXIT
read -ra options <<<"${BUILDAH_OPTIONS:-}"

for name in store operator agent analysis patroni; do
    image=$REPOSITORY/$name:$VERSION
    list=$(buildah manifest create "zonequake-release-$name-$$")
    for arch in "$@"; do
        buildah manifest add "${options[@]}" "$list" "docker://$image-$arch" >/dev/null
    done
    buildah manifest push --quiet --all --digestfile "$digest" "${options[@]}" "$list" "docker://$image"
    buildah rmi "$list" >/dev/null
    echo "$name $(cat "$digest")"
done
