#!/usr/bin/env bash
# Writes the chart, and manifests for kubectl, with the name of the image filled in:
# release/manifests.sh OUT
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh
work=$out/work/manifests
mkdir -p "$work"
helm=tests/helm/bin/helm

cp -r manifests/chart "$work/fluxqueue"
values=$work/fluxqueue/values.yaml
sed -i -e "s|^  repository: \"\"\$|  repository: $IMAGE|" \
    -e "s|^  # Required. No public registry has .*|  # The image of this release.|" "$values"
grep -qFx "  repository: $IMAGE" "$values" ||
    fail "manifests/chart/values.yaml has no line \`repository: \"\"\`, which would name the image"
"$helm" package "$work/fluxqueue" --destination "$work" > "$work/helm.log"
# Helm's archive has the time at which it was made.
mkdir "$work/packed"
tar --extract --file "$work/fluxqueue-$VERSION.tgz" --directory "$work/packed"
archive_gz "$out/fluxqueue-$VERSION-chart.tar.gz" "$work/packed" fluxqueue
mv "$out/fluxqueue-$VERSION-chart.tar.gz" "$out/fluxqueue-$VERSION.tgz"

# For those that do not use Helm: the definitions, and the rest.
for file in manifests/chart/files/crds/flux*.yaml; do echo ---; cat "$file"; done > "$out/crds.yaml"
{
    cat manifests/chart/files/base/namespace.yaml
    "$helm" template fluxqueue "$out/fluxqueue-$VERSION.tgz" --namespace fluxqueue-system \
        --set crds.enabled=false --skip-tests
} > "$out/fluxqueue.yaml"
