//! Every route called with wrong ids in its path, wrong parameters in its query string, and by
//! callers who may not.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use server::http::wire::error::Kind;

use super::bad_values;
use super::bodies::{NOT_BUILT, for_each_route};
use super::fixture::DATABASE;
use super::known_route::KnownRoute;
use super::routes::{Asks, Open};
use testing::Credentials;

fn has_parameters(known: &KnownRoute) -> bool {
    known.spec.is_some()
}

/// Ids that nothing has, as they stand in a path.
const ABSENT: &[&str] = &[
    "nobody",
    "_x",
    "%20",
    "a%20b",
    "%00",
    "t%00",
    "%27%20OR%201%3D1%20--",
    "t%27%3B%20DROP%20TABLE%20t%3B--",
    "..%2F..%2Fetc%2Fpasswd",
    "%C3%A9",
    "%F0%9F%98%80",
    "%25",
    "*",
    "t.",
    "0123456789012345678901234567890123456",
    "9007199254740993",
    "9223372036854775808",
    "NaN",
    "null",
    "undefined",
    "%7Bx%7D",
    "__proto__",
];

/// How a route refuses an id that nothing has.
fn absence(name: &str) -> &'static [Kind] {
    match name {
        "database" => &[Kind::DatabaseNotFound, Kind::ArgumentInvalid],
        "table" => &[Kind::TableNotFound, Kind::ArgumentInvalid],
        "column" => &[Kind::ColumnNotFound, Kind::ArgumentInvalid],
        "index" => &[Kind::ColumnIndexNotFound, Kind::ArgumentInvalid],
        "row" => &[Kind::RowNotFound, Kind::ArgumentInvalid],
        "kind" => &[Kind::RouteNotFound, Kind::ArgumentInvalid],
        "key" => &[Kind::KeyNotFound],
        "transaction" => &[Kind::TransactionNotFound],
        "function" => &[Kind::FunctionNotFound],
        "variable" => &[Kind::VariableNotFound],
        other => panic!("no refusal is known for `{{{other}}}`"),
    }
}

#[test]
fn every_id_that_nothing_has() {
    for_each_route(has_parameters, |fixture, known, wrong| {
        let method = known.route.method.as_str();
        for name in known.ids() {
            let makes_rows = name == "row" && method == "PUT";
            let counts = name == "row" && known.route.pattern.ends_with("crement");
            for (place, id) in ABSENT.iter().enumerate() {
                // An upsert makes the row that is absent; the first that cannot be an id is next.
                let legal = matches!(
                    *id,
                    "nobody"
                        | "9007199254740993"
                        | "9223372036854775808"
                        | "NaN"
                        | "null"
                        | "undefined"
                        | "t."
                );
                if makes_rows && legal {
                    continue;
                }
                let path = known.path_with(name, id);
                let answer = fixture.client.ask(
                    Credentials::Key,
                    method,
                    &path,
                    known.body(None, None).as_bytes(),
                );
                let kinds = match (known.is_refused(), place) {
                    (true, _) => NOT_BUILT,
                    // The wire names a missing row of these routes by the column.
                    (false, _) if counts => &[
                        Kind::ColumnNotFound,
                        Kind::RowNotFound,
                        Kind::ArgumentInvalid,
                    ],
                    (false, _) => absence(name),
                };
                wrong.check(known, &path, &answer, kinds);
            }
            for id in ["%ff", "%C3", "%ED%A0%80"] {
                let path = known.path_with(name, id);
                let answer = fixture.client.ask(Credentials::Key, method, &path, b"{}");
                wrong.check(known, &path, &answer, &[Kind::RouteNotFound]);
            }
        }
    });
}

/// Parameters of the query string that every route reads.
#[test]
fn every_query_string_that_cannot_be_read() {
    for_each_route(has_parameters, |fixture, known, wrong| {
        let method = known.route.method.as_str();
        let many: Vec<String> = (0..101).map(|n| format!("queries[{n}]=x")).collect();
        for query in [
            "ttl=%ff",
            "total=%ff",
            "search=%c3",
            "queries[0]=%ff",
            "project=%ff",
            "transactionId=%ed%a0%80",
            "queries=x",
            "queries[x]=y",
            "queries[-1]=y",
            "queries[4294967295]=y",
            "queries[99999999999999999999]=y",
            "queries[0][0]=y",
            &many.join("&"),
        ] {
            let path = format!("{}?{query}", known.path(DATABASE));
            let answer = fixture.client.ask(
                Credentials::Key,
                method,
                &path,
                known.body(None, None).as_bytes(),
            );
            wrong.check(known, query, &answer, &[Kind::ArgumentInvalid]);
        }
    });
}

/// What is wrong about one parameter, as text before it is encoded.
fn wrong_parameters(asks: Asks) -> Vec<(&'static str, String, &'static [Kind])> {
    const ARGUMENT: &[Kind] = &[Kind::ArgumentInvalid];
    const QUERY: &[Kind] = &[Kind::QueryInvalid, Kind::ArgumentInvalid];
    let of = |name, texts: &[&str], kinds| {
        texts
            .iter()
            .map(|text| (name, (*text).to_owned(), kinds))
            .collect::<Vec<_>>()
    };
    match asks {
        Asks::Total => of(
            "total",
            &[
                "yes", "", "2", "TRUE", "\0", "null", "[]", "1.0", "' OR 1=1",
            ],
            ARGUMENT,
        ),
        Asks::Ttl => of(
            "ttl",
            &[
                "-1",
                "86401",
                "1.5",
                "1e3",
                "",
                "x",
                "0x10",
                "\0",
                " 5",
                "9007199254740993",
                "9223372036854775808",
                "NaN",
            ],
            ARGUMENT,
        ),
        Asks::Search => of("search", &[&"x".repeat(257), &"é".repeat(257)], ARGUMENT),
        // Without `asOf` there is no time that it could be as of.
        Asks::Judged => of("permissions", &["then", "as-of", ""], ARGUMENT),
        Asks::Transaction => of(
            "transactionId",
            &["nobody", "\0", "' OR 1=1 --", &"x".repeat(5_000)],
            &[Kind::TransactionNotFound],
        ),
        Asks::RowQueries => {
            let queries = bad_values::row_queries().into_iter();
            queries
                .map(|(text, kinds)| ("queries[0]", text, kinds))
                .collect()
        }
        Asks::Selections => of(
            "queries[0]",
            &[
                "",
                "x",
                "[]",
                "{}",
                r#"{"method":"select","values":["nobody"]}"#,
                r#"{"method":"select","values":[5]}"#,
                r#"{"method":"limit","values":[1]}"#,
                r#"{"method":"equal","attribute":"n","values":[1]}"#,
                r#"{"method":"select","values":["n\u0000"]}"#,
                &"x".repeat(4_097),
            ],
            QUERY,
        ),
        Asks::ContainerQueries => of("queries[0]", bad_values::NO_CONTAINER_QUERY, QUERY),
    }
}

#[test]
fn every_parameter_with_every_wrong_value() {
    let takes_some = |known: &KnownRoute| known.spec.is_some_and(|spec| !spec.asks.is_empty());
    for_each_route(takes_some, |fixture, known, wrong| {
        let asks = known.spec.iter().flat_map(|spec| spec.asks);
        for (name, text, kinds) in asks.flat_map(|asks| wrong_parameters(*asks)) {
            let value = utf8_percent_encode(&text, NON_ALPHANUMERIC);
            let path = format!("{}?{name}={value}", known.path(DATABASE));
            let method = known.route.method.as_str();
            let answer = fixture.client.ask(Credentials::Key, method, &path, b"");
            let kinds = if known.is_refused() { NOT_BUILT } else { kinds };
            wrong.check(known, &format!("{name}={text}"), &answer, kinds);
        }
    });
}

/// The same texts in a body, where the wire takes them as an array of strings.
#[test]
fn every_query_of_a_body_that_cannot_be_asked() {
    let takes_queries =
        |known: &KnownRoute| known.fields().iter().any(|field| field.name == "queries");
    for_each_route(takes_queries, |fixture, known, wrong| {
        let mut lists: Vec<(String, &[Kind])> = bad_values::row_queries()
            .into_iter()
            .map(|(text, kinds)| (serde_json::to_string(&[text]).unwrap(), kinds))
            .collect();
        let hundred_and_one = vec![r#"{"method":"isNull","attribute":"n"}"#; 101];
        lists.push((
            serde_json::to_string(&hundred_and_one).unwrap(),
            &[Kind::ArgumentInvalid],
        ));
        for (list, kinds) in lists {
            let body = known.body(Some(("queries", &list)), None);
            let path = known.path(DATABASE);
            let method = known.route.method.as_str();
            let answer = fixture
                .client
                .ask(Credentials::Key, method, &path, body.as_bytes());
            let is_cursor = list.contains("cursor");
            let kinds = match (known.is_refused(), is_cursor) {
                (true, _) => NOT_BUILT,
                // Changes of many rows know no cursor at all.
                (false, true) => &[Kind::QueryInvalid, Kind::CursorNotFound],
                (false, false) => kinds,
            };
            wrong.check(known, &list, &answer, kinds);
        }
    });
}

#[test]
fn every_caller_who_may_not() {
    for_each_route(has_parameters, |fixture, known, wrong| {
        let Some(open) = known.spec.map(|spec| spec.open) else {
            return;
        };
        if open == Open::All {
            return;
        }
        let method = known.route.method.as_str();
        let (path, body) = (known.path(DATABASE), known.body(None, None));
        let refused = known.is_refused();
        let or_not_built = |kind| {
            if refused {
                vec![kind, Kind::NotImplemented]
            } else {
                vec![kind]
            }
        };
        let answer = fixture
            .client
            .ask(Credentials::None, method, &path, body.as_bytes());
        wrong.check(
            known,
            "no project",
            &answer,
            &or_not_built(Kind::AccessForbidden),
        );
        for project in ["nobody", "%00", "%27--", "console"] {
            let path = format!("{path}?project={project}");
            let answer = fixture
                .client
                .ask(Credentials::Key, method, &path, body.as_bytes());
            wrong.check(known, &path, &answer, &or_not_built(Kind::ProjectNotFound));
        }
        let answer = fixture
            .client
            .ask(Credentials::Guest, method, &path, body.as_bytes());
        let pattern = &known.route.pattern;
        let reads = method == "GET"
            || ["/query", "/reads", "/heartbeat"]
                .iter()
                .any(|end| pattern.ends_with(end));
        let refusal = match open {
            // The table of the fixture lets every caller read and none write.
            Open::Guests if reads => return,
            Open::Guests => Kind::Unauthorized,
            // The transaction of the fixture is a key's.
            Open::Owners if known.ids().next().is_none() => return,
            Open::Owners => Kind::TransactionNotFound,
            Open::Keys | Open::All => Kind::UnauthorizedScope,
        };
        wrong.check(known, "a guest", &answer, &or_not_built(refusal));
    });
}
