//! Any bytes as the form that brings a deployment: refused and nothing is kept, or taken and the
//! archive has the bytes of its part.

use testing::Credentials;

use crate::fixture::{download, with_client};

const DEPLOYMENTS: &str = "/v1/functions/f/deployments";
/// Parts begin with it in the inputs.
const FORM: &str = "multipart/form-data; boundary=b";

pub fn check(bytes: &[u8]) {
    let ask = |method: &str, path: &str, body: &[u8]| {
        with_client(|client| client.ask_typed(Credentials::Key, method, path, Some(FORM), body))
    };
    let sent = ask("POST", DEPLOYMENTS, bytes);
    if sent.status != 202 {
        assert!((400..500).contains(&sent.status), "{sent:?}");
        let listed = ask("GET", DEPLOYMENTS, b"");
        assert_eq!(listed.json()["total"], 0, "a refused form left something");
        return;
    }
    let made = sent.json();
    let id = made["$id"].as_str().expect("it has one");
    let path = format!("{DEPLOYMENTS}/{id}");
    let archive = download(&path);
    assert_eq!(made["sourceSize"], archive.len(), "{made}");
    assert!(archive.starts_with(&[0x1f, 0x8b]));
    let is_part = bytes.windows(archive.len()).any(|part| part == archive);
    assert!(is_part, "the archive is no part of what was sent");
    let deleted = ask("DELETE", &path, b"");
    assert_eq!(deleted.status, 204, "{deleted:?}");
}
