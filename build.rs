//! Puts the git commit into the binary, for `fluxqueue --version`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
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
