//! What can be wrong about a value, by what the place takes, and how it is refused.

use server::http::wire::error::Kind;

use super::batches;
use super::case_language;
use super::functions;
use super::routes::Takes;

/// A value that is refused with one of these kinds.
pub struct Bad {
    /// As it stands in the body.
    pub json: String,
    pub refused: &'static [Kind],
}

pub const ARGUMENT: &[Kind] = &[Kind::ArgumentInvalid];
const BODY: &[Kind] = &[Kind::BadRequest];
const STRUCTURE: &[Kind] = &[Kind::RowInvalidStructure];
const QUERY: &[Kind] = &[Kind::QueryInvalid];
/// A lone half of a surrogate pair and a number beyond the doubles are no JSON values.
pub const NO_JSON: &[&str] = &[
    r#""\ud800""#,
    r#""a\udfff""#,
    "1e400",
    "-1e999",
    "nul",
    "'a'",
    "NaN",
    "01",
];
pub const NO_TEXT: &[&str] = &[
    "5",
    "true",
    "[]",
    "{}",
    "1.5",
    "9007199254740993",
    r#"["a"]"#,
];
const NO_FLAG: &[&str] = &[
    r#""yes""#,
    r#""""#,
    "2",
    "-1",
    "1.5",
    "[]",
    "{}",
    "9007199254740993",
    "9223372036854775808",
];
const NO_ID: &[&str] = &[
    r#""""#,
    r#""_x""#,
    r#"".x""#,
    r#""-x""#,
    r#""a b""#,
    r#""a/b""#,
    r#""../x""#,
    r#""é""#,
    r#""a\u0000""#,
    r#""' OR 1=1 --""#,
    r#""x'; DROP TABLE t; --""#,
    r#""%00""#,
    r#""ａ""#,
    r#""0123456789012345678901234567890123456""#,
];
pub const NO_LIST: &[&str] = &["5", "true", r#""x""#, "{}", "1.5", r#"{"0":1}"#];
pub const NO_INTEGER: &[&str] = &[
    r#""x""#,
    "true",
    "[]",
    "{}",
    "1.5",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1e30",
    r#""9223372036854775808""#,
    r#""1 ""#,
    r#""0x10""#,
];
const NO_GRANTS: &[&str] = &[
    "[5]",
    "[null]",
    "[[]]",
    r#"["read"]"#,
    r#"["fly(\"any\")"]"#,
    r#"["read(any)"]"#,
    r#"["read(\"any\""]"#,
    r#"["read(\"user\")"]"#,
    r#"["read(\"any:x\")"]"#,
    r#"["read(\"nobody\")"]"#,
    r#"["read(\"user:_x\")"]"#,
    r#"["read(\"any\u0000\")"]"#,
    r#"["read(\"user:x'; DROP TABLE t; --\")"]"#,
    r#"[""]"#,
    r#"["read(\"users/owner\")"]"#,
    r#"["read(\"any\"); delete(\"any\")"]"#,
];
const NO_CONTENT: &[&str] = &[
    "5",
    "true",
    r#""x""#,
    r#""[1]""#,
    r#""{""#,
    "[1]",
    r#"[{"n":1}]"#,
    "1.5",
];
/// Content that does not fit the table of [`super::fixture`].
const WRONG_CONTENT: &[&str] = &[
    r#"{"nobody":1}"#,
    r#"{"":1}"#,
    r#"{"n":1,"n;--":2}"#,
    r#"{"s'); DROP TABLE t; --":1}"#,
    r#"{"n\u0000":1}"#,
    r#"{"__proto__":1}"#,
    r#"{"$nobody":1}"#,
    r#"{"c1":1}"#,
    r#"{"rowid":1}"#,
    r#"{"n":"1"}"#,
    r#"{"n":1.5}"#,
    r#"{"n":1.0}"#,
    r#"{"n":1e3}"#,
    r#"{"n":true}"#,
    r#"{"n":[1]}"#,
    r#"{"n":{}}"#,
    r#"{"n":9223372036854775808}"#,
    r#"{"n":-9223372036854775809}"#,
    r#"{"n":12345678901234567890}"#,
    r#"{"n":340282366920938463463374607431768211456}"#,
    r#"{"i":2147483648}"#,
    r#"{"i":-2147483649}"#,
    r#"{"i":9007199254740993}"#,
    r#"{"big":9223372036854775808}"#,
    r#"{"big":"1"}"#,
    r#"{"big":1.5}"#,
    r#"{"f":"1"}"#,
    r#"{"f":true}"#,
    r#"{"f":[1.5]}"#,
    r#"{"f":"NaN"}"#,
    r#"{"b":1}"#,
    r#"{"b":"true"}"#,
    r#"{"b":[]}"#,
    r#"{"s":5}"#,
    r#"{"s":true}"#,
    r#"{"s":["a"]}"#,
    r#"{"s":{"a":1}}"#,
    r#"{"s":"a\u0000b"}"#,
    r#"{"long":"\u0000"}"#,
    r#"{"s":"01234567890123456789012345678901234567890123456789012345678901234"}"#,
    r#"{"at":"yesterday"}"#,
    r#"{"at":5}"#,
    r#"{"at":"10000-01-01T00:00:00Z"}"#,
    r#"{"at":"2026-02-30T00:00:00Z"}"#,
    r#"{"at":"2026-01-01T25:00:00Z"}"#,
    r#"{"at":"-0001-01-01T00:00:00Z"}"#,
    r#"{"at":""}"#,
    r#"{"mail":"nobody"}"#,
    r#"{"mail":"a@b@c"}"#,
    r#"{"mail":""}"#,
    r#"{"site":"nowhere"}"#,
    r#"{"site":"//x"}"#,
    r#"{"ip":"999.1.1.1"}"#,
    r#"{"ip":"1.2.3"}"#,
    r#"{"ip":":::1"}"#,
    r#"{"choice":"c"}"#,
    r#"{"choice":"A"}"#,
    r#"{"tags":"a"}"#,
    r#"{"tags":[1]}"#,
    r#"{"tags":[null]}"#,
    r#"{"tags":[["a"]]}"#,
    r#"{"tags":["0123456789"]}"#,
    r#"{"tags":{"0":"a"}}"#,
];
/// Operators that do not fit their column, or are none.
const WRONG_OPERATORS: &[&str] = &[
    r#"{"n":"{\"method\":\"increment\",\"values\":[\"x\"]}"}"#,
    r#"{"n":"{\"method\":\"increment\",\"values\":[true]}"}"#,
    r#"{"n":"{\"method\":\"increment\",\"values\":[1.5]}"}"#,
    r#"{"n":"{\"method\":\"increment\",\"values\":[9223372036854775808]}"}"#,
    r#"{"n":"{\"method\":\"increment\",\"values\":{}}"}"#,
    r#"{"n":"{\"method\":\"divide\",\"values\":[0]}"}"#,
    r#"{"n":"{\"method\":\"modulo\",\"values\":[0]}"}"#,
    r#"{"n":"{\"method\":\"power\",\"values\":[\\\"2\\\"]}"}"#,
    r#"{"n":"{\"method\":\"increment\",\"values\":[null]}"}"#,
    r#"{"s":"{\"method\":\"increment\",\"values\":[1]}"}"#,
    r#"{"n":"{\"method\":\"toggle\",\"values\":[]}"}"#,
    r#"{"n":"{\"method\":\"stringConcat\",\"values\":[\"a\"]}"}"#,
    r#"{"s":"{\"method\":\"stringConcat\",\"values\":[5]}"}"#,
    r#"{"s":"{\"method\":\"stringConcat\",\"values\":[\"\\u0000\"]}"}"#,
    r#"{"s":"{\"method\":\"stringReplace\",\"values\":[\"a\"]}"}"#,
    r#"{"s":"{\"method\":\"arrayAppend\",\"values\":[\"a\"]}"}"#,
    r#"{"tags":"{\"method\":\"arrayAppend\",\"values\":[5]}"}"#,
    r#"{"tags":"{\"method\":\"arrayAppend\",\"values\":[\"0123456789\"]}"}"#,
    r#"{"tags":"{\"method\":\"arrayInsert\",\"values\":[\"x\",\"a\"]}"}"#,
    r#"{"tags":"{\"method\":\"arrayInsert\",\"values\":[9223372036854775807,\"a\"]}"}"#,
    r#"{"tags":"{\"method\":\"arrayInsert\",\"values\":[-1,\"a\"]}"}"#,
    r#"{"tags":"{\"method\":\"arrayFilter\",\"values\":[\"fly\",1]}"}"#,
    r#"{"tags":"{\"method\":\"arrayRemove\",\"values\":[]}"}"#,
    r#"{"at":"{\"method\":\"dateAddDays\",\"values\":[\"x\"]}"}"#,
    r#"{"n":"{\"method\":\"dateSetNow\",\"values\":[]}"}"#,
    r#"{"nobody":"{\"method\":\"increment\",\"values\":[1]}"}"#,
];
const NO_ROWS: &[&str] = &[
    "[5]",
    "[null]",
    "[[]]",
    r#"["a"]"#,
    r#"[{"$id":5,"n":1}]"#,
    r#"[{"$id":"_x","n":1}]"#,
    r#"[{"$id":[],"n":1}]"#,
    r#"[{"$id":"a b","n":1}]"#,
];
/// The first row is right: rows are made all or none.
const WRONG_ROWS: &[&str] = &[
    r#"[{"$id":"new","n":1},{"$id":"other","nobody":1}]"#,
    r#"[{"$id":"new","n":1},{"$id":"other","n":"1"}]"#,
    r#"[{"$id":"new","n":1},{"$id":"other","n":9223372036854775808}]"#,
];
const NO_QUERIES: &[&str] = &[
    "[5]",
    "[null]",
    "[{}]",
    "[[]]",
    r#"[{"method":"limit","values":[1]}]"#,
    "[true]",
];
const NO_COLUMNS: &[&str] = &[
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"key":"k"}]"#,
    r#"[{"type":"integer"}]"#,
    r#"[{"key":5,"type":"integer"}]"#,
    r#"[{"key":"k","type":5}]"#,
    r#"[{"key":"_k","type":"integer"}]"#,
    r#"[{"key":"k\u0000","type":"integer"}]"#,
    r#"[{"key":"k\"; DROP TABLE t; --","type":"integer"}]"#,
    r#"[{"key":"$id","type":"integer"}]"#,
    r#"[{"key":"k","type":"fly"}]"#,
    r#"[{"key":"k","type":"relationship"}]"#,
    r#"[{"key":"k","type":"varchar","size":"x"}]"#,
    r#"[{"key":"k","type":"varchar","size":9223372036854775808}]"#,
    r#"[{"key":"k","type":"varchar","size":1.5}]"#,
    r#"[{"key":"k","type":"integer","required":"maybe"}]"#,
    r#"[{"key":"k","type":"integer","array":5}]"#,
    r#"[{"key":"k","type":"enum","elements":[5]}]"#,
    r#"[{"key":"k","type":"enum","elements":"a"}]"#,
    r#"[{"key":"k","type":"string","format":5}]"#,
];
/// Definitions that can be read and contradict a rule, with what each of them breaks.
const WRONG_COLUMNS: &[(&str, &[Kind])] = &[
    (
        r#"[{"key":"k","type":"integer"},{"key":"K","type":"integer"}]"#,
        &[Kind::ColumnExists],
    ),
    (
        r#"[{"key":"k","type":"integer","required":true,"default":1}]"#,
        &[Kind::ColumnDefaultUnsupported],
    ),
    (
        r#"[{"key":"k","type":"integer","array":true,"default":1}]"#,
        &[Kind::ColumnDefaultUnsupported],
    ),
    (
        r#"[{"key":"k","type":"integer","min":2,"max":1}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"integer","min":1,"default":0}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"integer","default":"1"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"integer","max":9223372036854775808}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"integer","min":"x"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar","size":5,"default":"123456"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar","size":5,"default":"a\u0000"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar","size":0}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar","size":-1}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar","size":16382}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"varchar"}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"enum"}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"enum","elements":[]}]"#,
        &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid],
    ),
    (
        r#"[{"key":"k","type":"enum","elements":["a"],"default":"b"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
    (
        r#"[{"key":"k","type":"integer","format":"email"}]"#,
        &[Kind::ColumnFormatUnsupported],
    ),
    (
        r#"[{"key":"k","type":"datetime","default":"yesterday"}]"#,
        &[Kind::ColumnValueInvalid],
    ),
];
/// Limits and defaults that contradict their column.
const WORTHLESS: &[Kind] = &[Kind::ColumnValueInvalid, Kind::ArgumentInvalid];
const NO_NUMBER_AT_ALL: &[&str] = &[r#""x""#, r#""5""#, "true", "[]", "{}", "[5]"];
const NO_NUMBER: &[&str] = &[
    r#""x""#,
    r#""5""#,
    "true",
    "[]",
    "{}",
    "[5]",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
];
const NO_INDEX_TYPE: &[&str] = &[r#""fly""#, r#""""#, r#""key\u0000""#];
const NO_RELATION: &[&str] = &[r#""fly""#, r#""""#, r#""ONETOMANY""#, r#""cascade\u0000""#];
const NO_TABLE: &[Kind] = &[Kind::TableNotFound];
const NO_LENGTHS: &[&str] = &[r#"["5"]"#, "[true]", "[1.5]", "[9223372036854775808]"];
const NO_OPERAND: &[&str] = &[
    r#""x""#,
    r#""1""#,
    "true",
    "[]",
    "{}",
    "0",
    "-1",
    "-0.5",
    "9223372036854775808",
];
const NO_FORM: &[&str] = &[
    r#""nobody""#,
    r#""a\u0000""#,
    r#""' OR 1=1 --""#,
    r#""2026-13-01""#,
];
const NO_ELEMENTS: &[&str] = &["[5]", "[null]", "[[]]", r#"["a",5]"#];
const WRONG_INDEX_COLUMNS: &[(&str, &[Kind])] = &[
    ("[]", &[Kind::ColumnIndexInvalid, Kind::ArgumentInvalid]),
    (r#"["nobody"]"#, &[Kind::ColumnUnknown]),
    (r#"["spare\u0000"]"#, &[Kind::ColumnUnknown]),
    (r#"["spare); DROP TABLE t; --"]"#, &[Kind::ColumnUnknown]),
    (r#"["tags"]"#, &[Kind::IndexInvalid]),
    (r#"["spare","spare"]"#, &[Kind::ColumnIndexInvalid]),
];
const NO_INDEXES: &[&str] = &[
    "[5]",
    "[null]",
    "[{}]",
    r#"[{"key":"x","attributes":["k"]}]"#,
    r#"[{"type":"key","attributes":["k"]}]"#,
    r#"[{"key":"x","type":5,"attributes":["k"]}]"#,
    r#"[{"key":"x","type":"key","attributes":"k"}]"#,
    r#"[{"key":"x","type":"key","attributes":[5]}]"#,
    r#"[{"key":"_x","type":"key","attributes":["k"]}]"#,
    r#"[{"key":"x\u0000","type":"key","attributes":["k"]}]"#,
    r#"[{"key":"x","type":"fly","attributes":["k"]}]"#,
    r#"[{"key":"x","type":"key","attributes":["k"],"orders":[5]}]"#,
    r#"[{"key":"x","type":"key","attributes":["k"],"lengths":["5"]}]"#,
];
const WRONG_INDEXES: &[(&str, &[Kind])] = &[
    (
        r#"[{"key":"x","type":"key","attributes":["k"],"orders":["ASC","DESC"]}]"#,
        &[Kind::ColumnIndexInvalid],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k"],"orders":["sideways"]}]"#,
        &[Kind::ColumnIndexInvalid],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["nobody"]}]"#,
        &[Kind::ColumnUnknown],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k\u0000"]}]"#,
        &[Kind::ColumnUnknown],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k); DROP TABLE t; --"]}]"#,
        &[Kind::ColumnUnknown],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k","k"]}]"#,
        &[Kind::ColumnIndexInvalid],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k"]},{"key":"x","type":"key","attributes":["k"]}]"#,
        &[Kind::ColumnIndexExists],
    ),
    (
        r#"[{"key":"x","type":"key","attributes":["k"],"lengths":[5]}]"#,
        &[Kind::ColumnIndexInvalid],
    ),
];

/// Values and the refusal they share.
pub type Group = (&'static [&'static str], &'static [Kind]);

/// Everything that is wrong in a place that takes `takes`.
pub fn values(takes: Takes) -> Vec<Bad> {
    let written = written(takes)
        .into_iter()
        .flat_map(|(values, refused)| values.iter().map(move |json| ((*json).to_owned(), refused)));
    let no_json = NO_JSON.iter().map(|json| ((*json).to_owned(), BODY));
    let all = no_json.chain(written).chain(built(takes));
    all.map(|(json, refused)| Bad { json, refused }).collect()
}

/// What can be written down.
fn written(takes: Takes) -> Vec<Group> {
    match takes {
        Takes::Id | Takes::Key => vec![(NO_TEXT, ARGUMENT), (NO_ID, ARGUMENT)],
        Takes::Name => vec![(NO_TEXT, ARGUMENT), (&[r#""""#, r#""a\u0000""#], ARGUMENT)],
        Takes::Flag => vec![(NO_FLAG, ARGUMENT)],
        Takes::TableGrants => vec![(NO_LIST, ARGUMENT), (NO_GRANTS, ARGUMENT)],
        Takes::RowGrants => vec![
            (NO_LIST, ARGUMENT),
            (NO_GRANTS, ARGUMENT),
            (&[r#"["create(\"any\")"]"#], ARGUMENT),
        ],
        Takes::Content | Takes::Change => vec![
            (NO_CONTENT, ARGUMENT),
            (WRONG_CONTENT, STRUCTURE),
            // In the content of a new row such a text is a text.
            (
                if takes == Takes::Change {
                    WRONG_OPERATORS
                } else {
                    &[]
                },
                STRUCTURE,
            ),
            (
                &[r#"{"s":"\ud800"}"#, r#"{"f":1e400}"#, r#"{"n":--1}"#],
                BODY,
            ),
        ],
        // A creation holds either `data` or `rows`, and the right call holds `data`.
        Takes::NewRows | Takes::PutRows => {
            vec![
                (NO_LIST, ARGUMENT),
                (NO_ROWS, ARGUMENT),
                (WRONG_ROWS, STRUCTURE),
            ]
        }
        Takes::Queries => vec![(NO_LIST, ARGUMENT), (NO_QUERIES, ARGUMENT)],
        Takes::Ttl => vec![
            (NO_INTEGER, ARGUMENT),
            (&["-1", "86401", "9007199254740993"], ARGUMENT),
        ],
        Takes::Columns => vec![(NO_LIST, ARGUMENT), (NO_COLUMNS, ARGUMENT)],
        Takes::Indexes => vec![(NO_LIST, ARGUMENT), (NO_INDEXES, ARGUMENT)],
        Takes::Words => vec![(NO_TEXT, ARGUMENT)],
        Takes::Size => vec![
            (NO_INTEGER, ARGUMENT),
            (&["0", "-1", "9007199254740993"], WORTHLESS),
        ],
        Takes::Integer => vec![(NO_NUMBER, WORTHLESS), (&["1.5", "1.0"], WORTHLESS)],
        Takes::Float => vec![(NO_NUMBER_AT_ALL, WORTHLESS)],
        Takes::Boolean => vec![(&["1", "0", r#""true""#, "[]", "{}", "1.5"], WORTHLESS)],
        Takes::Text => vec![(NO_TEXT, WORTHLESS), (&[r#""a\u0000""#], WORTHLESS)],
        Takes::Formed => vec![(NO_TEXT, WORTHLESS), (NO_FORM, WORTHLESS)],
        Takes::Elements => vec![(NO_LIST, ARGUMENT), (NO_ELEMENTS, ARGUMENT)],
        Takes::Operand => vec![(NO_OPERAND, ARGUMENT)],
        Takes::Bound => vec![(NO_NUMBER_AT_ALL, ARGUMENT)],
        Takes::IndexType => vec![(NO_TEXT, ARGUMENT), (NO_INDEX_TYPE, ARGUMENT)],
        Takes::IndexColumns => vec![(NO_LIST, ARGUMENT), (&["[5]", "[null]", "[[]]"], ARGUMENT)],
        Takes::Orders => vec![(NO_LIST, ARGUMENT), (&["[5]", "[true]", "[[]]"], ARGUMENT)],
        Takes::Lengths => vec![(NO_LIST, ARGUMENT), (NO_LENGTHS, ARGUMENT)],
        Takes::RelatedTable => vec![(NO_TEXT, ARGUMENT), (NO_ID, NO_TABLE)],
        Takes::RelationType | Takes::OnDelete => {
            vec![(NO_TEXT, ARGUMENT), (NO_RELATION, ARGUMENT)]
        }
        Takes::OfFunction(takes) => functions::written(takes),
        takes if takes.is_of_times() => case_language::written(takes),
        takes => batches::written(takes),
    }
}

/// What is too long or too deep to be written down, and what has a refusal of its own.
fn built(takes: Takes) -> Vec<(String, &'static [Kind])> {
    if takes.is_of_batches() {
        return batches::built(takes);
    }
    if takes.is_of_times() {
        return case_language::built(takes);
    }
    let own = |cases: &[(&str, &'static [Kind])]| {
        cases
            .iter()
            .map(|(json, kinds)| ((*json).to_owned(), *kinds))
            .collect()
    };
    match takes {
        Takes::Name => vec![(text_of(129), ARGUMENT)],
        Takes::OfFunction(takes) => functions::built(takes),
        Takes::TableGrants | Takes::RowGrants => {
            vec![(
                list_of(101, |n| format!(r#""read(\"user:u{n}\")""#)),
                ARGUMENT,
            )]
        }
        Takes::Content | Takes::Change => vec![
            (nested(65), BODY),
            (nested(60), STRUCTURE),
            (
                format!(r#"{{"tags":{}}}"#, list_of(10_001, |_| r#""a""#.to_owned())),
                STRUCTURE,
            ),
        ],
        Takes::NewRows | Takes::PutRows => {
            vec![(
                list_of(101, |n| format!(r#"{{"$id":"m{n}","n":1}}"#)),
                ARGUMENT,
            )]
        }
        Takes::Columns => {
            let many = list_of(101, |n| format!(r#"{{"key":"k{n}","type":"integer"}}"#));
            let mut cases: Vec<_> = own(WRONG_COLUMNS);
            cases.push((many, ARGUMENT));
            cases
        }
        Takes::Indexes => own(WRONG_INDEXES),
        Takes::IndexColumns => own(WRONG_INDEX_COLUMNS),
        Takes::Orders => own(&[
            (r#"["ASC","DESC"]"#, &[Kind::ColumnIndexInvalid]),
            (r#"["sideways"]"#, &[Kind::ColumnIndexInvalid]),
        ]),
        Takes::Lengths => own(&[
            ("[1,2]", &[Kind::ColumnIndexInvalid]),
            ("[-1]", &[Kind::ColumnIndexInvalid]),
            ("[9007199254740993]", &[Kind::ColumnIndexInvalid]),
        ]),
        Takes::Elements => vec![
            (list_of(101, |n| format!("\"e{n}\"")), WORTHLESS),
            (list_of(1, |_| text_of(256)), WORTHLESS),
        ],
        _ => Vec::new(),
    }
}

/// Query texts that no list of rows understands.
pub fn row_queries() -> Vec<(String, &'static [Kind])> {
    let mut texts: Vec<(String, &'static [Kind])> = Vec::new();
    let mut add = |text: &str, refused| texts.push((text.to_owned(), refused));
    for text in NO_QUERY {
        add(text, QUERY);
    }
    add(
        r#"{"method":"cursorAfter","values":["nobody"]}"#,
        &[Kind::CursorNotFound],
    );
    add(
        &format!(
            r#"{{"method":"equal","attribute":"s","values":["{}"]}}"#,
            "x".repeat(4_097)
        ),
        ARGUMENT,
    );
    add(
        &format!(
            r#"{{"method":"equal","attribute":"n","values":[{}]}}"#,
            vec!["1"; 501].join(",")
        ),
        QUERY,
    );
    for depth in [18, 100] {
        add(&nested_or(depth), QUERY);
    }
    add(
        &format!("{}{}", "[".repeat(2_000), "]".repeat(2_000)),
        QUERY,
    );
    texts
}

const NO_QUERY: &[&str] = &[
    "",
    " ",
    "limit(1)",
    "[]",
    "{}",
    "5",
    "null",
    "{",
    r#"{"method":"limit","values":[1]} x"#,
    r#"{"method":5}"#,
    r#"{"method":null}"#,
    r#"{"method":"fly"}"#,
    r#"{"method":"regex","attribute":"s","values":["("]}"#,
    r#"{"method":"regex","attribute":"s","values":["a{1000000}"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(?<=a)b"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(a)\\1"]}"#,
    r#"{"method":"regex","attribute":"s","values":["\u0000"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(((((((((((a{99}){99}){99}){99}){99}){99}){99}){99}){99}){99})"]}"#,
    r#"{"method":"regex","attribute":"s","values":["[ab]*a[ab]{14000}c"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(?i)[\\x00-\\x{10ffff}]"]}"#,
    r#"{"method":"or","values":[{"method":"regex","attribute":"s","values":["a"]},{"method":"regex","attribute":"s","values":["b"]},{"method":"regex","attribute":"s","values":["c"]},{"method":"regex","attribute":"s","values":["d"]},{"method":"regex","attribute":"s","values":["e"]}]}"#,
    r#"{"method":"regex","attribute":"s","values":["a","b"]}"#,
    r#"{"method":"regex","attribute":"n","values":["1"]}"#,
    r#"{"method":"search","attribute":"s","values":["x"]}"#,
    r#"{"method":"search","attribute":"n","values":["x"]}"#,
    r#"{"method":"search","attribute":"s","values":["\" OR *:* NEAR("]}"#,
    r#"{"method":"equal","attribute":5,"values":[1]}"#,
    r#"{"method":"equal","attribute":"n","values":"x"}"#,
    r#"{"method":"equal","attribute":"n","values":{"0":1}}"#,
    r#"{"method":"equal","values":[1]}"#,
    r#"{"method":"equal","attribute":"n","values":[]}"#,
    r#"{"method":"equal","attribute":"n","values":[null]}"#,
    r#"{"method":"equal","attribute":"n","values":["1"]}"#,
    r#"{"method":"equal","attribute":"n","values":[1.5]}"#,
    r#"{"method":"equal","attribute":"n","values":[[1]]}"#,
    r#"{"method":"equal","attribute":"n","values":[{}]}"#,
    r#"{"method":"equal","attribute":"n","values":[9223372036854775808]}"#,
    r#"{"method":"greaterThan","attribute":"n","values":[-9223372036854775809]}"#,
    r#"{"method":"equal","attribute":"s","values":[5]}"#,
    r#"{"method":"equal","attribute":"s","values":["a\u0000"]}"#,
    r#"{"method":"equal","attribute":"s","values":["\ud800"]}"#,
    r#"{"method":"equal","attribute":"f","values":[1e400]}"#,
    r#"{"method":"equal","attribute":"b","values":[1]}"#,
    r#"{"method":"equal","attribute":"at","values":["never"]}"#,
    r#"{"method":"equal","attribute":"nobody","values":[1]}"#,
    r#"{"method":"equal","attribute":"","values":[1]}"#,
    r#"{"method":"equal","attribute":"n\u0000","values":[1]}"#,
    r#"{"method":"equal","attribute":"c1","values":[1]}"#,
    r#"{"method":"equal","attribute":"n) OR 1=1 --","values":[1]}"#,
    r#"{"method":"orderAsc","attribute":"n; DROP TABLE t"}"#,
    r#"{"method":"orderAsc","attribute":"nobody"}"#,
    r#"{"method":"select","values":["nobody"]}"#,
    r#"{"method":"select","values":["*; DROP TABLE t"]}"#,
    r#"{"method":"select","values":[5]}"#,
    r#"{"method":"select","values":[]}"#,
    r#"{"method":"limit","values":[0]}"#,
    r#"{"method":"limit","values":[-1]}"#,
    r#"{"method":"limit","values":[1.5]}"#,
    r#"{"method":"limit","values":["1"]}"#,
    r#"{"method":"limit"}"#,
    r#"{"method":"limit","values":[9223372036854775808]}"#,
    r#"{"method":"offset","values":[-1]}"#,
    r#"{"method":"offset","values":[null]}"#,
    r#"{"method":"cursorAfter","values":[5]}"#,
    r#"{"method":"cursorAfter","values":[]}"#,
    r#"{"method":"cursorAfter","values":["_x"]}"#,
    r#"{"method":"cursorAfter","values":["a\u0000"]}"#,
    r#"{"method":"cursorBefore","values":["' OR 1=1 --"]}"#,
    r#"{"method":"or","values":[]}"#,
    r#"{"method":"and","values":[5]}"#,
    r#"{"method":"or","values":[{"method":"limit","values":[1]},{"method":"limit","values":[1]}]}"#,
    r#"{"method":"or","values":["{\"method\":\"isNull\",\"attribute\":\"n\"}","x"]}"#,
    r#"{"method":"or","values":[{"method":"isNull","attribute":"n"},{"method":"asOf","values":[1]}]}"#,
    r#"{"method":"and","values":[{"method":"isNull","attribute":"n"},{"method":"validAt","values":["2026-01-01T00:00:00Z"]}]}"#,
    r#"{"method":"or","values":[{"method":"isNull","attribute":"n"},{"method":"validBetween","values":[1,2]}]}"#,
    r#"{"method":"and","values":[{"method":"isNull","attribute":"n"},{"method":"versions","values":[]}]}"#,
    r#"{"method":"between","attribute":"n","values":[1]}"#,
    r#"{"method":"between","attribute":"n","values":[1,2,3]}"#,
    r#"{"method":"startsWith","attribute":"n","values":["a"]}"#,
    r#"{"method":"contains","attribute":"n","values":[1]}"#,
];

/// Query texts that no list of databases, tables, columns or indexes understands.
pub const NO_CONTAINER_QUERY: &[&str] = &[
    "",
    "limit(1)",
    "[]",
    "{}",
    "5",
    r#"{"method":"fly"}"#,
    r#"{"method":"limit","values":[0]}"#,
    r#"{"method":"limit","values":[-1]}"#,
    r#"{"method":"limit","values":[9223372036854775808]}"#,
    r#"{"method":"offset","values":[-1]}"#,
    r#"{"method":"limit","values":["1"]}"#,
    r#"{"method":"equal","attribute":"nobody","values":["x"]}"#,
    r#"{"method":"regex","attribute":"$id","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name\u0000","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name) OR 1=1 --","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name","values":[]}"#,
    r#"{"method":"or","values":[5]}"#,
];

/// `or` inside each other, `depth` times.
fn nested_or(depth: usize) -> String {
    let open = r#"{"method":"or","values":["#.repeat(depth);
    let inner = r#"{"method":"isNull","attribute":"n"},{"method":"isNull","attribute":"n"}"#;
    format!("{open}{inner}{}", "]}".repeat(depth))
}

fn nested(depth: usize) -> String {
    format!(
        r#"{{"n":{}{}}}"#,
        "[".repeat(depth - 1),
        "]".repeat(depth - 1)
    )
}

pub fn text_of(chars: usize) -> String {
    format!("\"{}\"", "x".repeat(chars))
}

pub fn list_of(count: usize, element: impl FnMut(usize) -> String) -> String {
    let elements: Vec<String> = (0..count).map(element).collect();
    format!("[{}]", elements.join(","))
}
