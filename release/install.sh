#!/usr/bin/env bash
# Installs the programs that `make install` has built: release/install.sh FOLDER
set -euo pipefail
prefix=$1
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}/release
install -D -m 755 "$built/fluxqueue" "$prefix/bin/fluxqueue"
install -D -m 755 "$built/kubectl-fluxqueue" "$prefix/bin/kubectl-fluxqueue"
install -D -m 644 LICENSE "$prefix/share/doc/fluxqueue/LICENSE"

# completion SHELL FILE
completion() {
    mkdir -p "$(dirname "$prefix/share/$2")"
    "$built/kubectl-fluxqueue" completion "$1" > "$prefix/share/$2"
}
completion bash bash-completion/completions/kubectl-fluxqueue
completion zsh zsh/site-functions/_kubectl-fluxqueue
completion fish fish/vendor_completions.d/kubectl-fluxqueue.fish
# kubectl runs a program of this name to complete `kubectl fluxqueue`.
"$built/kubectl-fluxqueue" completion kubectl > "$prefix/bin/kubectl_complete-fluxqueue"
chmod 755 "$prefix/bin/kubectl_complete-fluxqueue"
