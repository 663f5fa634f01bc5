#!/usr/bin/env bash
# Makes a kind cluster for the demo: kind/up.sh [NAME]. The cluster's kubectl context is then kind-NAME.
set -euo pipefail

name=${1:-fluxqueue}
image=localhost/fluxqueue:dev
cd "$(dirname "$0")/.."

for tool in docker kind kubectl; do
    command -v "$tool" >/dev/null || { echo "kind/up.sh: $tool is missing" >&2; exit 1; }
done

docker build --build-arg FLUXQUEUE_COMMIT="$(git rev-parse --short=12 HEAD)" -t "$image" .
if ! kind get clusters | grep -qx "$name"; then
    kind create cluster --name "$name" --config kind/cluster.yaml --wait 120s
fi
kind load docker-image --name "$name" "$image"

# An extended resource that no device plugin reports is set in the node's status, and stays.
for node in $(kubectl --context "kind-$name" get nodes -l accelerator=nvidia -o name); do
    kubectl --context "kind-$name" patch "$node" --subresource=status --type=json \
        -p '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "4"}]'
done

echo "Now run: make demo CLUSTER=kind-$name"
