//! The key that seals variables: in a file that an operator names, lost, put back, replaced.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixture::{BINARY, Host, NODE, can};

const VARIABLES: &str = "/f/variables";
/// What is not there or does not fit is refused.
const REFUSED: &str = "500 general_unknown";

fn flag(file: &Path) -> String {
    format!("--secret-key-file={}", file.display())
}

fn write(file: &Path, content: &[u8], mode: u32) {
    // One that may not be written is replaced.
    let _ = fs::remove_file(file);
    fs::write(file, content).unwrap();
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

/// What `tidemark doctor` finds of the key: its health and its words.
fn examined(host: &Host, named: Option<&Path>) -> (String, String) {
    let mut doctor = Command::new(BINARY);
    doctor.env("TIDEMARK_LISTEN", "127.0.0.1:0");
    doctor.envs(named.map(|named| ("TIDEMARK_SECRET_KEY_FILE", named)));
    doctor.args(["doctor", "--json", "--no-check", "--data"]);
    let output = doctor.arg(host.data()).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let found: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let all = found["findings"].as_array().unwrap();
    let mut all = all.iter().filter(|one| one["check"] == "variables");
    let found = all.next().unwrap_or_else(|| panic!("{said}"));
    let text = |member: &str| found[member].as_str().unwrap().to_owned();
    (text("health"), text("found"))
}

#[track_caller]
fn check_doctor(host: &Host, named: Option<&Path>, health: &str, part: &str) {
    let (found, said) = examined(host, named);
    assert_eq!(found, health, "{said}");
    assert!(said.contains(part), "{said}");
}

#[test]
fn variables_are_sealed_by_the_key_in_the_named_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("elsewhere");
    let mut host = Host::new(&["--functions=off", &flag(&file)]);
    host.create("f", NODE, &json!({}));
    check_doctor(&host, Some(&file), "ok", "no key is needed");
    let variable = json!({"variableId": "v", "key": "K", "value": "shown", "secret": false});
    host.make("POST", VARIABLES, &variable);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!host.data().join("secret.key").exists());
    check_doctor(&host, Some(&file), "ok", "is there");
    check_doctor(&host, None, "warning", "secret.key is not there");
    host.stop();

    // Lost: the rest is served, no other key is made, and the file counts once it is back.
    let key = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    host.start();
    let ask = |host: &Host, method: &str, body: &Value| host.ask(method, VARIABLES, body);
    let other = json!({"variableId": "w", "key": "L", "value": "x"});
    assert_eq!(ask(&host, "GET", &Value::Null).outcome(), REFUSED);
    assert_eq!(ask(&host, "POST", &other).outcome(), REFUSED);
    assert!(!file.exists());
    check_doctor(&host, Some(&file), "warning", "elsewhere is not there");
    write(&file, &key, 0o600);
    let read = host.make("GET", &format!("{VARIABLES}/v"), &Value::Null);
    assert_eq!(read["value"], "shown");
    host.stop();

    // Another key opens nothing, and seals nothing beside what it cannot open.
    write(&file, "0123456789abcdef".repeat(4).as_bytes(), 0o600);
    host.start();
    let broken = "500 encrypted_value_invalid";
    assert_eq!(ask(&host, "GET", &Value::Null).outcome(), broken);
    assert_eq!(ask(&host, "POST", &other).outcome(), REFUSED);
    check_doctor(&host, Some(&file), "warning", "does not hold the key");
    host.stop();
    write(&file, &key, 0o400);
    host.start();
    host.make("POST", VARIABLES, &other);
    assert_eq!(ask(&host, "GET", &Value::Null).json()["total"], 2);
    // Where it is lost for good, variables can be made again.
    host.stop();
    write(&file, "0123456789abcdef".repeat(4).as_bytes(), 0o600);
    host.start();
    for id in ["v", "w"] {
        host.make("DELETE", &format!("{VARIABLES}/{id}"), &Value::Null);
    }
    host.make("POST", VARIABLES, &variable);
    let read = host.make("GET", &format!("{VARIABLES}/v"), &Value::Null);
    assert_eq!(read["value"], "shown");
}

#[test]
fn a_key_file_that_others_may_read_or_that_holds_none_keeps_a_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let data = folder.path().join("data");
    let key = "0123456789abcdef".repeat(4);
    for (content, mode, part) in [
        (key.as_str(), 0o644, "(mode 644): `chmod 600` it"),
        (&key[1..], 0o600, "64 hexadecimal digits are needed"),
        ("", 0o600, "64 hexadecimal digits are needed"),
    ] {
        write(&file, content.as_bytes(), mode);
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "--listen=127.0.0.1:0", "--data"]);
        let output = serve.arg(&data).arg(flag(&file)).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("secret-key-file") && said.contains(part),
            "{said}"
        );
        // Before anything is made.
        assert!(!data.exists());
    }
}

#[test]
fn a_start_without_the_key_names_the_functions_that_lack_their_variables() {
    if !can() {
        return;
    }
    let mut host = Host::new(&[]);
    for id in ["f", "without"] {
        host.create(id, NODE, &json!({}));
        let code = "module.exports = ({ res }) => res.text(process.env.K ?? 'none')";
        host.deploy(id, &[("main.js", code)], "");
    }
    host.make("POST", VARIABLES, &json!({"key": "K", "value": "sealed"}));
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "sealed");
    host.stop();
    let file = host.data().join("secret.key");
    let key = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    host.start();
    let begun = Instant::now();
    while !host.log().contains("default/f") {
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", host.log());
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(!host.log().contains("default/without"), "{}", host.log());
    assert_eq!(host.execute("f", &json!({})).outcome(), REFUSED);
    let others = host.executed("without", &json!({}));
    assert_eq!(others["responseBody"], "none");
    write(&file, &key, 0o600);
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "sealed");
}
