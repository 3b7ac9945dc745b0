#!/usr/bin/env bash
# Makes what a release consists of, but its images, in FOLDER: wheel, sdist, and the chart. The chart,
# also the one in the wheel and the sdist, names the images of REPOSITORY.
#
#   scripts/release/dist.sh FOLDER REPOSITORY [TAG]     TAG: must be the version of Chart.yaml, with a v
#
# Needs git, `hatchling` in $PYTHON (default: python3) and Helm in $HELM (default: helm).
set -euo pipefail

mkdir -p "${1:?FOLDER}"
folder=$(cd "$1" && pwd)
readonly folder REPOSITORY=${2:?REPOSITORY} TAG=${3:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=$("${PYTHON:-python3}" -m hatchling version)
if [[ -n $TAG && $TAG != "v$version" ]]; then
    echo "the tag $TAG is not v$version, the version in charts/zonequake/Chart.yaml" >&2
    exit 1
fi

# A copy: the chart of the clone keeps the name under which `make` builds the images.
copy=$(mktemp --directory)
trap 'rm -r "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar --create --null --files-from=- | tar --extract --directory "$copy"
cd "$copy"
sed --in-place "s|^  repository: .*|  repository: $REPOSITORY|" charts/zonequake/values.yaml
grep --quiet "^  repository: $REPOSITORY$" charts/zonequake/values.yaml
"${PYTHON:-python3}" -m hatchling build --target wheel --target sdist --directory "$folder"
"${HELM:-helm}" package charts/zonequake --destination "$folder"
