#!/usr/bin/env bash
# Builds the programs for both machines into OUT/work/programs: release/binaries.sh TARGET_DIR OUT
#
#   kubectl-fluxqueue   static, with musl: it runs on any Linux
#   fluxqueue           dynamic, with glibc, since it can load a Fluxion library (--fluxion-library)
#
# Two builds of one commit give the same bytes wherever the folders are: the paths of this checkout,
# of the registry's sources and of the standard library's are replaced in all that is compiled.
set -euo pipefail
target_dir=$1 out=$2
cd "$(dirname "$0")/.."
. release/settings.sh

# The sources must be there before their folder can be named.
cargo fetch --locked --quiet
sysroot=$(rustc --print sysroot)
rustc_commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# `from=to` each. The last that fits counts.
paths=("$cargo_home=/cargo")
# The folder of a registry has its address, and a hash of it, in its name.
for registry in "$cargo_home"/registry/src/*; do paths+=("$registry=/cargo/registry"); done
paths+=(
    "$sysroot/lib/rustlib/src/rust=/rustc/$rustc_commit"
    "$PWD=/fluxqueue"
    "$target_dir=/target"
)

rust_flags="" c_flags="-g0"
for path in "${paths[@]}"; do
    # This separator lets a path have spaces.
    rust_flags+="${rust_flags:+$'\x1f'}--remap-path-prefix=$path"
    c_flags+=" -ffile-prefix-map=$path"
done

# The compilers of all targets are named in each build: those of this machine count for procedural
# macros too, and cargo compiles these again if the environment of the build before was another.
compilers=()
for machine in $MACHINES; do
    for libc in gnu musl; do
        name=${machine}_unknown_linux_$libc
        compilers+=(
            "CARGO_TARGET_${name^^}_LINKER=$machine-linux-gnu-gcc"
            "CC_$name=$machine-linux-gnu-gcc" "CXX_$name=$machine-linux-gnu-g++"
            "AR_$name=$machine-linux-gnu-ar" "CFLAGS_$name=$c_flags" "CXXFLAGS_$name=$c_flags"
        )
    done
done

# Builds one package: build RUST_TARGET ARGUMENTS...
build() {
    env CARGO_TARGET_DIR="$target_dir" CARGO_INCREMENTAL=0 CARGO_ENCODED_RUSTFLAGS="$rust_flags" \
        FLUXQUEUE_COMMIT="$COMMIT" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "${compilers[@]}" \
        cargo build --release --locked --target "$@"
}

for machine in $MACHINES; do
    CARGO_PROFILE_RELEASE_STRIP=symbols build "$machine-unknown-linux-musl" -p kubectl-fluxqueue
    build "$machine-unknown-linux-gnu" -p fluxqueue --bin fluxqueue
    build "$machine-unknown-linux-gnu" -p fluxion-sys
    programs=$out/work/programs/$machine
    mkdir -p "$programs"
    cp "$target_dir/$machine-unknown-linux-musl/release/kubectl-fluxqueue" "$programs/"
    # Names of functions stay, for the backtrace of a panic. The lines are four fifths of the size.
    "$machine-linux-gnu-strip" --strip-debug -o "$programs/fluxqueue" \
        "$target_dir/$machine-unknown-linux-gnu/release/fluxqueue"
done
