//! Which Kubernetes the testbed has: the newest supported one, or the one that `KUBERNETES` names,
//! as in `make test KUBERNETES=1.36`.

use std::path::{Path, PathBuf};

/// The supported versions, the newest first. `tests/testbed/Makefile` builds one program for each.
pub(crate) const SUPPORTED: [&str; 3] = ["1.37", "1.36", "1.35"];

/// The version that the tests run on.
pub(crate) fn version() -> String {
    let named = std::env::var("KUBERNETES").unwrap_or_default();
    if named.is_empty() {
        return SUPPORTED[0].to_owned();
    }
    assert!(
        SUPPORTED.contains(&named.as_str()),
        "KUBERNETES={named} is not supported; there are: {}",
        SUPPORTED.join(", ")
    );
    named
}

/// True if the tests run on this version, which is supported, or a newer one.
pub(crate) fn is_at_least(first: &str) -> bool {
    let place = |version: &str| {
        SUPPORTED.iter().position(|known| *known == version).expect("it is supported")
    };
    place(&version()) <= place(first)
}

/// The testbed's program of that version. `root` is the project's directory.
pub(crate) fn testbed(root: &Path) -> PathBuf {
    let version = version();
    let (name, how) = if version == SUPPORTED[0] {
        ("testbed".to_owned(), "make testbed".to_owned())
    } else {
        (format!("testbed-{version}"), format!("make testbed KUBERNETES={version}"))
    };
    let path = root.join("tests/testbed/bin").join(name);
    assert!(
        path.exists(),
        "the testbed is not built: run `{how}` first ({} is missing)",
        path.display()
    );
    path
}
