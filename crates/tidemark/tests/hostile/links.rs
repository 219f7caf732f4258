//! Values of a relationship that are no links: in every body that holds the content of a row.

use server::http::wire::error::Kind;

use super::bodies::for_each_route;
use super::fixture::DATABASE;
use super::known_route::KnownRoute;
use super::routes::Takes;

const NO_LINK: &[Kind] = &[Kind::RelationshipValueInvalid];

/// What a column of one link does not take.
fn values() -> Vec<(String, &'static [Kind])> {
    let mut values: Vec<(String, &[Kind])> = [
        "5",
        "1.5",
        "true",
        "9007199254740993",
        "18446744073709551616",
        r#""""#,
        r#""nobody""#,
        r#""_x""#,
        r#""a b""#,
        r#""a\u0000""#,
        r#""' OR 1=1 --""#,
        r#""../r1""#,
        "[]",
        r#"["nobody"]"#,
        r#"["p1","p1"]"#,
        "{}",
        r#"{"$id":5}"#,
        r#"{"$id":null}"#,
        r#"{"$id":["p1"]}"#,
        r#"{"$id":"_x"}"#,
        r#"{"$id":"nobody"}"#,
        r#"{"rel":"nobody"}"#,
        r#"{"$id":"new1","rel":5}"#,
        r#"{"$id":"new1","rel":"nobody"}"#,
    ]
    .map(|json| (json.to_owned(), NO_LINK))
    .into();
    values.push((format!("\"{}\"", "x".repeat(37)), NO_LINK));
    values.push((deep(4), NO_LINK));
    values.push((deep(40), NO_LINK));
    values.push((deep(100), &[Kind::BadRequest]));
    values.push((r#""\ud800""#.to_owned(), &[Kind::BadRequest]));
    for content in [
        r#"{"$id":"new1","nobody":5}"#,
        r#"{"$id":"new1","$nobody":5}"#,
        r#"{"$id":"new1","$createdAt":"never"}"#,
    ] {
        values.push((content.to_owned(), &[Kind::RowInvalidStructure]));
    }
    let grants = r#"{"$id":"new1","$permissions":["fly(\"any\")"]}"#;
    values.push((grants.to_owned(), &[Kind::ArgumentInvalid]));
    values
}

/// Rows in rows.
fn deep(levels: usize) -> String {
    let within = |row, level| format!(r#"{{"$id":"new{level}","rel":{row}}}"#);
    (0..levels).rev().fold("null".to_owned(), within)
}

fn holds_content(known: &KnownRoute) -> bool {
    let takes_content = |takes| {
        matches!(
            takes,
            Takes::Content | Takes::Change | Takes::NewRows | Takes::PutRows
        )
    };
    let mut fields = known.fields().iter();
    !known.is_refused() && fields.any(|field| takes_content(field.takes))
}

#[test]
fn every_value_that_is_no_link() {
    for_each_route(holds_content, |fixture, known, wrong| {
        let method = known.route.method.as_str();
        let path = known.path(DATABASE);
        // The fixture's table of related rows; `new` is created there, or not found.
        let path = path
            .replace("/tables/t/", "/tables/p/")
            .replace("/collections/t/", "/collections/p/");
        let of_one = known.ids().any(|name| name == "row") || method == "POST";
        for (value, kinds) in values() {
            let content = format!("{{\"rel\":{value}}}");
            let id = known.word("rowId");
            let body = format!("{{\"{id}\":\"new\",\"data\":{content}}}");
            let kinds = if of_one || kinds == [Kind::BadRequest] {
                kinds
            } else {
                // Many rows of a table with relationships are not written at once.
                &[Kind::BadRequest, Kind::ArgumentInvalid]
            };
            let answer = fixture.ask(method, &path, &body);
            wrong.check(known, &body, &answer, kinds);
        }
        if method == "POST" || (method == "PUT" && !of_one) {
            let rows = known.word("rows");
            let body = format!(r#"{{"{rows}":[{{"$id":"new","rel":"p1"}}]}}"#);
            let answer = fixture.ask(method, &path, &body);
            wrong.check(known, &body, &answer, &[Kind::BadRequest]);
        }
    });
}
