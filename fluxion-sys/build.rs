//! Compiles the exception barrier (src/system/barrier.cpp), which needs a C++ compiler, and gives
//! the shared library the name that programs written for Fluxion look for.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fluxion_defects)");
    println!("cargo::rerun-if-changed=src/system/barrier.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/system/barrier.cpp")
        .warnings(true)
        .compile("fluxion_barrier");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libreapi_cli.so");
    }
}
