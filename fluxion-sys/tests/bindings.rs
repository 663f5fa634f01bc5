//! The checked-in bindings are what bindgen makes of the header. `FLUXION_SYS_REGENERATE=1` rewrites them.

use std::path::Path;

#[test]
fn bindings_are_those_of_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // bindgen loads libclang at run time and panics where there is none.
    let made = std::panic::catch_unwind(|| {
        bindgen::Builder::default()
            .header("include/reapi_cli.h")
            .allowlist_function("reapi_cli_.*|match_op_.*|fluxion_ext_.*")
            .allowlist_var("FLUXION_EXT_LATER_.*")
            .allowlist_type("match_op_t|resource_status_t|reapi_cli_.*")
            .use_core()
            .merge_extern_blocks(true)
            .layout_tests(false)
            .generate_comments(false)
            .rust_target(
                bindgen::RustTarget::stable(85, 0).unwrap_or_else(|_| panic!("a known version")),
            )
            .rust_edition(bindgen::RustEdition::Edition2024)
            .disable_header_comment()
            .raw_line("// Made by bindgen from include/reapi_cli.h: see tests/bindings.rs.")
            .formatter(bindgen::Formatter::Prettyplease)
            .generate()
    });
    let made = match made {
        Ok(made) => made.expect("the header compiles").to_string(),
        Err(panic) => {
            let why = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(why.contains("libclang"), "bindgen failed: {why}");
            eprintln!(
                "NOT CHECKED: libclang is missing, so the bindings were not compared with the header."
            );
            eprintln!("             On Debian: apt-get install libclang-dev");
            return;
        }
    };
    let path = root.join("src/bindings.rs");
    if std::env::var_os("FLUXION_SYS_REGENERATE").is_some() {
        std::fs::write(&path, &made).expect("src/bindings.rs can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("src/bindings.rs can be read");
    assert!(
        kept == made,
        "src/bindings.rs is not what bindgen makes: set FLUXION_SYS_REGENERATE=1 to rewrite it"
    );
}
