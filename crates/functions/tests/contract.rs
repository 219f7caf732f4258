//! What handlers see and what becomes of their answers, in each language.

mod fixture;

use fixture::{Language, check, failed, hostile, run, run_all};
use functions::RunCause;
use serde_json::{Value, json};

fn object(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_request_is_seen_whole() {
    for language in Language::ALL {
        let mut work = language.work("/echo?a=1&b=%20x&c");
        work.method = "PUT".into();
        work.headers = vec![
            ("host".into(), "example.org:8080".into()),
            ("content-type".into(), "text/plain".into()),
            ("x-appwrite-trigger".into(), "http".into()),
        ];
        work.body = "grüße".into();
        let seen = object(&run(work).response.body);
        let expected = json!({
            "method": "PUT", "scheme": "http", "host": "example.org", "port": 8080,
            "url": "http://example.org:8080/echo?a=1&b=%20x&c", "path": "/echo",
            "queryString": "a=1&b=%20x&c", "query": { "a": "1", "b": "%20x", "c": "" },
            "headers": {
                "host": "example.org:8080", "content-type": "text/plain",
                "x-appwrite-trigger": "http",
            },
            "body": "grüße", "raw": "grüße", "view": "grüße",
            "bytes": [103, 114, 195, 188, 195, 159, 101],
        });
        assert_eq!(seen, expected, "{language:?}");
    }
}

#[test]
fn a_body_is_viewed_by_its_type() {
    let cases = [
        ("application/json", r#"{"a":[1]}"#, json!({ "a": [1] })),
        ("application/json; charset=utf-8", "", json!({})),
        ("image/png", "abc", json!("bytes")),
        ("application/octet-stream", "abc", json!("bytes")),
        ("text/html", "abc", json!("abc")),
    ];
    for language in Language::ALL {
        for (kind, body, view) in &cases {
            let mut work = language.work("/echo");
            work.headers = vec![("content-type".into(), (*kind).into())];
            work.body = (*body).into();
            let seen = object(&run(work).response.body);
            assert_eq!(seen["view"], *view, "{language:?} {kind}");
        }
        let mut work = language.work("/json");
        work.body = r#"{"a":1,"b":2}"#.into();
        assert_eq!(&run(work).response.body[..], br#"{"sum":3}"#);
        let mut work = language.work("/json");
        work.body = "{".into();
        let outcome = run(work);
        assert_eq!(
            (outcome.cause, outcome.response.status),
            (RunCause::Answered, 500)
        );
        assert!(outcome.errors.contains("JSON"), "{}", outcome.errors);
    }
}

#[test]
fn a_response_leaves_as_it_was_made() {
    let plain = "text/plain; charset=utf-8";
    for language in Language::ALL {
        check(
            language,
            "/text",
            201,
            "héllo".as_bytes(),
            &[("content-type", plain), ("x-one", "1")],
        );
        check(language, "/send", 200, b"sent", &[("content-type", plain)]);
        check(
            language,
            "/typed",
            200,
            b"<p>",
            &[("content-type", "text/html; charset=utf-8")],
        );
        check(
            language,
            "/binary",
            200,
            &[0, 255, 1],
            &[("content-type", plain)],
        );
        check(language, "/empty", 204, b"", &[("content-type", plain)]);
        let target = ("location", "https://example.org/a");
        check(
            language,
            "/redirect",
            301,
            b"",
            &[("content-type", plain), target],
        );
        check(
            language,
            "/hidden",
            200,
            b"",
            &[("content-type", plain), ("x-kept", "c")],
        );
        check(language, "/fail", 503, b"no", &[("content-type", plain)]);
        check(
            language,
            "/missing",
            404,
            b"no route",
            &[("content-type", plain)],
        );
    }
}

#[test]
fn logs_belong_to_their_run() {
    for language in Language::ALL {
        let outcome = run(language.work("/log"));
        let hint = "Native log detected. Use context.log() or context.error() for logging.\n";
        let object = match language {
            Language::Node => r#"{"a":[1]}"#,
            Language::Python => "{'a': [1]}",
        };
        assert_eq!(outcome.logs, format!("one\n{object}\n{hint}native 1\n"));
        assert!(outcome.errors.contains("seen"), "{}", outcome.errors);
        assert!(
            outcome.errors.contains("contract."),
            "no stack: {}",
            outcome.errors
        );
        assert!(
            outcome.errors.ends_with("native error\n"),
            "{}",
            outcome.errors
        );
    }
}

#[test]
fn logs_of_parallel_runs_do_not_mix() {
    for language in Language::ALL {
        let names: Vec<String> = (0..8).map(|n| format!("w{n}")).collect();
        let works = names
            .iter()
            .map(|who| language.work(&format!("/parallel?who={who}")));
        let outcomes = fixture::run_all(works.collect());
        for (who, outcome) in names.iter().zip(outcomes) {
            let lines: Vec<&str> = outcome.logs.lines().skip(1).collect();
            let expected: Vec<String> = (0..3).map(|step| format!("{who} {step}")).collect();
            assert_eq!(lines, expected, "{language:?}");
        }
    }
}

#[test]
fn variables_are_the_whole_environment() {
    for language in Language::ALL {
        let outcome = run(language.work("/variable"));
        assert_eq!(
            &outcome.response.body[..],
            br#"{"secret":"s3cret","path":null}"#
        );
    }
}

#[test]
fn bodies_of_the_largest_size_pass() {
    for language in Language::ALL {
        let large = vec![b'x'; 10_485_760];
        let mut work = language.work("/length");
        work.body = large.clone().into();
        assert_eq!(&run(work).response.body[..], b"10485760");
        let outcome = run(language.work("/big?bytes=10485760"));
        assert!(
            outcome.response.body[..] == large[..],
            "{:?}",
            outcome.errors
        );
    }
}

#[test]
fn a_response_for_which_no_caller_waits_is_dropped_and_counted() {
    for language in Language::ALL {
        let mut work = language.work("/big?bytes=10485760");
        work.wait_max = None;
        let outcome = run(work);
        let response = &outcome.response;
        assert_eq!((response.status, response.body.len()), (200, 0));
        assert_eq!(outcome.cause, RunCause::Answered, "{:?}", outcome.errors);
        let mut work = language.work("/big?bytes=10485761");
        work.wait_max = None;
        assert_eq!(run(work).response.status, 500);
    }
}

#[test]
fn a_failed_handler_says_why() {
    for language in Language::ALL {
        for path in ["/nothing", "/string"] {
            failed(
                language,
                path,
                RunCause::Answered,
                "Return statement missing.",
            );
        }
        failed(language, "/throw", RunCause::Answered, "thrown here");
        failed(language, "/throw", RunCause::Answered, "contract.");
        failed(
            language,
            "/throw-odd",
            RunCause::Answered,
            "has no text|str() failed",
        );
        failed(language, "/circular", RunCause::Answered, "ircular");
        failed(
            language,
            "/status",
            RunCause::Answered,
            "the status 99; it must be 200 to 599",
        );
        for path in ["/header", "/header-break"] {
            failed(
                language,
                path,
                RunCause::Answered,
                "The response has a header that is none",
            );
        }
        failed(
            language,
            "/headers",
            RunCause::Answered,
            "the limit is 65536 bytes",
        );
        failed(
            language,
            "/big?bytes=10485761",
            RunCause::Answered,
            "the limit is 10485760 bytes",
        );
    }
}

#[test]
fn floods_of_logs_keep_their_end() {
    for language in Language::ALL {
        let outcome = run(language.work("/flood"));
        assert!(outcome.logs.starts_with("[WARNING] Logs truncated"));
        assert!(outcome.logs.ends_with("line 299998\nline 299999\n"));
        assert_eq!(outcome.logs.chars().count(), 1_000_000, "{language:?}");
        let outcome = run(language.work("/long-line"));
        assert_eq!(outcome.logs.chars().count(), 1_000_000, "{language:?}");
        assert!(outcome.logs.ends_with("€€€\n"));
    }
}

#[test]
fn code_that_cannot_be_loaded_says_why() {
    for language in Language::ALL {
        let cases = [
            ("absent", "is missing."),
            ("broken", "SyntaxError"),
            ("silent", "exports no function.|has no function main."),
            ("raising", "at load"),
        ];
        for (name, words) in cases {
            let mut deployment = hostile(language, &format!("load-{name}"));
            deployment.entrypoint = format!("{name}.{}", language.ending());
            failed_in(language, deployment, words);
        }
    }
}

/// A request to code that has no loop until something must be awaited.
fn plain(path: &str) -> functions::FunctionWork {
    plain_of("plain", path)
}

fn plain_of(name: &str, path: &str) -> functions::FunctionWork {
    let mut work = Language::Python.work(path);
    let mut deployment = hostile(Language::Python, name);
    deployment.entrypoint = "plain.py".into();
    work.deployment = std::sync::Arc::new(deployment);
    work
}

#[test]
fn code_without_a_loop_answers_from_threads() {
    let body = |path: &str| run(plain_of("threads", path)).response.body;
    // What takes long to import is not imported for it.
    assert_eq!(&body("/has-loop")[..], b"false");
    assert_eq!(&body("/text")[..], b"plain");
    assert!(run(plain("/stop")).errors.contains("StopIteration"));
    let works = (0..8).map(|number| plain(&format!("/whose?who={number}")));
    for (number, outcome) in run_all(works.collect()).iter().enumerate() {
        assert_eq!(&outcome.response.body[..], b"False");
        assert!(
            outcome.logs.ends_with(&format!("{number}\n")),
            "{}",
            outcome.logs
        );
    }
}

#[test]
fn code_without_a_loop_may_return_what_must_be_awaited() {
    let outcome = run(plain("/awaited"));
    assert_eq!(&outcome.response.body[..], b"awaited", "{}", outcome.errors);
    assert!(
        outcome.logs.ends_with("after the wait\n"),
        "{}",
        outcome.logs
    );
    let failed = run(plain("/fails"));
    assert!(
        failed.errors.contains("while it was awaited"),
        "{}",
        failed.errors
    );
    // A wait ends when it is cancelled, and its neighbours in peace.
    let mut never = plain("/never");
    never.timeout = std::time::Duration::from_secs(1);
    let outcomes = run_all(vec![never, plain("/awaited")]);
    assert_eq!(outcomes[0].cause, RunCause::TimedOut);
    assert_eq!(&outcomes[1].response.body[..], b"awaited");
}

/// Beside the adapter stand tests of what goes on in its threads, which no request brings about.
#[test]
fn adapter_of_python_passes_its_own_tests() {
    let runtimes = fixture::runtimes();
    let mut found = runtimes.found().iter();
    let python = found.find(|runtime| runtime.name == "python").unwrap();
    let tests = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../runtimes/python/test_adapter.py"
    );
    let mut command = std::process::Command::new(&python.program);
    let output = command.args(["-I", "-B", tests]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("Ran 10 tests"), "{words}");
}

fn failed_in(language: Language, deployment: functions::UnpackedDeployment, words: &str) {
    let mut work = language.work("/text");
    work.deployment = std::sync::Arc::new(deployment);
    let outcome = run(work);
    assert_eq!(
        (outcome.cause, outcome.response.status),
        (RunCause::Answered, 500)
    );
    let found = words.split('|').any(|words| outcome.errors.contains(words));
    assert!(found, "{language:?} {words}: {}", outcome.errors);
}
