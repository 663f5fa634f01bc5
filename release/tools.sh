#!/usr/bin/env bash
# Says which of the tools for a release are missing and how to get them, all at once:
# release/tools.sh [test]. `test` asks for those of release/check.sh too.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh

missing=0
lacks() { echo "release: $1 is missing: $2" >&2; missing=1; }
need() { command -v "$1" >/dev/null || lacks "$1" "$2"; }

[[ $(uname -s) == Linux ]] || fail "the image is made of Debian's packages: this needs Linux"
need cargo "https://rustup.rs"
need rustup "https://rustup.rs; it installs the standard libraries for the other targets"
need go "https://go.dev/dl"
need jq "apt-get install jq"
need readelf "apt-get install binutils"
need apt-get "the image is made of Debian's packages: build on Debian 12, or in a container of it"
need dpkg-deb "apt-get install dpkg"
tar --version 2>/dev/null | grep -q 'GNU tar' || lacks "GNU tar" "apt-get install tar"
sysroot=$(rustc --print sysroot 2>/dev/null || true)
for machine in $MACHINES; do
    for tool in gcc g++ ar strip; do
        need "$machine-linux-gnu-$tool" "apt-get install g++-${machine//_/-}-linux-gnu"
    done
    for libc in gnu musl; do
        target=$machine-unknown-linux-$libc
        [[ -d $sysroot/lib/rustlib/$target/lib ]] ||
            lacks "Rust's standard library for $target" "rustup target add $target"
    done
done
for tool in "${CARGO_TOOLS[@]}"; do
    has_tool "$tool" || lacks "target/tools/bin/${tool/@/ }" "make release-tools"
done
if [[ ${1:-} == test ]]; then
    for machine in $MACHINES; do
        [[ $machine == "$(uname -m)" ]] ||
            need "qemu-$machine-static" "apt-get install qemu-user-static"
    done
    need chroot "apt-get install coreutils"
    [[ $EUID == 0 ]] || unshare --map-root-user true 2>/dev/null ||
        lacks "the right to chroot" "run as root, or allow user namespaces"
fi
[[ $PWD$HOME != *[[:space:]]* ]] ||
    fail "$PWD or $HOME has a space in it, which flags of compilers cannot have"
exit $missing
