#!/usr/bin/env bash
# Writes the licences of all that is compiled into each program: release/notices.sh OUT
#
# The texts are those in the sources of each crate, each text once. deny.toml says which licences
# are accepted.
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh
work=$out/work/notices

# Crates that have no text in their sources get the common one.
common=/usr/share/common-licenses
# Rust's own notices are a page of HTML. They do not name musl, which is in Rust's targets for it.
rust=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[[ -e $rust ]] || fail "$rust is missing: rustup component add rustc"

rule() { printf '=%.0s' {1..80}; echo; }

# Prints the text of a page of HTML.
text_of() {
    sed -e '1,/<body>/d' -e 's/<[^>]*>//g' -e 's/[[:space:]]*$//' \
        -e 's/&#60;/</g' -e 's/&#62;/>/g' -e 's/&#34;/"/g' -e "s/&#39;/'/g" -e 's/&#38;/\&/g' \
        -e 's/&lt;/</g' -e 's/&gt;/>/g' -e 's/&quot;/"/g' -e 's/&amp;/\&/g' "$1" | cat -s
}

# Prints the files with licences in a crate's sources, or the common texts of its licences.
texts_of() {
    local name=$1 licence=$2 folder=$3 found common_name
    found=$(find "$folder" -maxdepth 1 -type f \
        -iregex '.*/\(un\)?\(licen[sc]e\|copying\|notice\|copyright\)[^/]*' | LC_ALL=C sort)
    if [[ -z $found ]]; then
        for common_name in Apache-2.0 MPL-2.0; do
            [[ $licence != *"$common_name"* ]] || found=$common/$common_name
        done
    fi
    [[ -n $found ]] || fail "$name has no text of its licence, $licence"
    echo "$found"
}

# notices PACKAGE OUTPUT TARGET...
notices() {
    local package=$1 output=$2 name version licence folder home text sum
    shift 2
    rm -rf "$work"
    mkdir -p "$work"
    cargo metadata --locked --offline --format-version 1 | jq --raw-output '.packages[]
        | select(.source != null)
        | [.name, .version, .license, (.manifest_path | rtrimstr("/Cargo.toml")), .repository]
        | @tsv' | LC_ALL=C sort > "$work/all"
    crates_in "$package" "$@" > "$work/crates"
    while read -r name version; do
        IFS=$'\t' read -r _ _ licence folder home < \
            <(grep -P "^\Q$name\E\t\Q$version\E\t" "$work/all")
        echo "$name $version: $licence${home:+, $home}" >> "$work/list"
        texts_of "$name" "$licence" "$folder" > "$work/texts"
        while read -r text; do
            sum=$(sha256sum < "$text" | cut -d ' ' -f 1)
            if [[ ! -e $work/$sum ]]; then
                cp "$text" "$work/$sum"
                echo "$sum" >> "$work/order"
            fi
            echo "$name $version" >> "$work/$sum.crates"
        done < "$work/texts"
    done < "$work/crates"
    {
        echo "These libraries are in $package, some of them on one system alone. Their licences"
        echo "follow, and then those of Rust's standard library, and of musl, which is in static"
        echo "programs. Rust's registry of crates has the sources of each library, unchanged, under"
        echo "its name and version."
        echo
        cat "$work/list"
        while read -r sum; do
            echo
            rule
            sort -u "$work/$sum.crates"
            echo
            cat "$work/$sum"
        done < "$work/order"
        echo
        rule
        text_of "$rust"
        rule
        cat release/musl.txt
    } > "$output"
}

gnu=() musl=()
for machine in $MACHINES; do
    gnu+=("$machine-unknown-linux-gnu")
    musl+=("$machine-unknown-linux-musl" "$machine-apple-darwin")
done
notices fluxqueue "$out/THIRD-PARTY-fluxqueue.txt" "${gnu[@]}"
notices kubectl-fluxqueue "$out/THIRD-PARTY-kubectl-fluxqueue.txt" "${musl[@]}"
