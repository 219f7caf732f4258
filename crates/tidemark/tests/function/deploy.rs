//! `function init`, `deploy` and `run`.

use std::fs;

use serde_json::{Value, json};

use super::process::{self, Folder, assert_refused, text, tidemark};
use super::{alter, done, function, has_jail, hello, init, running};

#[test]
fn init_writes_files_and_overwrites_none() {
    let folder = Folder::new();
    let said = init(&folder, "hello --runtime python-3.11");
    assert!(
        said.contains("function.toml, main.py, .gitignore"),
        "{said}"
    );
    let refused = |words: &str, part: &str| {
        let mut command = tidemark(&format!("function init {words}"));
        let output = command.current_dir(folder.join(".")).output().unwrap();
        assert_refused(&output, 1, part);
    };
    refused(
        "hello --runtime node-22",
        "hello/function.toml is there already, and nothing was written",
    );
    assert!(!folder.join("hello/index.mjs").exists());
    refused("other --runtime ruby-3.3", "the runtimes are node-14.5,");
    refused("_other --runtime node-22", "cannot be called `_other`");
    assert!(!folder.join("other").exists());
    init(&folder, "other --folder hello/deep/er --runtime node-22");
    let written = fs::read_to_string(folder.join("hello/deep/er/function.toml")).unwrap();
    assert!(written.contains("id = \"other\"") && written.contains("\"index.mjs\""));
}

#[test]
fn deploy_makes_the_function_and_changes_what_differs() {
    let folder = Folder::new();
    let server = hello(&folder);
    let output = function(&folder, &["deploy", "--no-wait"]);
    assert!(done(&output).contains("of `hello`"));
    let errors = text(&output.stderr);
    assert!(errors.contains("Packed 4 files"), "{errors}");
    assert!(
        errors.contains("Created function `hello` for node-20.0."),
        "{errors}"
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["entrypoint"], "index.mjs");
    assert_eq!(made["timeout"], 15);

    // What the file does not name stays.
    server.call(
        "PUT",
        "/functions/hello",
        &json!({"deploymentRetention": 3, "timeout": 10}),
    );
    let file = folder.join("hello/function.toml");
    alter(&file, "execute = []", "execute = [\"users\", \"any\"]");
    let output = function(&folder, &["deploy", "--no-wait", "--no-activate"]);
    done(&output);
    let errors = text(&output.stderr);
    let changed = "Changed function `hello`:\n  ~ execute: [] -> [\"users\",\"any\"]\n  \
                   ~ timeout: 10 -> 15\n";
    assert!(errors.contains(changed), "{errors}");
    let output = function(&folder, &["deploy", "--no-wait"]);
    done(&output);
    assert!(
        !text(&output.stderr).contains("Changed"),
        "{}",
        text(&output.stderr)
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["deploymentRetention"], 3);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 3);
    let activated = deployments["deployments"].as_array().unwrap().iter();
    assert_eq!(activated.filter(|one| one["activate"] == true).count(), 2);
}

#[test]
fn deploy_of_a_folder_that_cannot_be_sent_changes_nothing() {
    let folder = Folder::new();
    let server = hello(&folder);
    let refused = |part: &str| {
        let output = function(&folder, &["deploy", "--no-wait"]);
        assert_refused(&output, 1, part);
    };
    let file = folder.join("hello/function.toml");
    alter(&file, "timeout = 15", "timeot = 15");
    refused("unknown field `timeot`");
    alter(&file, "timeot = 15", "timeout = 15");
    alter(&file, "\"index.mjs\"", "\"main.mjs\"");
    refused("`entrypoint` names `main.mjs`, and the folder has no such file");
    alter(&file, "\"main.mjs\"", "\"index.mjs\"");
    let left_out = folder.join("hello/.gitignore");
    let before = fs::read_to_string(&left_out).unwrap();
    fs::write(&left_out, "*.mjs\n").unwrap();
    refused("the entrypoint `index.mjs` is left out by .gitignore");
    fs::write(&left_out, before).unwrap();
    let link = folder.join("hello/out");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    refused("`out` is a link to /etc/passwd, which leads out of the folder");
    fs::remove_file(&link).unwrap();
    alter(&file, "runtime = \"node-20.0\"", "runtime = \"node-1\"");
    refused("creating function `hello`: the server refused:");
    let all = server.call("GET", "/functions", &Value::Null);
    assert_eq!(all["total"], 0);
    let elsewhere = function(&folder, &["deploy", "..", "--no-wait"]);
    assert_refused(
        &elsewhere,
        1,
        "`tidemark function init NAME` makes a folder",
    );
}

#[test]
fn deploy_says_when_the_server_lacks_the_runtime() {
    let folder = Folder::new();
    init(&folder, "hello --runtime node-14.5");
    let server = process::start(&folder);
    let part = "is sent and cannot be built: the server has no runtime `node-14.5`, it has";
    assert_refused(&function(&folder, &["deploy"]), 1, part);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 1);
}

#[test]
fn deploy_sends_a_large_archive_in_parts() {
    let folder = Folder::new();
    let server = hello(&folder);
    let noise: Vec<u8> = (0..12_000_000_u64 / 8)
        .flat_map(|nth| {
            nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .to_le_bytes()
        })
        .collect();
    fs::write(folder.join("hello/noise"), noise).unwrap();
    done(&function(&folder, &["deploy", "--no-wait"]));
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    let sent = &deployments["deployments"][0];
    assert!(
        sent["sourceSize"].as_u64().unwrap() > 2 * 5_242_880,
        "{sent}"
    );
    assert_eq!(sent["chunksTotal"], sent["chunksUploaded"], "{sent}");
    let noise = vec![7; 251_000_000];
    fs::write(folder.join("hello/noise"), noise).unwrap();
    let output = function(&folder, &["deploy", "--no-wait"]);
    let part = "250000000 bytes before compression); its largest files are noise (251000 KB)";
    assert_refused(&output, 1, part);
}

/// An option that has no word on the wire.
#[test]
fn deploy_sets_the_network_that_the_file_names() {
    let folder = Folder::new();
    let server = hello(&folder);
    let network = || {
        let options = "/tidemark/functions/hello/options";
        server.call("GET", options, &Value::Null)["network"].clone()
    };
    let deploy = || text(&function(&folder, &["deploy", "--no-wait"]).stderr);
    let said = deploy();
    assert!(!said.contains("network"), "{said}");
    assert_eq!(network(), "none");
    let file = folder.join("hello/function.toml");
    alter(&file, "# network", "network");
    let said = deploy();
    assert!(
        said.contains("  ~ network: \"none\" -> \"outside\""),
        "{said}"
    );
    assert_eq!(network(), "outside");
    let said = deploy();
    assert!(!said.contains("network"), "{said}");
    alter(&file, "\"outside\"", "\"none\"");
    deploy();
    assert_eq!(network(), "none");
    alter(&file, "\"none\"", "\"all\"");
    let refused = function(&folder, &["deploy"]);
    assert_refused(&refused, 1, "expected `none` or `outside`");
}

#[test]
fn deploy_waits_for_the_build_and_run_prints_what_came_of_it() {
    if !has_jail() {
        return;
    }
    for language in ["node", "python"] {
        let folder = Folder::new();
        let server = running(&folder, language);
        let output = function(&folder, &["deploy"]);
        let said = done(&output);
        assert!(said.contains("of `hello` is built and active"), "{said}");
        let made = server.call("GET", "/functions/hello", &Value::Null);
        assert!(
            said.contains(made["deploymentId"].as_str().unwrap()),
            "{said} {made}"
        );

        fs::write(folder.join("hello/body.json"), r#"{"n":"a b"}"#).unwrap();
        let words = [
            "run",
            "--body",
            "@body.json",
            "--path",
            "/a?b=c",
            "-v",
            "--method",
            "put",
        ];
        let output = function(&folder, &words);
        assert_eq!(done(&output), r#"{"hello":"world","given":{"n":"a b"}}"#);
        let errors = text(&output.stderr);
        for part in [
            "completed, status 200",
            "content-type: application/json",
            "log | PUT /a",
        ] {
            assert!(errors.contains(part), "`{part}` is not in {errors}");
        }
        let failed = function(&folder, &["run", "hello", "--body", "{"]);
        assert_refused(&failed, 1, "failed, status 500");
        assert!(failed.stdout.is_empty());
        assert!(
            text(&failed.stderr).contains("  error | "),
            "{}",
            text(&failed.stderr)
        );
        let refused = function(&folder, &["run", "hello", "--path", &"x".repeat(3_000)]);
        assert_refused(&refused, 1, "running `hello`: the server refused");
    }
}

#[test]
fn deploy_fails_with_the_log_of_a_build_that_fails() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let server = running(&folder, "node");
    done(&function(&folder, &["deploy"]));
    let before = server.call("GET", "/functions/hello", &Value::Null);
    let file = folder.join("hello/function.toml");
    alter(
        &file,
        "commands = \"\"",
        "commands = \"printf 'one\\\\033[2J'; exit 3\"",
    );
    let output = function(&folder, &["deploy"]);
    assert_refused(&output, 1, "failed; its log is printed above");
    let errors = text(&output.stderr);
    assert!(errors.contains("one\\u{1b}[2J"), "{errors}");
    assert!(errors.contains("exit code 3"), "{errors}");
    let after = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(after["deploymentId"], before["deploymentId"]);
    assert_ne!(after["latestDeploymentId"], before["latestDeploymentId"]);

    alter(
        &file,
        "commands = \"printf 'one\\\\033[2J'; exit 3\"",
        "commands = \"\"",
    );
    let said = done(&function(&folder, &["deploy", "--no-activate"]));
    let active = before["deploymentId"].as_str().unwrap();
    assert!(
        said.contains(&format!("is built. The active one is {active}.")),
        "{said}"
    );
}
