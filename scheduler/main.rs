//! The `fluxqueue` binary.

fn main() {}
