//! Tells the binary which compiler built it: benchmark reports name it.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let version = output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.as_deref().map_or("unknown rustc", str::trim);
    println!("cargo:rustc-env=TIDEMARK_RUSTC={version}");
    println!("cargo:rerun-if-changed=build.rs");
}
