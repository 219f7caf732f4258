//! Functions on a machine without user namespaces: isolation `reduced`, through the server.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use functions::jail::JailLevel;
use functions::jail::attempt::try_jail;
use serde_json::{Value, json};

use super::fixture::{BINARY, Host, NODE};

const NODE_CODE: &str = "
const fs = require('node:fs')
const net = require('node:net')
const tried = (act) => { try { act(); return 'done' } catch (error) { return error.code } }
module.exports = async ({ req, res }) => {
  const connected = await new Promise((resolve) => {
    const socket = net.connect(Number(req.query.port), '127.0.0.1')
    socket.on('connect', () => resolve('done')).on('error', (error) => resolve(error.code))
  })
  return res.json({
    body: req.bodyText, secret: process.env.SECRET, connected,
    read: tried(() => fs.readFileSync(req.query.file)),
    write: tried(() => fs.writeFileSync(__filename, '')),
  })
}";

/// A server of root's gives functions another user, who must get to their code.
fn open_way(host: &mut Host) {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let runtimes = host.make("GET", "/runtimes", &Value::Null);
    assert_eq!(runtimes["total"], 0);
    host.stop();
    // Its lines are written by a thread of their own, and all are there when it has ended.
    let log = host.log();
    assert!(
        log.contains("may not enter") && log.contains("`chmod o+x` it"),
        "{log}"
    );
    let data = host.data();
    for folder in [data.parent().unwrap(), &data] {
        fs::set_permissions(folder, Permissions::from_mode(0o711)).unwrap();
    }
    host.start();
}

#[test]
fn functions_of_isolation_reduced_run_and_reach_neither_data_nor_network() {
    if let Err(why) = try_jail(Path::new(BINARY), JailLevel::Reduced) {
        eprintln!("not tested, because no such jail can be made: {why}");
        return;
    }
    let mut host = Host::new(&["--functions-isolation=reduced"]);
    open_way(&mut host);
    let file = host.data().join("tidemark.db");
    assert!(file.exists());
    host.create("n", NODE, &json!({"timeout": 60}));
    let secret = json!({"key": "SECRET", "value": "sealed"});
    host.make("POST", "/n/variables", &secret);
    host.deploy("n", &[("main.js", NODE_CODE)], "");
    let path = format!("/?file={}&port={}", file.display(), host.port());
    let execution = host.executed("n", &json!({"body": "hello", "path": path}));
    let body = execution["responseBody"].as_str().unwrap();
    let seen: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{execution}"));
    assert_eq!(seen["body"], "hello", "{execution}");
    assert_eq!(seen["secret"], "sealed", "{execution}");
    for refused in ["read", "write", "connected"] {
        assert_ne!(seen[refused], "done", "{refused}: {execution}");
    }
}
