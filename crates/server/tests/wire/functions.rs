//! Functions and their variables, as the official clients ask for them.

use model::Scope;
use serde_json::{Value, json};
use testing::traces;

use super::fixture::{ROWS_KEY, TestServer};

const FUNCTIONS: &str = "/v1/functions";

fn new(id: &str) -> Value {
    json!({"functionId": id, "name": format!("Function {id}"), "runtime": "node-20.0"})
}

/// A server with the function `f`.
fn start() -> TestServer {
    let server = TestServer::start();
    server.make("POST", FUNCTIONS, &new("f"));
    server
}

fn equal(attribute: &str, value: Value) -> Value {
    json!({"method": "equal", "attribute": attribute, "values": [value]})
}

/// Ids of the members of a list that these queries and this text find, or the refusal.
fn found(server: &TestServer, path: &str, queries: &[Value], search: &str) -> String {
    let query = |(nth, query): (usize, &Value)| {
        let text = query.to_string().replace('"', "%22");
        let text = text.replace('{', "%7B").replace('}', "%7D");
        format!("queries[{nth}]={text}")
    };
    let mut texts: Vec<String> = queries.iter().enumerate().map(query).collect();
    texts.push(format!("search={search}"));
    let listed = server.ask("GET", &format!("{path}?{}", texts.join("&")), "");
    if listed.status != 200 {
        return listed.refusal();
    }
    let listed = listed.json();
    let members = listed
        .as_object()
        .unwrap()
        .values()
        .find_map(Value::as_array);
    let members = members.expect("a list has members").iter();
    let ids: Vec<&str> = members.map(|one| one["$id"].as_str().unwrap()).collect();
    format!("{}: {}", listed["total"], ids.join(","))
}

#[test]
fn a_function_is_made_with_what_the_protocol_leaves_out() {
    let server = TestServer::start();
    let made = server.ask("POST", FUNCTIONS, &new("f").to_string());
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    let expected = json!({
        "$id": "f", "name": "Function f", "description": "", "runtime": "node-20.0",
        "execute": [], "events": [], "schedule": "", "timeout": 15, "enabled": true,
        "live": true, "logging": true, "deploymentRetention": 0, "deploymentId": "",
        "deploymentCreatedAt": "", "latestDeploymentId": "", "latestDeploymentCreatedAt": "",
        "latestDeploymentStatus": "", "scopes": [], "vars": [], "entrypoint": "", "commands": "",
        "version": "v5", "installationId": "", "providerRepositoryId": "", "providerBranch": "",
        "providerRootDirectory": "", "providerSilentMode": false, "providerBranches": [],
        "providerPaths": [], "buildSpecification": "s-0.5vcpu-512mb",
        "runtimeSpecification": "s-0.5vcpu-512mb", "emailEnabled": false,
        "$createdAt": made["$createdAt"], "$updatedAt": made["$createdAt"],
    });
    assert_eq!(made, expected);
    assert_eq!(server.ask("GET", "/v1/functions/f", "").json(), made);
    let again = server.ask("POST", FUNCTIONS, &new("f").to_string());
    assert_eq!(again.refusal(), "409 function_already_exists");
    let named = server.make("POST", FUNCTIONS, &new("unique()")).json();
    assert_eq!(named["$id"].as_str().unwrap().len(), 20);
}

#[test]
fn a_function_keeps_what_a_change_does_not_name() {
    let server = TestServer::start();
    let mut whole = new("f");
    for (name, value) in [
        ("execute", json!(["any", "user:ann"])),
        ("events", json!(["databases.*.tables.*.rows.*.create"])),
        ("schedule", json!("*/5 * * * *")),
        ("timeout", json!(900)),
        ("enabled", json!(false)),
        ("logging", json!(false)),
        ("entrypoint", json!("src/main.js")),
        ("commands", json!("npm install")),
        ("scopes", json!(["rows.read", "execution.write"])),
        ("buildSpecification", json!("s-2vcpu-2gb")),
        ("runtimeSpecification", json!("s-1vcpu-1gb")),
        ("deploymentRetention", json!(7)),
        ("installationId", json!("ignored")),
    ] {
        whole[name] = value;
    }
    let made = server.make("POST", FUNCTIONS, &whole).json();
    assert_eq!(made["scopes"], json!(["rows.read", "executions.write"]));
    assert_eq!(made["installationId"], "");
    let path = "/v1/functions/f";
    let changed = server
        .make("PUT", path, &json!({"name": "New", "runtime": "node-22"}))
        .json();
    let mut expected = made.clone();
    expected["name"] = json!("New");
    expected["runtime"] = json!("node-22");
    expected["$updatedAt"] = changed["$updatedAt"].clone();
    assert_eq!(changed, expected);
    assert_ne!(changed["$updatedAt"], made["$updatedAt"]);
    let emptied = json!({"name": "New", "execute": [], "schedule": "", "events": []});
    let emptied = server.make("PUT", path, &emptied).json();
    assert_eq!(emptied["execute"], json!([]));
    assert_eq!(emptied["schedule"], "");
    let server = server.restart();
    assert_eq!(server.ask("GET", path, "").json(), emptied);
    assert_eq!(server.ask("DELETE", path, "{}").status, 204);
    for method in ["GET", "PUT", "DELETE"] {
        let gone = server.ask(method, path, "{}");
        assert_eq!(gone.refusal(), "404 function_not_found", "{method}");
    }
}

#[test]
fn functions_are_listed_by_queries_and_words() {
    let server = TestServer::start();
    for (id, enabled, timeout) in [("a", true, 5), ("b", false, 10), ("c", true, 20)] {
        let mut function = new(id);
        function["enabled"] = json!(enabled);
        function["timeout"] = json!(timeout);
        server.make("POST", FUNCTIONS, &function);
    }
    let cases = [
        (vec![], "", "3: a,b,c"),
        (vec![equal("enabled", json!(true))], "", "2: a,c"),
        (vec![equal("runtime", json!("node-20.0"))], "", "3: a,b,c"),
        (vec![equal("deploymentId", json!("x"))], "", "0: "),
        (
            vec![json!({"method": "orderDesc", "attribute": "timeout"})],
            "",
            "3: c,b,a",
        ),
        (
            vec![json!({"method": "cursorAfter", "values": ["a"]})],
            "",
            "3: b,c",
        ),
        (vec![], "FUNCTION%20B", "1: b"),
        (
            vec![equal("commands2", json!("x"))],
            "",
            "400 general_query_invalid",
        ),
    ];
    for (queries, search, wanted) in cases {
        let got = found(&server, FUNCTIONS, &queries, search);
        assert_eq!(got, wanted, "{queries:?}");
    }
    let uncounted = server.ask("GET", "/v1/functions?total=false", "").json();
    assert_eq!(uncounted["total"], 0);
    assert_eq!(uncounted["functions"].as_array().unwrap().len(), 3);
}

#[test]
fn ids_that_are_names_of_routes_make_no_function() {
    let server = TestServer::start();
    for id in ["runtimes", "specifications", "templates", "usage"] {
        let refused = server.ask("POST", FUNCTIONS, &new(id).to_string());
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{id}");
    }
    let runtimes = server.ask("GET", "/v1/functions/runtimes", "").json();
    assert_eq!(runtimes, json!({"total": 0, "runtimes": []}));
    let known = server.ask("GET", "/v1/functions/specifications", "").json();
    assert_eq!(
        known["specifications"][0],
        json!({"memory": 512, "cpus": 0.5, "enabled": true, "slug": "s-0.5vcpu-512mb"})
    );
}

#[test]
fn keys_need_the_scopes_of_functions_and_guests_are_refused() {
    let server = start();
    server.make(
        "POST",
        "/v1/functions/f/variables",
        &json!({"variableId": "v", "key": "K", "value": "x"}),
    );
    let reads = [
        ("GET", "/v1/functions"),
        ("GET", "/v1/functions/f"),
        ("GET", "/v1/functions/f/variables"),
        ("GET", "/v1/functions/f/variables/v"),
        ("GET", "/v1/tidemark/functions/f/options"),
        ("GET", "/v1/tidemark/functions/f/output"),
    ];
    let writes = [
        ("PUT", "/v1/functions/f"),
        ("PUT", "/v1/functions/f/variables/v"),
        ("PATCH", "/v1/tidemark/functions/f/options"),
        ("DELETE", "/v1/functions/f/variables/v"),
        ("DELETE", "/v1/functions/f"),
    ];
    server.replace_key("rows", ROWS_KEY, &[Scope::FunctionsRead]);
    for (method, path) in writes {
        for key in [None, Some(ROWS_KEY)] {
            let refused = server.ask_as(key, method, path, "{}");
            let wanted = "401 general_unauthorized_scope";
            assert_eq!(refused.refusal(), wanted, "{method} {path}");
        }
    }
    for (method, path) in reads {
        let refused = server.ask_as(None, method, path, "");
        assert_eq!(
            refused.refusal(),
            "401 general_unauthorized_scope",
            "{path}"
        );
        let answer = server.ask_as(Some(ROWS_KEY), method, path, "");
        assert_eq!(answer.status, 200, "{path}");
    }
    server.replace_key("rows", ROWS_KEY, &[Scope::FunctionsWrite]);
    for (method, path) in reads {
        let refused = server.ask_as(Some(ROWS_KEY), method, path, "");
        assert_eq!(
            refused.refusal(),
            "401 general_unauthorized_scope",
            "{path}"
        );
    }
    for (method, path) in writes {
        let answer = server.ask_as(Some(ROWS_KEY), method, path, "{}");
        assert!(
            answer.status.is_success(),
            "{method} {path}: {}",
            answer.text
        );
    }
}

#[test]
fn a_variable_is_secret_unless_it_is_said_to_be_none() {
    let server = start();
    let path = "/v1/functions/f/variables";
    let secret = json!({"variableId": "s", "key": "TOKEN", "value": "hunter2"});
    let shown = json!({"key": "REGION", "value": "north", "secret": false});
    let made = server.make("POST", path, &secret).json();
    let expected = json!({
        "$id": "s", "key": "TOKEN", "description": "", "value": "", "secret": true,
        "resourceType": "functions", "resourceId": "f",
        "$createdAt": made["$createdAt"], "$updatedAt": made["$createdAt"],
    });
    assert_eq!(made, expected);
    let plain = server.make("POST", path, &shown).json();
    assert_eq!(
        (&plain["value"], &plain["secret"]),
        (&json!("north"), &json!(false))
    );
    let listed = server.ask("GET", path, "");
    assert_eq!(listed.json()["total"], 2);
    let function = server.ask("GET", "/v1/functions/f", "");
    assert_eq!(function.json()["vars"], json!([made, plain]));
    let functions = server.ask("GET", FUNCTIONS, "");
    assert_eq!(functions.json()["functions"][0], function.json());
    for answer in [&listed, &function, &functions] {
        assert!(!answer.text.contains("hunter2"), "{}", answer.text);
    }
    assert_eq!(
        found(&server, path, &[], "region"),
        format!("1: {}", plain["$id"].as_str().unwrap())
    );
    let of_secrets = json!({"method": "equal", "attribute": "secret", "values": [true]});
    assert_eq!(found(&server, path, &[of_secrets], ""), "1: s");
}

#[test]
fn a_variable_is_changed_and_a_secret_stays_one() {
    let server = start();
    let path = "/v1/functions/f/variables";
    server.make(
        "POST",
        path,
        &json!({"variableId": "s", "key": "A", "value": "1"}),
    );
    server.make(
        "POST",
        path,
        &json!({"variableId": "p", "key": "B", "value": "2", "secret": false}),
    );
    let one = |id: &str| format!("{path}/{id}");
    let unset = server.ask("PUT", &one("s"), r#"{"secret":false}"#);
    assert_eq!(unset.refusal(), "400 variable_cannot_unset_secret");
    let taken = server.ask("PUT", &one("p"), r#"{"key":"A"}"#);
    assert_eq!(taken.refusal(), "409 variable_already_exists");
    for body in [
        json!({"variableId": "s", "key": "C", "value": ""}),
        json!({"variableId": "q", "key": "A", "value": ""}),
    ] {
        let taken = server.ask("POST", path, &body.to_string());
        assert_eq!(taken.refusal(), "409 variable_already_exists");
    }
    let changed = server.make("PUT", &one("p"), &json!({"value": "3"})).json();
    assert_eq!(
        (&changed["key"], &changed["value"]),
        (&json!("B"), &json!("3"))
    );
    let hidden = server.make("PUT", &one("p"), &json!({"key": "C", "secret": true}));
    assert_eq!(hidden.json()["value"], "");
    assert_eq!(server.ask("DELETE", &one("p"), "{}").status, 204);
    for method in ["GET", "PUT", "DELETE"] {
        let gone = server.ask(method, &one("p"), "{}");
        assert_eq!(gone.refusal(), "404 variable_not_found", "{method}");
    }
    // The variables go with their function, and another one of its id has none.
    server.make("DELETE", "/v1/functions/f", &Value::Null);
    assert_eq!(
        server.ask("GET", path, "").refusal(),
        "404 function_not_found"
    );
    let again = server.make("POST", FUNCTIONS, &new("f")).json();
    assert_eq!(again["vars"], json!([]));
}

#[test]
fn a_function_has_a_hundred_variables_and_no_more() {
    let server = start();
    let path = "/v1/functions/f/variables";
    for nth in 0..100 {
        let body = json!({"key": format!("K{nth}"), "value": "x".repeat(8_192)});
        server.make("POST", path, &body);
    }
    let more = server.ask("POST", path, r#"{"key":"K","value":""}"#);
    assert_eq!(more.refusal(), "400 general_argument_invalid");
    assert!(more.text.contains("at most 100 variables"), "{}", more.text);
}

#[test]
fn values_of_variables_rest_sealed_and_their_key_is_not_replaced() {
    const VALUE: &str = "a value that no one reads";
    let server = start();
    let path = "/v1/functions/f/variables";
    let body = json!({"variableId": "v", "key": "K", "value": VALUE, "secret": false});
    server.make("POST", path, &body);
    assert_eq!(traces(server.directory(), VALUE), Vec::<String>::new());
    let mut kept = Vec::new();
    let server = server.restart_after(|directory| {
        let key = directory.join("secret.key");
        kept = std::fs::read(&key).unwrap();
        std::fs::remove_file(&key).unwrap();
    });
    assert_eq!(server.ask("GET", path, "").refusal(), "500 general_unknown");
    let other = server.ask("POST", path, r#"{"key":"L","value":"x"}"#);
    assert_eq!(other.refusal(), "500 general_unknown");
    assert_eq!(server.ask("PUT", "/v1/functions/f", "{}").status, 500);
    let server = server.restart_after(|directory| {
        std::fs::write(directory.join("secret.key"), &kept).unwrap();
    });
    let read = server.ask("GET", &format!("{path}/v"), "").json();
    assert_eq!(read["value"], VALUE);
}

#[test]
fn options_of_a_function_are_shown_and_set() {
    let server = start();
    let path = "/v1/tidemark/functions/f/options";
    let defaults = json!({
        "concurrency": 32, "network": "none", "recordsMax": 100_000, "recordsDays": 14,
        "recordsBytesMax": 268_435_456,
    });
    assert_eq!(server.ask("GET", path, "").json(), defaults);
    let set = server.make(
        "PATCH",
        path,
        &json!({"network": "outside", "concurrency": 1}),
    );
    let mut expected = defaults.clone();
    expected["network"] = json!("outside");
    expected["concurrency"] = json!(1);
    assert_eq!(set.json(), expected);
    let unknown = server.ask("PATCH", path, r#"{"networks":"none"}"#);
    assert!(
        unknown.text.contains("Is `network` meant?"),
        "{}",
        unknown.text
    );
    let server = server.restart();
    assert_eq!(server.ask("GET", path, "").json(), expected);
    let absent = server.ask("GET", "/v1/tidemark/functions/g/options", "");
    assert_eq!(absent.refusal(), "404 function_not_found");
}

#[test]
fn a_project_has_a_thousand_functions_and_no_more() {
    let server = TestServer::start();
    let mut client = server.connect();
    let headers = [
        ("x-appwrite-project", super::fixture::PROJECT),
        ("x-appwrite-key", super::fixture::KEY),
    ];
    for nth in 0..1_000 {
        let body = new(&format!("f{nth}")).to_string();
        let made = client.ask(&headers, "POST", FUNCTIONS, &body).unwrap();
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let more = server.ask("POST", FUNCTIONS, &new("more").to_string());
    assert_eq!(more.refusal(), "400 general_argument_invalid");
    let all = json!({"method": "limit", "values": [5000]});
    let listed = found(&server, FUNCTIONS, &[all], "");
    assert!(listed.starts_with("1000: f0,f1,"), "{listed}");
}
