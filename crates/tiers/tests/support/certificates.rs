//! Certificates of a test's own, made by `openssl`.

use std::path::Path;
use std::process::Command;

/// A certificate and its key, in PEM, signed by `issuer` or by itself.
pub fn certify(folder: &Path, name: &str, names: &str, issuer: Option<&str>) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder);
    openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '));
    openssl.args(["-subj", &format!("/CN={name}")]);
    openssl.args([
        "-keyout",
        &format!("{name}.key"),
        "-out",
        &format!("{name}.crt"),
    ]);
    match issuer {
        Some(issuer) => {
            openssl.args([
                "-CA",
                &format!("{issuer}.crt"),
                "-CAkey",
                &format!("{issuer}.key"),
            ]);
            openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
            openssl.args(["-addext", &format!("subjectAltName={names}")]);
        }
        None => {
            openssl.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
        }
    }
    let made = openssl.output().expect("openssl is on the path");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
}
