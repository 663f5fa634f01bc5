#!/usr/bin/env bash
# Writes the manifest for krew, the manager of kubectl plugins, for archives of the command in OUT:
# release/krew.sh OUT
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh

# One entry of `platforms`.
platform() {
    local archive=$1 os=$2 arch=$3
    cat <<YAML
  - selector: {matchLabels: {os: $os, arch: $arch}}
    uri: $RELEASES/download/v$VERSION/$(basename "$archive")
    sha256: $(sha256sum < "$archive" | cut -d ' ' -f 1)
    bin: kubectl-fluxqueue
    files:
    - {from: ./kubectl-fluxqueue, to: .}
    - {from: ./LICENSE, to: .}
    - {from: ./THIRD-PARTY.txt, to: .}
YAML
}

{
    cat <<YAML
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: fluxqueue
spec:
  version: v$VERSION
  homepage: ${RELEASES%/releases}
  shortDescription: Submit batch jobs, show the queue, and say why a job waits
  description: |
    For clusters with the batch scheduler Fluxqueue. Submits jobs with the options
    of sbatch, shows the queue with expected starts, says why a job waits and what
    would help, and holds, moves and cancels jobs.
  platforms:
YAML
    for os in linux darwin; do
        for arch in amd64 arm64; do
            archive=$out/kubectl-fluxqueue-$VERSION-$os-$arch.tar.gz
            [[ ! -e $archive ]] || platform "$archive" "$os" "$arch"
        done
    done
} > "$out/fluxqueue-krew.yaml"
