//! Definitions of indexes that cannot be, of every kind: alone, and inside the creation of a
//! table, by the words of both families.

use server::http::wire::error::Kind;

use super::bodies::for_each_route;
use super::fixture::DATABASE;
use super::known_route::KnownRoute;

/// What is wrong whatever the kind; `KIND` stands for it.
const OF_EVERY_KIND: &[(&str, &[Kind])] = &[
    (r#""type":"KIND","columns":[]"#, INVALID),
    (r#""type":"KIND","columns":["nobody"]"#, UNKNOWN),
    (r#""type":"KIND","columns":["S"]"#, UNKNOWN),
    (r#""type":"KIND","columns":[""]"#, UNKNOWN),
    (r#""type":"KIND","columns":["s\u0000"]"#, UNKNOWN),
    (
        r#""type":"KIND","columns":["s) ; DROP TABLE t; --"]"#,
        UNKNOWN,
    ),
    (r#""type":"KIND","columns":["$sequence"]"#, UNKNOWN),
    (r#""type":"KIND","columns":["$permissions"]"#, UNKNOWN),
    (r#""type":"KIND","columns":["tags"]"#, &[Kind::IndexInvalid]),
    (
        r#""type":"KIND","columns":["s","tags"]"#,
        &[Kind::IndexInvalid],
    ),
    (r#""type":"KIND","columns":["s","s"]"#, INVALID),
    (
        r#""type":"KIND","columns":["s"],"orders":["ASC","ASC"]"#,
        INVALID,
    ),
    (
        r#""type":"KIND","columns":["s"],"orders":["sideways"]"#,
        INVALID,
    ),
    (r#""type":"KIND","columns":["s"],"orders":[5]"#, ARGUMENT),
    (r#""type":"KIND","columns":["s"],"lengths":[5,5]"#, INVALID),
    (r#""type":"KIND","columns":["s"],"lengths":[65]"#, INVALID),
    (r#""type":"KIND","columns":["s"],"lengths":[-1]"#, INVALID),
    (
        r#""type":"KIND","columns":["s"],"lengths":[9007199254740993]"#,
        INVALID,
    ),
    (
        r#""type":"KIND","columns":["s"],"lengths":[9223372036854775808]"#,
        ARGUMENT,
    ),
    (r#""type":"KIND","columns":["n"],"lengths":[5]"#, INVALID),
    (r#""type":"KIND","columns":"s""#, ARGUMENT),
    (r#""type":"KIND","columns":{"0":"s"}"#, ARGUMENT),
    (r#""type":["KIND"],"columns":["s"]"#, ARGUMENT),
];
/// What cannot be ordered as long as it is.
const OF_ORDERED: &[(&str, &[Kind])] = &[
    (r#""type":"KIND","columns":["long"]"#, INVALID),
    (r#""type":"KIND","columns":["huge"]"#, INVALID),
    (r#""type":"KIND","columns":["site"]"#, INVALID),
    (
        r#""type":"KIND","columns":["long"],"lengths":[769]"#,
        INVALID,
    ),
    (
        r#""type":"KIND","columns":["long","s"],"lengths":[705,64]"#,
        INVALID,
    ),
];
/// What has no words.
const OF_WORDS: &[(&str, &[Kind])] = &[
    (r#""type":"KIND","columns":["n"]"#, INVALID),
    (r#""type":"KIND","columns":["big"]"#, INVALID),
    (r#""type":"KIND","columns":["f"]"#, INVALID),
    (r#""type":"KIND","columns":["b"]"#, INVALID),
    (r#""type":"KIND","columns":["at"]"#, INVALID),
    (r#""type":"KIND","columns":["$id"]"#, INVALID),
    (r#""type":"KIND","columns":["$createdAt"]"#, INVALID),
    (r#""type":"KIND","columns":["s","n"]"#, INVALID),
    (
        r#""type":"KIND","columns":["long","tags"]"#,
        &[Kind::IndexInvalid],
    ),
];
/// Kinds that this server lacks, or no server has.
const OF_NO_KIND: &[(&str, &[Kind])] = &[
    (
        r#""type":"spatial","columns":["s"]"#,
        &[Kind::FeatureUnsupported],
    ),
    (
        r#""type":"trigram","columns":["s"]"#,
        &[Kind::FeatureUnsupported],
    ),
    (r#""type":"FULLTEXT","columns":["s"]"#, ARGUMENT),
    (r#""type":"fulltext ","columns":["s"]"#, ARGUMENT),
];

const ARGUMENT: &[Kind] = &[Kind::ArgumentInvalid];
const INVALID: &[Kind] = &[Kind::ColumnIndexInvalid];
const UNKNOWN: &[Kind] = &[Kind::ColumnUnknown];

/// Members of a definition beside its key, with how they are refused.
fn definitions() -> Vec<(String, &'static [Kind])> {
    let mut all = Vec::new();
    for kind in ["key", "unique", "fulltext"] {
        let own = if kind == "fulltext" {
            OF_WORDS
        } else {
            OF_ORDERED
        };
        for (text, kinds) in OF_EVERY_KIND.iter().chain(own) {
            all.push((text.replace("KIND", kind), *kinds));
        }
    }
    let none = OF_NO_KIND.iter();
    all.extend(none.map(|(text, kinds)| ((*text).to_owned(), *kinds)));
    all
}

fn makes_indexes(known: &KnownRoute) -> bool {
    known.route.method == "POST" && known.route.pattern.ends_with("/indexes")
}

fn makes_tables(known: &KnownRoute) -> bool {
    let pattern = &known.route.pattern;
    known.route.method == "POST"
        && (pattern.ends_with("/tables") || pattern.ends_with("/collections"))
}

#[test]
fn every_index_that_cannot_be() {
    for_each_route(makes_indexes, |fixture, known, wrong| {
        let path = known.path(DATABASE);
        for (members, kinds) in definitions() {
            let body = format!("{{\"key\":\"new\",{members}}}");
            let body = body.replace("\"columns\"", &format!("\"{}\"", known.word("columns")));
            let answer = fixture.ask("POST", &path, &body);
            wrong.check(known, &body, &answer, kinds);
        }
        for (key, kinds) in [
            ("by_n", &[Kind::ColumnIndexExists][..]),
            ("_x", ARGUMENT),
            ("a b", ARGUMENT),
            ("", ARGUMENT),
        ] {
            for kind in ["key", "unique", "fulltext"] {
                let word = known.word("columns");
                let body = format!(r#"{{"key":"{key}","type":"{kind}","{word}":["s"]}}"#);
                let answer = fixture.ask("POST", &path, &body);
                wrong.check(known, &body, &answer, kinds);
            }
        }
        let path = path.replace("/t/indexes", "/p/indexes");
        for kind in ["key", "unique", "fulltext"] {
            let word = known.word("columns");
            let body = format!(r#"{{"key":"new","type":"{kind}","{word}":["rel"]}}"#);
            let answer = fixture.ask("POST", &path, &body);
            wrong.check(known, &body, &answer, &[Kind::ColumnTypeInvalid]);
        }
    });
}

#[test]
fn every_table_with_an_index_that_cannot_be() {
    let columns = r#"[
        {"key":"s","type":"varchar","size":64}, {"key":"n","type":"integer"},
        {"key":"big","type":"bigint"}, {"key":"f","type":"float"}, {"key":"b","type":"boolean"},
        {"key":"at","type":"datetime"}, {"key":"long","type":"text"},
        {"key":"huge","type":"longtext"}, {"key":"site","type":"url"},
        {"key":"tags","type":"varchar","size":9,"array":true}
    ]"#;
    for_each_route(makes_tables, |fixture, known, wrong| {
        let (id, list) = (known.word("tableId"), known.word("columns"));
        let path = known.path(DATABASE);
        let mut ask = |indexes: &str, kinds: &[Kind]| {
            let body =
                format!(r#"{{"{id}":"new","name":"N","{list}":{columns},"indexes":[{indexes}]}}"#);
            let answer = fixture.ask("POST", &path, &body);
            wrong.check(known, indexes, &answer, kinds);
        };
        for (members, kinds) in definitions() {
            ask(&format!("{{\"key\":\"x\",{members}}}"), kinds);
        }
        let many = |count: usize, kind: &str| {
            let one = |n| format!(r#"{{"key":"x{n}","type":"{kind}","columns":["s"]}}"#);
            (0..count).map(one).collect::<Vec<_>>().join(",")
        };
        for kind in ["key", "unique", "fulltext"] {
            ask(&many(101, kind), ARGUMENT);
            ask(&many(62, kind), &[Kind::ColumnIndexLimitExceeded]);
        }
    });
}
