//! libFuzzer over one target, which `TIDEMARK_FUZZ_TARGET` names. `cargo xtask night` builds this
//! with coverage and starts it; libFuzzer's own options follow on the command line.

#![no_main]

use std::sync::OnceLock;

use fuzz::{INPUT_BYTES_MAX, TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("TIDEMARK_FUZZ_TARGET").expect("TIDEMARK_FUZZ_TARGET is set");
        let target = TARGETS.iter().find(|target| target.name == name);
        target.expect("TIDEMARK_FUZZ_TARGET names a target")
    })
}

fuzz_target!(|bytes: &[u8]| {
    (target().check)(&bytes[..bytes.len().min(INPUT_BYTES_MAX)]);
});
