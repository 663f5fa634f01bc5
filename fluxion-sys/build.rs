//! Compiles the exception barrier (src/system/barrier.cpp), which needs a C++ compiler, and sets
//! how the shared library is linked.
//!
//! It has a name of its own, so that a program in which it and upstream's `libreapi_cli.so` are
//! loaded finds the one that it asks for; where it stands in for upstream's, `libreapi_cli.so` is a
//! link to it. And it binds its exports to itself: where a program exports the same names, this
//! library still calls its own functions.

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
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfluxion_sys.so,-Bsymbolic");
    }
}
