//! Compiles the exception barrier (src/system/barrier.cpp); needs a C++ compiler.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fluxion_defects)");
    println!("cargo::rerun-if-changed=src/system/barrier.cpp");
    cc::Build::new().cpp(true).std("c++17").file("src/system/barrier.cpp").warnings(true).compile("fluxion_barrier");
}
