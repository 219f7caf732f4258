//! Compiles the part in C, which uses the macros of Zend, for the PHP that `php-config` describes.
//! `PHP_CONFIG` names another one.

use std::env;
use std::process::Command;

const PARTS: [&str; 3] = ["zend/module.c", "zend/build.c", "zend/encode.c"];

fn main() {
    println!("cargo:rerun-if-env-changed=PHP_CONFIG");
    println!("cargo:rerun-if-changed=zend");
    let program = env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".to_owned());
    let output = Command::new(&program).arg("--includes").output();
    let output = output.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    assert!(output.status.success(), "{program} --includes failed");
    let includes = String::from_utf8(output.stdout).expect("paths of PHP in UTF-8");
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    let mut build = cc::Build::new();
    build
        .files(PARTS)
        .define("TIDEMARK_VERSION", version.as_str());
    build.define("COMPILE_DL_TIDEMARK", "1");
    for flag in includes.split_whitespace() {
        build.flag(flag);
    }
    // The headers of PHP leave parameters unused.
    build
        .warnings(true)
        .flag("-Wno-unused-parameter")
        .flag("-Wno-sign-compare");
    build.compile("tidemark_zend");
}
