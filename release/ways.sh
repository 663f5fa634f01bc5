#!/usr/bin/env bash
# Tries the ways to build without a release, as docs/releasing.md has them: release/ways.sh
#
# cargo install from a folder and from git, make install, and a build offline from vendored crates
# of a source archive. Programs are not optimised here, which takes a tenth of the time. The commit
# that is checked out is tried, in a clone in target/ways.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
[[ -z $(git status --porcelain) ]] ||
    fail "the work tree has changes, which a clone would lack: commit or stash them"
top=$PWD
ways=$top/target/ways
rm -rf "$ways"
mkdir -p "$ways/build"
git clone --quiet --no-hardlinks "$top" "$ways/clone"

export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
    CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256
step() { printf '\n=== ways: %s (%s s)\n' "$*" "$SECONDS"; }

# Both programs in a folder run, and name version and commit: programs FOLDER
programs() {
    local said
    said=$("$1/fluxqueue" --version)
    [[ $said == *"$VERSION"*"$COMMIT"* ]] ||
        fail "$1/fluxqueue --version says $said, and not $VERSION $COMMIT"
    said=$("$1/kubectl-fluxqueue" --version)
    [[ $said == "kubectl-fluxqueue $VERSION" ]] ||
        fail "$1/kubectl-fluxqueue --version says $said, and not $VERSION"
}

step "cargo install --path"
(
    cd "$ways/clone"
    export CARGO_TARGET_DIR=$ways/build
    cargo install --quiet --locked --root "$ways/path" --path .
    cargo install --quiet --locked --root "$ways/path" --path kubectl-fluxqueue
)
programs "$ways/path/bin"

step "cargo install --git"
(
    # A folder that is in no workspace.
    cd "$ways"
    export CARGO_TARGET_DIR=$ways/build
    for package in fluxqueue kubectl-fluxqueue; do
        cargo install --quiet --locked --root "$ways/git" --git "file://$ways/clone" "$package"
    done
)
programs "$ways/git/bin"

step "make install"
package=$ways/package
CARGO_TARGET_DIR=$ways/build make --directory "$ways/clone" --no-print-directory \
    install PREFIX=/usr DESTDIR="$package"
programs "$package/usr/bin"
for file in bin/kubectl_complete-fluxqueue share/doc/fluxqueue/LICENSE \
    share/bash-completion/completions/kubectl-fluxqueue \
    share/zsh/site-functions/_kubectl-fluxqueue \
    share/fish/vendor_completions.d/kubectl-fluxqueue.fish; do
    [[ -s $package/usr/$file ]] || fail "make install did not install $file"
done

step "offline, from vendored crates"
source=$ways/source
mkdir -p "$source"
git archive HEAD | tar --extract --directory "$source"
(
    cd "$source"
    mkdir -p .cargo
    # With --quiet it would not print the configuration either.
    cargo vendor --locked vendor > .cargo/config.toml
    # Without the crates of this machine, nothing but vendor/ can be the source.
    export CARGO_HOME=$ways/cargo RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
    export CARGO_TARGET_DIR=$ways/build FLUXQUEUE_COMMIT=$COMMIT
    cargo build --quiet --release --locked --offline --bin fluxqueue
    cargo build --quiet --release --locked --offline -p kubectl-fluxqueue
)
programs "$ways/build/release"
rm -rf "$ways"
step "done: four ways to build $COMMIT"
