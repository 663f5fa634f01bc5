#!/usr/bin/env bash
# Pushes the image and the chart of a release to their registry: release/push.sh OUT. It prints
# `image=` and `digest=` for the signatures. Log in first, with regctl and helm: `registry login`.
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh
[[ $IMAGE != *.example/* ]] || fail "RELEASES is not set, so the image would go to $IMAGE"
release/tools/bin/regctl image copy "ocidir://$out/image:$VERSION" "$IMAGE:$VERSION" >&2
tests/helm/bin/helm push "$out/fluxqueue-$VERSION.tgz" "oci://$IMAGE/charts" >&2
echo "image=$IMAGE"
echo "digest=$(jq -r '.manifests[0].digest' "$out/image/index.json")"
