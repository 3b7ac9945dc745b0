#!/usr/bin/env bash
# Makes what a release consists of, but its images, in FOLDER: wheel, sdist, and the chart, whose
# images are those of REPOSITORY.
#
#   scripts/release/dist.sh FOLDER REPOSITORY [TAG]     TAG: must be the version of Chart.yaml, with a v
#
# Needs `hatchling` in $PYTHON (default: python3) and Helm in $HELM (default: helm).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly FOLDER=${1:?FOLDER} REPOSITORY=${2:?REPOSITORY} TAG=${3:-}

version=$("${PYTHON:-python3}" -m hatchling version)
if [[ -n $TAG && $TAG != "v$version" ]]; then
    echo "the tag $TAG is not v$version, the version in charts/zonequake/Chart.yaml" >&2
    exit 1
fi
mkdir -p "$FOLDER"
"${PYTHON:-python3}" -m hatchling build --target wheel --target sdist --directory "$FOLDER"

chart=$(mktemp --directory)
trap 'rm -r "$chart"' EXIT
cp -r charts/zonequake "$chart"
sed --in-place "s|^  repository: .*|  repository: $REPOSITORY|" "$chart/zonequake/values.yaml"
grep --quiet "^  repository: $REPOSITORY$" "$chart/zonequake/values.yaml"
"${HELM:-helm}" package "$chart/zonequake" --destination "$FOLDER"
