//! Puts the git commit into the binary, for `fluxqueue --version`.

use std::process::Command;

fn main() {
    // A path that is not there would mean a new build each time: a work tree and an archive have no
    // .git folder.
    for path in [".git/HEAD", ".git/logs/HEAD"] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FLUXQUEUE_COMMIT");
    // An image build has no .git: it passes the commit in the environment.
    let commit = std::env::var("FLUXQUEUE_COMMIT").ok().or_else(|| {
        let out = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        let text = String::from_utf8(out.stdout).ok()?;
        out.status.success().then(|| text.trim().to_owned())
    });
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=FLUXQUEUE_COMMIT={commit}");
}
