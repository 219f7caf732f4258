//! `tidemark doctor --database`: what is wrong with a database before a store is in it.

mod process;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use process::{assert_refused, text, tidemark};
use serde_json::Value;
use testing_postgres::{Cluster, ClusterSettings};

fn cluster() -> Arc<Cluster> {
    Cluster::shared().unwrap()
}

/// The findings on a database, and the exit code.
fn doctor(url: &str, env: &[(&str, &str)]) -> (Option<i32>, Value) {
    let output = tidemark("doctor --json")
        .env("TIDEMARK_DATABASE", url)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let found = serde_json::from_slice(&output.stdout);
    let found: Value = found.unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(found["healthy"], output.status.success());
    (output.status.code(), found)
}

#[track_caller]
fn check(found: &Value, what: &str, health: &str, part: &str) -> String {
    let findings = found["findings"].as_array().unwrap();
    let one = findings.iter().find(|one| one["check"] == what);
    let one = one.unwrap_or_else(|| panic!("no finding `{what}` in {found:#}"));
    assert_eq!(one["health"], health, "{one:#}");
    let said = one["found"].as_str().unwrap();
    assert!(said.contains(part), "`{part}` is not in: {said}");
    let advice = one["advice"].as_str().unwrap_or_default();
    assert_eq!(advice.is_empty(), health == "ok", "{one:#}");
    advice.to_owned()
}

/// A server without syncs, whose databases the tests of this file make.
#[test]
fn a_database_that_is_fit_is_found_so_but_for_what_it_lacks() {
    let cluster = cluster();
    cluster
        .run_sql("postgres", &["CREATE DATABASE fit"])
        .unwrap();
    let (code, found) = doctor(&cluster.url("fit"), &[]);
    assert_eq!(code, Some(1), "{found:#}");
    check(
        &found,
        "connection",
        "ok",
        "takes writes; the connection is not encrypted",
    );
    check(&found, "version", "ok", "PostgreSQL 1");
    check(&found, "encoding", "ok", "UTF8");
    check(&found, "pooler", "ok", "session of its own");
    check(
        &found,
        "schema",
        "ok",
        "`tidemark` is not there, and the user `tidemark` may make it",
    );
    check(&found, "session", "ok", "in effect");
    check(&found, "keepalives", "ok", "needs none");
    let advice = check(
        &found,
        "durability",
        "bad",
        "off is fsync, full_page_writes",
    );
    assert!(advice.contains("ALTER SYSTEM SET fsync = on"), "{advice}");
    check(&found, "standbys", "warning", "(0 connected)");
    check(&found, "connections", "ok", "of 300 connections are free");
    check(&found, "snapshots", "ok", "No session");
    check(&found, "slots", "ok", "Each replication slot");
    check(&found, "autovacuum", "ok", "on");
    check(&found, "clock", "ok", "within a second");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'tidemark'";
    assert_eq!(
        cluster.run_sql("fit", &[left]).unwrap(),
        "0\n",
        "looking makes nothing"
    );
}

#[test]
fn a_server_that_could_lose_writes_or_stop_them_is_found() {
    let settings = ClusterSettings {
        syncs: true,
        further: &[
            "synchronous_commit=off",
            "autovacuum=off",
            "max_connections=40",
            "synchronous_standby_names=ANY 1 (a, b)",
        ],
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let slot = "SELECT pg_create_physical_replication_slot('gone', true)";
    cluster.run_sql("postgres", &[slot]).unwrap();
    let (code, found) = doctor(&cluster.url("postgres"), &[]);
    assert_eq!(code, Some(1), "{found:#}");
    check(&found, "durability", "bad", "off is synchronous_commit.");
    check(&found, "standbys", "bad", "no write would be answered");
    check(&found, "autovacuum", "warning", "off");
    check(&found, "connections", "warning", "of 40 connections");
    check(&found, "slots", "warning", "reads from gone");
    check(&found, "clock", "ok", "within a second");
}

#[test]
fn doctor_says_when_its_user_does_not_see_standbys() {
    let settings = ClusterSettings {
        further: &["cluster_name=s1"],
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let _standby = cluster.standby(&settings).unwrap();
    cluster.wait_for("s1").unwrap();
    let made = [
        "CREATE ROLE plain LOGIN",
        "CREATE DATABASE seen OWNER plain",
    ];
    cluster.run_sql("postgres", &made).unwrap();
    let url = cluster.url("seen").replacen("//tidemark@", "//plain@", 1);
    let (_, found) = doctor(&url, &[]);
    let advice = check(&found, "rights", "warning", "`plain` may not see");
    assert!(
        advice.contains("GRANT pg_read_all_stats TO \"plain\""),
        "{advice}"
    );
    let names = |found: &Value| -> Vec<String> {
        let findings = found["findings"].as_array().unwrap().iter();
        let names = findings.map(|one| one["check"].as_str().unwrap().to_owned());
        names.collect()
    };
    for unseen in ["standbys", "snapshots"] {
        assert!(!names(&found).contains(&unseen.to_owned()), "{found:#}");
    }
    check(&found, "connections", "ok", "are free");
    let granted = ["GRANT pg_read_all_stats TO plain"];
    cluster.run_sql("postgres", &granted).unwrap();
    let (_, found) = doctor(&url, &[]);
    check(&found, "standbys", "warning", "there is one");
    assert!(!names(&found).contains(&"rights".to_owned()), "{found:#}");
}

#[test]
fn a_restore_is_accepted_only_of_a_store_in_a_database() {
    let cluster = cluster();
    let make = "CREATE DATABASE unrestored";
    cluster.run_sql("postgres", &[make]).unwrap();
    let accept = |url: &str| {
        let mut accept = tidemark("doctor --accept-restore");
        accept.env("TIDEMARK_DATABASE", url).output().unwrap()
    };
    assert_refused(&accept(""), 1, "`--accept-restore` needs `--database`");
    let empty = accept(&cluster.url("unrestored"));
    assert_refused(&empty, 1, "`tidemark` holds no store that was restored");
}

#[test]
fn a_database_that_cannot_hold_a_store_is_found_with_what_to_do() {
    let cluster = cluster();
    let made = [
        "CREATE DATABASE latin ENCODING 'SQL_ASCII' TEMPLATE template0",
        "CREATE DATABASE taken",
        "CREATE ROLE \"O'Neill \\\" LOGIN",
    ];
    cluster.run_sql("postgres", &made).unwrap();
    let (code, found) = doctor(&cluster.url("latin"), &[]);
    assert_eq!(code, Some(1));
    check(
        &found,
        "encoding",
        "bad",
        "latin has the encoding SQL_ASCII",
    );

    let (code, found) = doctor(&cluster.url("absent"), &[]);
    assert_eq!(code, Some(1));
    let advice = check(&found, "connection", "bad", "\"absent\" does not exist");
    assert!(
        advice.contains("CREATE DATABASE \"absent\" ENCODING 'UTF8'"),
        "{advice}"
    );

    let other = ["CREATE SCHEMA tidemark", "CREATE TABLE tidemark.t (n int)"];
    cluster.run_sql("taken", &other).unwrap();
    let (_, found) = doctor(&cluster.url("taken"), &[]);
    check(&found, "schema", "bad", "`tidemark` holds 1 tables");
    let elsewhere = format!("{}&schema=My%20%22own%22%20%27s", cluster.url("taken"));
    let (_, found) = doctor(&elsewhere, &[]);
    check(&found, "schema", "ok", "`My \"own\" 's` is not there");

    let weak = cluster
        .url("taken")
        .replace("tidemark@", "O%27Neill%20%5C@");
    let (_, found) = doctor(&format!("{weak}&schema=s"), &[]);
    let advice = check(&found, "schema", "bad", "may not make it");
    let expected = "CREATE SCHEMA \"s\" AUTHORIZATION \"O'Neill \\\"";
    assert!(advice.contains(expected), "{advice}");
    cluster.run_sql("taken", &["CREATE SCHEMA s"]).unwrap();
    let (_, found) = doctor(&format!("{weak}&schema=s"), &[]);
    check(&found, "schema", "bad", "may not make tables in it");
}

#[test]
fn a_host_that_does_not_answer_is_named_and_the_next_one_taken() {
    let cluster = cluster();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    // It takes connections, and never says a word.
    let silent = mute.local_addr().unwrap();
    let socket = cluster.socket_folder().display().to_string();
    let place = format!("host=127.0.0.1,{socket}&port={},5432", silent.port());
    let url = format!("postgres://tidemark@/postgres?{place}&connect_timeout=1");
    let (_, found) = doctor(&url, &[]);
    check(
        &found,
        "connection",
        "ok",
        &format!("{socket}/.s.PGSQL.5432 takes writes"),
    );
    let url = format!("postgres://tidemark@{silent}/postgres?connect_timeout=1");
    let (code, found) = doctor(&url, &[]);
    assert_eq!(code, Some(1));
    check(
        &found,
        "connection",
        "bad",
        &format!("{silent}: it does not answer"),
    );
    drop(mute);
    let (_, found) = doctor(&url, &[]);
    check(&found, "connection", "bad", &silent.to_string());
}

#[test]
fn bytes_that_are_no_answer_of_a_database_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (nth, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            // A length of 4 GiB, and a server of HTTP.
            let answer: &[u8] = [&b"NR\xff\xff\xff\xff"[..], b"HTTP/1.1 400 Bad\r\n\r\n"][nth % 2];
            let _ = stream.write_all(answer);
        }
    });
    for _ in 0..2 {
        let url = format!("postgres://u@{address}/d?connect_timeout=2");
        let (code, found) = doctor(&url, &[]);
        assert_eq!(code, Some(1), "{found:#}");
        check(&found, "connection", "bad", &address.to_string());
    }
}

/// A key and a certificate that vouches for itself, for `db.test`.
fn certify(cluster: &Cluster) {
    let data = cluster.socket_folder().join("data");
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let mut openssl = std::process::Command::new("openssl");
    openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes".split(' '));
    openssl.args("-subj /CN=db.test -addext subjectAltName=DNS:db.test -days 2".split(' '));
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
    let made = openssl
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let owner = fs::metadata(&data).unwrap();
    for file in [&key, &certificate] {
        std::os::unix::fs::chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let on = ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"];
    cluster.run_sql("postgres", &on).unwrap();
    while cluster.run_sql("postgres", &["SHOW ssl"]).unwrap() != "on\n" {
        std::thread::yield_now();
    }
}

const HERE: &str = "host=127.0.0.1";
const NAME: &str = "host=db.test&hostaddr=127.0.0.1";

type EncryptionExpected = Result<&'static str, &'static str>;

/// What becomes of a connection to that host, with `root` naming the certificate itself.
fn by_mode(root: &str) -> Vec<(&'static str, String, EncryptionExpected)> {
    let plain = |host, mode: &str, expected| (host, format!("sslmode={mode}"), expected);
    let rooted = |host, mode: &str, expected| (host, format!("sslmode={mode}&{root}"), expected);
    let absent = "sslmode=verify-ca&sslrootcert=/absent.pem".to_owned();
    vec![
        plain(HERE, "disable", Ok("is not encrypted")),
        plain(HERE, "allow", Ok("is not encrypted")),
        plain(HERE, "prefer", Ok("is encrypted")),
        plain(HERE, "require", Ok("is encrypted")),
        // Nothing vouches for it but itself, which no system believes.
        plain(HERE, "verify-ca", Err("certificate")),
        plain(NAME, "verify-full", Err("certificate")),
        rooted(HERE, "require", Ok("is encrypted")),
        rooted(HERE, "verify-ca", Ok("is encrypted")),
        rooted(NAME, "verify-full", Ok("is encrypted")),
        rooted(HERE, "verify-full", Err("not valid for name")),
        (HERE, absent, Err("/absent.pem")),
    ]
}

#[test]
fn a_connection_is_encrypted_and_the_server_verified_as_the_url_wants_it() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let settings = ClusterSettings {
        port: Some(port),
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let found = |host: &str, mode: &str| {
        let url = format!("postgres://tidemark@/postgres?{host}&port={port}&{mode}");
        doctor(&url, &[]).1
    };
    let here = HERE;
    check(
        &found(here, "sslmode=prefer"),
        "connection",
        "ok",
        "is not encrypted",
    );
    check(
        &found(here, "sslmode=require"),
        "connection",
        "bad",
        "does not support TLS",
    );
    certify(&cluster);
    let root = cluster.socket_folder().join("data/server.crt");
    for (host, mode, expected) in by_mode(&format!("sslrootcert={}", root.display())) {
        let (verdict, text) = match expected {
            Ok(text) => ("ok", text),
            Err(text) => ("bad", text),
        };
        check(&found(host, &mode), "connection", verdict, text);
    }
    let rules = "local all all trust\nhostssl all all all trust\n";
    fs::write(cluster.socket_folder().join("data/pg_hba.conf"), rules).unwrap();
    cluster
        .run_sql("postgres", &["SELECT pg_reload_conf()"])
        .unwrap();
    check(
        &found(here, "sslmode=allow"),
        "connection",
        "ok",
        "is encrypted",
    );
    check(
        &found(here, "sslmode=disable"),
        "connection",
        "bad",
        "no encryption",
    );
}

#[test]
fn a_password_comes_from_the_file_and_is_shown_nowhere() {
    let settings = ClusterSettings {
        further: &["password_encryption=scram-sha-256"],
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let folder = cluster.socket_folder();
    let role = ["CREATE ROLE guarded LOGIN PASSWORD 'geheim:1'"];
    cluster.run_sql("postgres", &role).unwrap();
    let rules = "local all tidemark trust\nlocal all guarded scram-sha-256\n";
    fs::write(folder.join("data/pg_hba.conf"), rules).unwrap();
    cluster
        .run_sql("postgres", &["SELECT pg_reload_conf()"])
        .unwrap();
    let url = cluster.url("postgres").replace("tidemark@", "guarded@");
    let own = tempfile::tempdir().unwrap();
    let file = own.path().join("pgpass");
    let pass = |password: &str| {
        fs::write(
            &file,
            format!("{}:5432:*:guarded:{password}\n", folder.display()),
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let (_, found) = doctor(&url, &[]);
    let advice = check(&found, "connection", "bad", "password missing");
    assert!(advice.contains("PGPASSFILE"), "{advice}");
    let env = [("PGPASSFILE", file.to_str().unwrap())];
    let (_, found) = doctor(&url, &env);
    let advice = check(&found, "connection", "bad", "No such file");
    assert!(advice.contains("a file that is there"), "{advice}");
    pass("geheim\\:1");
    let (_, found) = doctor(&url, &env);
    check(&found, "connection", "ok", "takes writes");
    pass("geheim\\:2");
    let (_, found) = doctor(&url, &env);
    check(
        &found,
        "connection",
        "bad",
        "password authentication failed",
    );
    assert!(!found.to_string().contains("geheim"), "{found}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, found) = doctor(&url, &env);
    check(&found, "connection", "bad", "others may read it: chmod 600");
    let inside = url.replace("guarded@", "guarded:geheim%3A1@");
    let (_, found) = doctor(&inside, &[]);
    check(&found, "connection", "ok", "takes writes");
    assert!(!found.to_string().contains("geheim"), "{found}");
}

#[test]
fn a_url_that_cannot_be_meant_is_refused_without_its_password() {
    for (url, expected) in [
        ("mysql://u:geheim@a/d", "postgres://user@host:5432/database"),
        (
            "postgres://u:geheim@a/d?sslmode=on",
            "`sslmode` must be disable",
        ),
        ("postgres://u:geheim@a:port/d", "port"),
        (
            "postgres://u@a/d?passwort=geheim",
            "no parameter `passwort`",
        ),
    ] {
        let output = tidemark("doctor")
            .args(["--database", url])
            .output()
            .unwrap();
        assert_refused(&output, 1, expected);
        assert!(
            !text(&output.stderr).contains("geheim"),
            "{}",
            text(&output.stderr)
        );
    }
    let mut help = tidemark("doctor --help");
    let help = help.env("TIDEMARK_DATABASE", "postgres://u:geheim@a/d");
    let help = help.output().unwrap();
    assert!(!text(&help.stdout).contains("geheim"));
}
