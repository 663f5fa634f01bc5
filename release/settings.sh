# shellcheck shell=bash disable=SC2034 # The scripts in this folder read it with `.`.
# Versions, addresses and names of a release. The current folder is the top of the repository.

# The page of releases of the repository, and nothing else says where releases are: links, the krew
# manifest and the name of the image are made from it. No server has a name that ends in `.example`,
# so a trial leads to no one else's.
RELEASES=${RELEASES:-https://fluxqueue.example/fluxqueue/releases}

# The machines, as Rust and GNU call them; go_name says what Go, Kubernetes and Debian do.
MACHINES=${MACHINES:-x86_64 aarch64}
go_name() {
    case $1 in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) fail "no machine is called $1" ;;
    esac
}

# The newest glibc that the programs may ask for: Debian 12's, which is in the image.
GLIBC=2.36

# The tools that cargo installs; those in Go are in tools/go.mod, krew/go.mod and tests/helm/go.mod.
CARGO_TOOLS=(cargo-cyclonedx@0.5.9)
# True if that version of a tool is installed: has_tool NAME@VERSION
has_tool() { cargo install --list --root target/tools 2>/dev/null | grep -q "^${1%@*} v${1#*@}:"; }

# The user and group of the image, as in the manifests.
NOBODY=65532

# Files in archives have the permissions that this leaves.
umask 022

fail() { echo "release: $*" >&2; exit 1; }

VERSION=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
COMMIT=${COMMIT:-$(git rev-parse --short=12 HEAD)}
# The one date in all that is made: that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# https://github.com/OWNER/NAME/releases has its image at ghcr.io/owner/name, and
# https://HOST/PATH/releases at HOST/PATH.
repository_of() {
    local path=${1#https://}
    path=${path%/releases}
    case $path in github.com/*) path=ghcr.io/${path#github.com/} ;; esac
    tr '[:upper:]' '[:lower:]' <<<"$path"
}
[[ $RELEASES =~ ^https://[A-Za-z0-9.:-]+/[A-Za-z0-9._/-]+/releases$ ]] ||
    fail "RELEASES=$RELEASES is no address such as https://github.com/OWNER/NAME/releases"
IMAGE=$(repository_of "$RELEASES")

# Prints name and version of each crate from elsewhere that is compiled into a program:
# crates_in PACKAGE TARGET...
crates_in() {
    local package=$1
    shift
    # Procedural macros run in the compiler, on this machine. Crates of this workspace have a path.
    cargo tree --locked --offline --package "$package" --edges normal,no-proc-macro \
        --prefix none "${@/#/--target=}" |
        sed -n '/(\//!s/^\([^ ]*\) v\([^ ]*\).*/\1 \2/p' | LC_ALL=C sort -u
}

# Writes a tar with the same bytes for the same files: archive FILE.tar FOLDER [NAME...]
archive() {
    local file=$1 folder=$2
    shift 2
    LC_ALL=C tar --create --file "$file" --directory "$folder" --sort=name --format=gnu \
        --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "${@:-.}"
}
# The same, compressed: archive_gz FILE.tar.gz FOLDER NAME...
archive_gz() {
    archive "${1%.gz}" "${@:2}"
    gzip -9 -n -f "${1%.gz}"
}
