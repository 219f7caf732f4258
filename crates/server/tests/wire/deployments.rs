//! Deployments, sent whole and in parts as the official clients send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use engine::{ArchivePart, Quotas};
use serde_json::{Value, json};
use server::serve::Limits;
use testing::{Credentials, RawAnswer, RawClient};

use super::fixture::{KEY, LIMITS, PROJECT, QUOTAS, ROWS_KEY, TestServer};

const PATH: &str = "/v1/functions/f/deployments";
const BOUNDARY: &str = "----boundary";
/// As large as the parts of official clients.
const PART: usize = 5 << 20;

/// What is sent of a deployment.
struct Sent<'a> {
    range: &'a str,
    id: &'a str,
    name: &'a str,
    code: &'a [u8],
    texts: &'a [(&'a str, &'a str)],
}

const WHOLE: Sent<'static> = Sent {
    range: "",
    id: "",
    name: "code.tar.gz",
    code: &[0x1f, 0x8b, 8, 0],
    texts: &[("activate", "true"), ("entrypoint", "main.js")],
};

impl Sent<'_> {
    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, text) in self.texts {
            write!(
                body,
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n"
            )
            .unwrap();
        }
        write!(
            body,
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"code\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            self.name
        )
        .unwrap();
        body.extend_from_slice(self.code);
        write!(body, "\r\n--{BOUNDARY}--\r\n").unwrap();
        body
    }
}

fn client(server: &TestServer) -> RawClient {
    RawClient::new(server.address.port(), PROJECT, KEY)
}

fn send_to(server: &TestServer, path: &str, sent: &Sent<'_>) -> RawAnswer {
    let body = sent.body();
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let header = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!("{name}: {value}\r\n"),
    };
    let extra = [
        header("Content-Type", &kind),
        header("Content-Length", &body.len().to_string()),
        header("Content-Range", sent.range),
        header("X-Appwrite-ID", sent.id),
    ];
    let extra = extra.concat();
    let client = client(server);
    let head = client.head(Credentials::Key, "POST", path, &extra);
    client
        .send(&[head.as_bytes(), &body].concat())
        .expect("each upload is answered")
}

fn send(server: &TestServer, sent: &Sent<'_>) -> RawAnswer {
    send_to(server, PATH, sent)
}

/// A server with the function `f`, and room for the parts of official clients.
fn start() -> TestServer {
    let server = TestServer::start_with(Limits {
        body_bytes_max: 20 << 20,
        ..LIMITS
    });
    let function = json!({"functionId": "f", "name": "F", "runtime": "node-22"});
    server.make("POST", "/v1/functions", &function);
    server
}

/// A deployment that is all there.
fn upload(server: &TestServer) -> String {
    let made = send(server, &WHOLE);
    assert_eq!(made.status, 202, "{made:?}");
    made.json()["$id"].as_str().unwrap().to_owned()
}

/// Bytes that no part repeats, and that begin like a gzip archive.
fn archive(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes: Vec<u8> = (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect();
    bytes[..2].copy_from_slice(&[0x1f, 0x8b]);
    bytes
}

/// The body of a download, to the end of its connection.
fn download(server: &TestServer, id: &str) -> Vec<u8> {
    let path = format!("{PATH}/{id}/download?type=source");
    let head = client(server).head(Credentials::Key, "GET", &path, "");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec())
        .unwrap()
        .to_lowercase();
    assert!(head.contains("content-type: application/gzip"), "{head}");
    let body = answer[end + 4..].to_vec();
    // By the length a client sees that an archive broke off.
    let length = format!("content-length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    body
}

#[test]
fn a_deployment_in_one_request_waits_for_its_build() {
    let server = start();
    let made = send(&server, &WHOLE);
    assert_eq!(made.status, 202, "{made:?}");
    let made = made.json();
    let id = made["$id"].as_str().unwrap();
    let parts = [
        ("status", json!("waiting")),
        ("sourceSize", json!(4)),
        ("totalSize", json!(4)),
        ("buildSize", json!(0)),
        ("buildDuration", json!(0)),
        ("buildLogs", json!("")),
        ("entrypoint", json!("main.js")),
        ("commands", json!("")),
        ("activate", json!(true)),
        ("resourceId", json!("f")),
        ("resourceType", json!("functions")),
        ("type", json!("manual")),
        ("chunksTotal", json!(1)),
        ("chunksUploaded", json!(1)),
        ("providerBranch", json!("")),
    ];
    for (name, value) in parts {
        assert_eq!(made[name], value, "{name}");
    }
    let path = format!("{PATH}/{id}");
    assert_eq!(server.ask("GET", &path, "").json(), made);
    let listed = server.ask("GET", PATH, "").json();
    assert_eq!(listed, json!({"total": 1, "deployments": [made]}));
    let function = server.ask("GET", "/v1/functions/f", "").json();
    assert_eq!(function["latestDeploymentId"], id);
    assert_eq!(function["latestDeploymentStatus"], "waiting");
    assert_eq!(function["latestDeploymentCreatedAt"], made["$createdAt"]);
    assert_eq!(function["deploymentId"], "", "it is not built");
    assert_eq!(download(&server, id), WHOLE.code);
    let output = server.ask("GET", &format!("{path}/download?type=output"), "");
    assert_eq!(output.refusal(), "400 build_not_ready");
    let server = server.restart();
    assert_eq!(server.ask("GET", &path, "").json(), made);
}

#[test]
fn parts_come_in_any_order_and_again() {
    let server = start();
    let code = archive(2 * PART + 1_000_000);
    let total = code.len();
    let part = |nth: usize| {
        let (start, end) = (nth * PART, ((nth + 1) * PART).min(total));
        (
            format!("bytes {start}-{}/{total}", end - 1),
            &code[start..end],
        )
    };
    let (range, bytes) = part(0);
    let first = Sent {
        range: &range,
        code: bytes,
        ..WHOLE
    };
    let begun = send(&server, &first).json();
    assert_eq!(
        (&begun["chunksUploaded"], &begun["chunksTotal"]),
        (&json!(1), &json!(3))
    );
    let id = begun["$id"].as_str().unwrap();
    let unsent = server.ask("GET", &format!("{PATH}/{id}/download"), "");
    assert_eq!(unsent.refusal(), "400 build_not_ready");
    // The last one names its end as the size, as some clients do.
    let last = format!("bytes {}-{total}/{total}", 2 * PART);
    for (range, bytes, uploaded) in [
        (last.clone(), part(2).1, 1),
        (part(1).0, part(1).1, 3),
        (part(1).0, part(1).1, 3),
        (last, part(2).1, 3),
        (part(0).0, part(0).1, 3),
    ] {
        let sent = Sent {
            range: &range,
            id,
            code: bytes,
            ..WHOLE
        };
        let answer = send(&server, &sent);
        assert_eq!(answer.status, 202, "{range}: {answer:?}");
        assert_eq!(answer.json()["chunksUploaded"], uploaded, "{range}");
        assert_eq!(answer.json()["$id"], id);
    }
    assert!(
        download(&server, id) == code,
        "it comes back as it was sent"
    );
    assert_eq!(server.ask("GET", PATH, "").json()["total"], 1);
}

#[test]
fn parts_that_contradict_others_change_nothing() {
    let server = start();
    let function = json!({"functionId": "g", "name": "G", "runtime": "node-22"});
    server.make("POST", "/v1/functions", &function);
    let code = archive(100);
    let first = Sent {
        range: "bytes 0-39/100",
        code: &code[..40],
        ..WHOLE
    };
    let begun = send(&server, &first).json();
    let id = begun["$id"].as_str().unwrap();
    let mut zeros = [0; 100];
    zeros[..2].copy_from_slice(&code[..2]);
    let cases: [(&str, &str, &[u8]); 9] = [
        ("bytes 0-39/100", id, &zeros[..40]),
        ("bytes 39-99/100", id, &code[39..]),
        ("bytes 0-99/100", id, &code),
        ("bytes 40-99/101", id, &code[40..]),
        ("bytes 40-98/100", id, &code[40..]),
        ("bytes 40-99/100", "", &code[40..]),
        ("bytes 100-100/100", id, &code[..1]),
        (
            "bytes 18446744073709551615-18446744073709551615/18446744073709551615",
            id,
            &code[..1],
        ),
        ("bytes 40-39/100", id, &code[40..]),
    ];
    for (range, id, bytes) in cases {
        let sent = Sent {
            range,
            id,
            code: bytes,
            ..WHOLE
        };
        let refused = send(&server, &sent).outcome();
        let is_size = refused == "400 deployment_invalid_file_size";
        assert!(
            is_size || refused == "400 storage_invalid_content_range",
            "{range}: {refused}"
        );
    }
    let rest = Sent {
        range: "bytes 40-99/100",
        id,
        code: &code[40..],
        ..WHOLE
    };
    let elsewhere = send_to(&server, "/v1/functions/g/deployments", &rest);
    assert_eq!(elsewhere.outcome(), "404 deployment_not_found");
    let nobody = Sent {
        id: "nobody",
        ..rest
    };
    assert_eq!(send(&server, &nobody).outcome(), "404 deployment_not_found");
    let unchanged = server.ask("GET", &format!("{PATH}/{id}"), "").json();
    assert_eq!(unchanged, begun);
    assert_eq!(send(&server, &rest).status, 202);
    assert_eq!(download(&server, id), code);
}

#[test]
fn ranges_that_are_none_are_refused() {
    let server = start();
    for range in [
        "bytes",
        "bytes 1-2",
        "bytes a-b/c",
        "bytes 0-3/*",
        "items 0-3/4",
        "bytes 3-0/4",
    ] {
        let refused = send(&server, &Sent { range, ..WHOLE }).outcome();
        assert_eq!(refused, "400 storage_invalid_content_range", "{range}");
    }
}

#[test]
fn uploads_that_are_none_are_refused_by_what_is_wrong() {
    let server = start();
    let large = format!("bytes 0-3/{}", 30_000_001);
    let nine = "x".repeat(70_000);
    let cases: [(Sent<'_>, &str); 9] = [
        (Sent { code: &[], ..WHOLE }, "400 storage_file_empty"),
        (
            Sent {
                name: "code.zip",
                ..WHOLE
            },
            "400 storage_file_type_unsupported",
        ),
        (
            Sent { name: "", ..WHOLE },
            "400 storage_file_type_unsupported",
        ),
        (
            Sent {
                code: b"PK34",
                ..WHOLE
            },
            "400 storage_file_type_unsupported",
        ),
        (
            Sent {
                texts: &[],
                ..WHOLE
            },
            "400 general_argument_invalid",
        ),
        (
            Sent {
                texts: &[("activate", "maybe")],
                ..WHOLE
            },
            "400 general_argument_invalid",
        ),
        (
            Sent {
                texts: &[("activate", "true")],
                ..WHOLE
            },
            "404 function_entrypoint_missing",
        ),
        (
            Sent {
                range: &large,
                ..WHOLE
            },
            "400 deployment_invalid_file_size",
        ),
        (
            Sent {
                texts: &[("activate", "true"), ("entrypoint", &nine)],
                ..WHOLE
            },
            "400 general_bad_request",
        ),
    ];
    for (nth, (sent, wanted)) in cases.iter().enumerate() {
        assert_eq!(send(&server, sent).outcome(), *wanted, "case {nth}");
    }
    assert_eq!(server.ask("GET", PATH, "").json()["total"], 0);
}

#[test]
fn bodies_that_are_no_form_are_refused() {
    let server = start();
    let mut client = client(&server);
    let form = format!("multipart/form-data; boundary={BOUNDARY}");
    let whole = WHOLE.body();
    let many = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n")
        .repeat(100);
    let bodies: [(&str, &[u8], &str); 8] = [
        (
            "application/json",
            b"{}",
            "415 general_unsupported_media_type",
        ),
        ("multipart/form-data", &whole, "400 general_bad_request"),
        (
            "multipart/form-data; boundary=x",
            &whole,
            "400 general_bad_request",
        ),
        (&form, b"", "400 general_bad_request"),
        (&form, b"\xff\xfe--", "400 general_bad_request"),
        (&form, &whole[..whole.len() / 2], "400 general_bad_request"),
        (&form, many.as_bytes(), "400 general_bad_request"),
        (
            &form,
            b"------boundary--\r\n",
            "400 general_argument_invalid",
        ),
    ];
    for (kind, body, wanted) in bodies {
        let refused = client.ask_typed(Credentials::Key, "POST", PATH, Some(kind), body);
        assert_eq!(refused.outcome(), wanted, "{kind}: {refused:?}");
    }
    let guest = client.ask_typed(Credentials::Guest, "POST", PATH, Some(&form), &whole);
    assert_eq!(guest.outcome(), "401 general_unauthorized_scope");
    let absent = "/v1/functions/nobody/deployments";
    assert_eq!(
        send_to(&server, absent, &WHOLE).outcome(),
        "404 function_not_found"
    );
    assert_eq!(server.ask("GET", PATH, "").json()["total"], 0);
}

/// Builds what has waited the longest.
fn build(server: &TestServer, is_ready: bool) {
    let engine = &server.engine;
    server.runtime.block_on(async {
        let build = engine.begin_build(None).await.unwrap().expect("one waits");
        let of = &build.deployment;
        let source = engine.piece(of.seq, ArchivePart::Source, 0).await.unwrap();
        assert_eq!(&*source.unwrap().bytes, WHOLE.code);
        for (part, bytes) in [
            (ArchivePart::Output, b"built"),
            (ArchivePart::Log, b"done."),
        ] {
            engine.keep_of_build(&build, part, 0, bytes).await.unwrap();
        }
        engine.end_build(&build, is_ready, 2_500).await.unwrap();
        let again = engine.end_build(&build, is_ready, 1).await;
        assert!(again.is_err(), "a build ends once");
    });
}

#[test]
fn a_deployment_is_active_once_it_is_built() {
    let server = start();
    let (first, second) = (upload(&server), upload(&server));
    let active = || server.ask("GET", "/v1/functions/f", "").json()["deploymentId"].clone();
    build(&server, true);
    assert_eq!(active(), *first);
    build(&server, false);
    assert_eq!(active(), *first, "what failed is not executed");
    let one = |id: &str| format!("{PATH}/{id}");
    let built = server.ask("GET", &one(&first), "").json();
    for (name, value) in [
        ("status", json!("ready")),
        ("buildLogs", json!("done.")),
        ("buildSize", json!(5)),
        ("totalSize", json!(9)),
        ("buildDuration", json!(2)),
    ] {
        assert_eq!(built[name], value, "{name}");
    }
    let activate = |id: &str| {
        let body = json!({ "deploymentId": id }).to_string();
        server.ask("PATCH", "/v1/functions/f/deployment", &body)
    };
    assert_eq!(activate(&second).refusal(), "400 build_not_ready");
    assert_eq!(activate("nobody").refusal(), "404 deployment_not_found");
    let copy = json!({ "deploymentId": first });
    let copy = server.make("POST", &format!("{PATH}/duplicate"), &copy);
    assert_eq!(copy.status, 202);
    let third = copy.json()["$id"].as_str().unwrap().to_owned();
    build(&server, true);
    assert_eq!(active(), *third);
    assert_eq!(activate(&first).status, 200);
    assert_eq!(active(), *first);
    let equal = "queries[0]=%7B%22method%22:%22equal%22,%22attribute%22:%22status%22,\
                 %22values%22:[%22ready%22]%7D";
    let listed = server.ask("GET", &format!("{PATH}?{equal}"), "").json();
    assert_eq!(listed["total"], 2);
    let server = server.restart();
    let function = server.ask("GET", "/v1/functions/f", "").json();
    assert_eq!(function["deploymentId"], *first);
    assert_eq!(function["deploymentCreatedAt"], built["$createdAt"]);
    server.make("DELETE", &one(&first), &Value::Null);
    let function = server.ask("GET", "/v1/functions/f", "").json();
    assert_eq!(function["deploymentId"], "");
    for (method, path) in [
        ("GET", one(&first)),
        ("DELETE", one(&first)),
        ("PATCH", format!("{}/status", one(&first))),
        ("GET", format!("{}/download", one(&first))),
    ] {
        let gone = server.ask(method, &path, "{}");
        assert_eq!(
            gone.refusal(),
            "404 deployment_not_found",
            "{method} {path}"
        );
    }
}

#[test]
fn an_execution_is_refused_by_what_is_missing() {
    let server = start();
    let execute = |key: Option<&str>| {
        let path = "/v1/functions/f/executions";
        server.ask_as(key, "POST", path, r#"{"body":"{}"}"#)
    };
    let set = |change: Value| server.make("PUT", "/v1/functions/f", &change);
    assert_eq!(execute(None).refusal(), "401 user_unauthorized");
    let unsupported = "404 function_runtime_unsupported";
    assert_eq!(execute(Some(KEY)).refusal(), unsupported);
    upload(&server);
    assert_eq!(execute(Some(KEY)).refusal(), unsupported, "none is built");
    build(&server, true);
    let refused = execute(Some(KEY));
    assert_eq!(refused.refusal(), "404 function_runtime_unsupported");
    assert!(refused.text.contains("`node-22`"), "{}", refused.text);
    for (execute_by, wanted) in [
        (json!(["users", "user:ann"]), "401 user_unauthorized"),
        (json!(["guests"]), "404 function_runtime_unsupported"),
        (json!(["any"]), "404 function_runtime_unsupported"),
    ] {
        set(json!({ "execute": execute_by }));
        assert_eq!(execute(None).refusal(), wanted, "{execute_by}");
    }
    set(json!({"enabled": false}));
    assert_eq!(execute(None).refusal(), "404 function_not_found");
    assert_eq!(
        execute(Some(KEY)).refusal(),
        "404 function_runtime_unsupported"
    );
    let absent = server.ask("POST", "/v1/functions/nobody/executions", "{}");
    assert_eq!(absent.refusal(), "404 function_not_found");
    let rows = server.ask_as(Some(ROWS_KEY), "POST", "/v1/functions/f/executions", "{}");
    assert_eq!(rows.refusal(), "401 general_unauthorized_scope");
}

#[test]
fn a_deployment_that_waits_is_given_up() {
    let server = start();
    let id = upload(&server);
    let path = format!("{PATH}/{id}/status");
    let ended = server.ask("PATCH", &path, "{}");
    assert_eq!(
        (ended.status.as_u16(), &ended.json()["status"]),
        (200, &json!("canceled"))
    );
    assert_eq!(
        server.ask("PATCH", &path, "{}").refusal(),
        "400 build_not_ready"
    );
    let next = server
        .runtime
        .block_on(server.engine.begin_build(None))
        .unwrap();
    assert!(next.is_none(), "{next:?}");
}

#[test]
fn a_function_has_a_hundred_deployments_and_no_more() {
    let server = start();
    for _ in 0..100 {
        upload(&server);
    }
    let more = send(&server, &WHOLE);
    assert_eq!(more.outcome(), "400 general_argument_invalid");
    assert!(
        more.text.contains("at most 100 deployments"),
        "{}",
        more.text
    );
}

fn ids(server: &TestServer) -> Vec<String> {
    let listed = server.ask("GET", PATH, "").json();
    let deployments = listed["deployments"].as_array().unwrap().iter();
    let ids = deployments.map(|one| one["$id"].as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn deployments_go_after_the_days_that_their_function_says() {
    const DAY_S: i64 = 86_400;
    let server = start();
    let expire = || server.runtime.block_on(server.engine.expire_deployments());
    let [old, failed, active] = [true, false, true].map(|is_ready| {
        let id = upload(&server);
        build(&server, is_ready);
        id
    });
    let waiting = upload(&server);
    server.skip_s(2 * DAY_S);
    let young = upload(&server);
    // Without a number of days all are kept.
    assert_eq!(expire().unwrap(), 0);
    server.make("PUT", "/v1/functions/f", &json!({"deploymentRetention": 3}));
    assert_eq!(expire().unwrap(), 0);
    server.make("PUT", "/v1/functions/f", &json!({"deploymentRetention": 1}));
    assert_eq!(expire().unwrap(), 2);
    assert_eq!(
        ids(&server),
        [active.clone(), waiting.clone(), young.clone()]
    );
    let function = server.ask("GET", "/v1/functions/f", "").json();
    assert_eq!(function["deploymentId"], json!(active));
    for gone in [&old, &failed] {
        let found = server.ask("GET", &format!("{PATH}/{gone}"), "");
        assert_eq!(found.refusal(), "404 deployment_not_found");
    }
    // One whose place another takes goes the next time.
    build(&server, true);
    assert_eq!(expire().unwrap(), 1);
    assert_eq!(ids(&server), [waiting, young]);
    assert_eq!(expire().unwrap(), 0);
}

#[test]
fn a_download_whose_archive_goes_meanwhile_ends_before_its_length() {
    // More than the buffers of both ends hold, so that the server still has to read some of it.
    const PARTS: usize = 30;
    const PART_BYTES: usize = 900_000;
    let server = start();
    let code = archive(PARTS * PART_BYTES);
    let mut id = String::new();
    for (nth, part) in code.chunks(PART_BYTES).enumerate() {
        let start = nth * PART_BYTES;
        let range = format!("bytes {start}-{}/{}", start + part.len() - 1, code.len());
        let sent = send(
            &server,
            &Sent {
                range: &range,
                id: &id,
                code: part,
                ..WHOLE
            },
        );
        assert_eq!(sent.status, 202, "{sent:?}");
        id = sent.json()["$id"].as_str().unwrap().to_owned();
    }
    let path = format!("{PATH}/{id}");
    let head = client(&server).head(Credentials::Key, "GET", &format!("{path}/download"), "");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = vec![0; 1_000];
    stream.read_exact(&mut answer).unwrap();
    let begun = String::from_utf8_lossy(&answer).to_lowercase();
    let length = format!("content-length: {}\r\n", code.len());
    assert!(begun.contains(&length), "{begun}");
    let engine = &server.engine;
    let next = |from: u64| {
        let piece = engine.piece(1, ArchivePart::Source, from);
        server.runtime.block_on(piece).unwrap()
    };
    assert!(next(0).is_some(), "the first deployment has the number 1");
    assert_eq!(server.ask("DELETE", &path, "").status, 204);
    // Its pieces are removed after that, a few at a time.
    let starts = (0..PARTS).map(|nth| (nth * PART_BYTES) as u64);
    while starts.clone().any(|start| next(start).is_some()) {
        std::thread::yield_now();
    }
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = &answer[end.unwrap() + 4..];
    assert!(body.len() < code.len(), "{} bytes", body.len());
    assert!(code.starts_with(body));
    // And the server goes on.
    assert_eq!(ids(&server), Vec::<String>::new());
}

#[test]
fn a_download_ends_where_a_piece_of_its_archive_is_missing() {
    let server = start();
    let path = format!("{PATH}/{}/download?type=output", upload(&server));
    let engine = &server.engine;
    server.runtime.block_on(async {
        let build = engine.begin_build(None).await.unwrap().expect("one waits");
        for (start, bytes) in [(0, b"begin"), (9, b"ended")] {
            let kept = engine.keep_of_build(&build, ArchivePart::Output, start, bytes);
            kept.await.unwrap();
        }
        engine.end_build(&build, true, 1).await.unwrap();
    });
    let headers = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
    let taken = server.connect().ask(&headers, "GET", &path, "");
    assert!(taken.is_err(), "ten bytes are promised: {taken:?}");
}

#[test]
fn archive_is_as_large_as_a_server_takes() {
    let server = TestServer::start_within(Quotas {
        source_bytes: 100,
        ..QUOTAS
    });
    let function = json!({"functionId": "f", "name": "F", "runtime": "node-22"});
    server.make("POST", "/v1/functions", &function);
    let code = [&[0x1f, 0x8b][..], &[0; 99]].concat();
    let whole = |bytes: usize| Sent {
        code: &code[..bytes],
        ..WHOLE
    };
    assert_eq!(send(&server, &whole(100)).status, 202);
    let refused = send(&server, &whole(101));
    assert_eq!(refused.outcome(), "400 deployment_invalid_file_size");
    let said = &refused.text;
    assert!(said.contains("101") && said.contains("100"), "{said}");
}
