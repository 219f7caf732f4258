//! Builds: what becomes of deployments, and of those whose server was killed.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{Host, NODE, PYTHON, can};

const SHOW: &str = "
const fs = require('fs')
module.exports = ({ res }) => res.json(fs.readdirSync(__dirname).sort())";

#[test]
fn a_build_runs_commands_and_its_result_is_executed() {
    if !can() {
        return;
    }
    let mut host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    host.make(
        "POST",
        "/f/variables",
        &json!({"key": "SHOWN", "value": "shown", "secret": false}),
    );
    host.make(
        "POST",
        "/f/variables",
        &json!({"key": "HIDDEN", "value": "never in a build"}),
    );
    let commands = "echo \"$SHOWN-$HIDDEN-$APPWRITE_FUNCTION_ID\"; mkdir made; \
                    ln -s /etc/passwd out; node --version; env";
    let id = host.deploy("f", &[("main.js", SHOW)], commands);
    let path = format!("/f/deployments/{id}");
    let built = host.make("GET", &path, &Value::Null);
    let log = built["buildLogs"].as_str().unwrap();
    assert!(log.contains("shown--f"), "{log}");
    assert!(log.contains("v20."), "{log}");
    assert!(log.contains("were left out"), "{log}");
    assert!(!log.contains("never in a build"), "{log}");
    assert!(built["buildSize"].as_u64().unwrap() > 0, "{built}");
    let files = host.executed("f", &json!({}));
    assert_eq!(files["responseBody"], r#"["made","main.js"]"#);
    // The folder is not needed after a start: it is made again.
    host.stop();
    std::fs::remove_dir_all(host.data().join("functions")).unwrap();
    host.start();
    let again = host.executed("f", &json!({}));
    assert_eq!(again["responseBody"], r#"["made","main.js"]"#);
    let same = host.make("GET", &path, &Value::Null);
    assert_eq!(same["buildLogs"], built["buildLogs"]);
}

/// What makes a jail is not in it: with a library of users it would run their code on the host.
#[test]
fn variables_of_a_build_reach_its_commands_and_not_what_shuts_them_in() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    let variable = json!({"key": "LD_PRELOAD", "value": "/absent.so", "secret": false});
    host.make("POST", "/f/variables", &variable);
    let id = host.deploy("f", &[("main.js", SHOW)], "echo \"$LD_PRELOAD\"");
    let built = host.make("GET", &format!("/f/deployments/{id}"), &Value::Null);
    let log = built["buildLogs"].as_str().unwrap();
    assert!(
        log.contains("\n/absent.so\n") || log.ends_with("\n/absent.so"),
        "{log}"
    );
    // The loader of each program that has the variable says that there is no such library.
    assert_eq!(log.matches("from LD_PRELOAD").count(), 1, "{log}");
}

#[test]
fn a_build_that_fails_says_why_and_leaves_the_active_one() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", PYTHON, &json!({}));
    let good = "def main(context):\n    return context.res.text('good')\n";
    host.deploy("f", &[("main.py", good)], "");
    for (commands, words) in [
        ("echo before; exit 7", "exit code 7"),
        ("echo no > /etc/passwd", "The commands ended"),
        (
            "rm -rf ./* && head -c 300000000 /dev/zero > large",
            "larger than allowed",
        ),
    ] {
        let id = host.send("f", &[("main.py", "")], commands);
        let ended = host.wait("f", &id, &["ready", "failed"]);
        assert_eq!(ended["status"], "failed", "{commands}: {ended}");
        let log = ended["buildLogs"].as_str().unwrap();
        assert!(log.contains(words), "{commands}: {log}");
        assert_eq!(host.executed("f", &json!({}))["responseBody"], "good");
    }
    host.create("absent", "python-3.8", &json!({}));
    let id = host.send("absent", &[("main.py", "")], "true");
    let ended = host.wait("absent", &id, &["failed"]);
    let log = ended["buildLogs"].as_str().unwrap();
    assert!(log.contains("`python-3.8` is not on this host"), "{log}");
}

#[test]
fn a_build_shows_its_log_while_it_runs_and_can_be_given_up() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    let id = host.send("f", &[("main.js", SHOW)], "echo begun; sleep 600");
    let path = format!("/f/deployments/{id}");
    let begun = std::time::Instant::now();
    loop {
        let seen = host.make("GET", &path, &Value::Null);
        if seen["buildLogs"] == "begun" {
            assert_eq!(seen["status"], "building");
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "{seen}\n{}",
            host.log()
        );
        std::thread::sleep(Duration::from_millis(30));
    }
    host.make("PATCH", &format!("{path}/status"), &json!({}));
    assert_eq!(host.make("GET", &path, &Value::Null)["status"], "canceled");
    // The next one is built as soon as the commands are gone.
    host.deploy("f", &[("main.js", SHOW)], "");
    assert_eq!(host.executed("f", &json!({}))["status"], "completed");
    // So is one whose function is deleted meanwhile.
    host.create("g", NODE, &json!({}));
    let id = host.send("g", &[("main.js", SHOW)], "sleep 600");
    host.wait("g", &id, &["building"]);
    host.make("DELETE", "/g", &Value::Null);
    host.deploy("f", &[("main.js", SHOW)], "");
}

#[test]
fn a_build_whose_server_was_killed_is_made_again() {
    if !can() {
        return;
    }
    let mut host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    // Packages that do not compress are still being stored when the server dies, too.
    let commands = "head -c 30000000 /dev/urandom > large; sleep 0.4; echo over";
    let id = host.send("f", &[("main.js", SHOW)], commands);
    for pause in [0, 300, 700, 1_000] {
        let seen = host.wait("f", &id, &["building", "ready"]);
        std::thread::sleep(Duration::from_millis(pause));
        host.kill();
        host.start();
        assert!(seen["status"] == "building" || pause > 0, "{seen}");
    }
    let built = host.wait("f", &id, &["ready", "failed"]);
    assert_eq!(built["status"], "ready", "{built}");
    assert!(
        built["buildLogs"].as_str().unwrap().contains("over"),
        "{built}"
    );
    let execution = host.executed("f", &json!({}));
    assert_eq!(execution["responseBody"], r#"["large","main.js"]"#);
    let size = built["buildSize"].as_u64().unwrap();
    assert!((30_000_000..31_000_000).contains(&size), "{built}");
}

#[test]
fn a_build_finds_what_builds_of_its_project_have_fetched() {
    if !can() {
        return;
    }
    let mut host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    let build = |host: &Host, commands: &str, status: &str| {
        let id = host.send("f", &[("main.js", SHOW)], commands);
        let ended = host.wait("f", &id, &["ready", "failed"]);
        assert_eq!(ended["status"], status, "{commands}: {ended}");
        ended["buildLogs"].as_str().unwrap().to_owned()
    };
    let fetch = "mkdir -p $npm_config_cache $XDG_CACHE_HOME/pip; cd /cache; ls; \
                 echo fetched > npm/package; ln -s /etc/passwd link";
    assert_eq!(build(&host, fetch, "ready"), "npm\npip");
    // What fails leaves nothing behind.
    build(&host, "echo changed > /cache/npm/package; exit 1", "failed");
    let show = "cd /cache; ls; cat npm/package";
    assert_eq!(build(&host, show, "ready"), "npm\nfetched");
    // Neither what is executed nor another project sees any of it.
    let code = "module.exports = ({ res }) => res.text(String(require('fs').existsSync('/cache')))";
    host.deploy("f", &[("main.js", code)], "true");
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "false");
    host.enter_new_project("other");
    host.create("f", NODE, &json!({}));
    assert_eq!(build(&host, "ls /cache", "ready"), "");
}

#[test]
fn a_build_never_keeps_what_another_one_has_left() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    host.deploy("f", &[("main.js", SHOW)], "true");
    // As a copy that goes on makes it when its build was given up.
    let folder = host.data().join("functions/now/build");
    for left in ["cache/npm", "99/cache/npm"] {
        std::fs::create_dir_all(folder.join(left)).unwrap();
        std::fs::write(folder.join(left).join("package"), "another's").unwrap();
    }
    host.deploy("f", &[("main.js", SHOW)], "");
    let id = host.deploy("f", &[("main.js", SHOW)], "ls /cache");
    let built = host.make("GET", &format!("/f/deployments/{id}"), &Value::Null);
    assert_eq!(built["buildLogs"], "", "{built}");
    let left = std::fs::read_dir(folder).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name != "packages").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_build_compiles_python_so_that_no_start_does() {
    if !can() {
        return;
    }
    let code = "import importlib.util, tiny
def main(context):
    files = [importlib.util.cache_from_source(file) for file in (__file__, tiny.__file__)]
    heads = [open(file, 'rb').read(8) for file in files]
    return context.res.json([int.from_bytes(head[4:], 'little') for head in heads])
";
    let host = Host::new(&[]);
    host.create("f", PYTHON, &json!({}));
    let files = [
        ("main.py", code),
        (".packages/tiny.py", "WORD = 1\n"),
        ("of_another_version.py", "print 'no Python 3'\n"),
    ];
    for commands in ["", "echo built"] {
        host.deploy("f", &files, commands);
        let execution = host.executed("f", &json!({}));
        // PEP 552: by a hash that is not compared, as files have other times where they run.
        assert_eq!(execution["responseBody"], "[1,1]", "{execution}");
    }
}
