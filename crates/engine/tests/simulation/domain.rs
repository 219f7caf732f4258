//! What rows, queries and schemas take their names and values from: few, so that they collide.

use std::sync::Arc;

use engine::{Caller, NewColumn, NewIndex, NewTable};
use model::permission::Role;
use model::{Actor, Json, ProjectId, RoleSet, TableId};

use super::chance::Chance;
use super::fixture;

pub const PROJECT: &str = "p";
pub const DATABASES: [&str; 2] = ["d", "e"];
pub const TABLES: [&str; 2] = ["t", "u"];

/// Which methods a field answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Truth,
    Instant,
}

/// Something of a row that queries may name, with the values that it takes, as JSON.
#[derive(Debug)]
pub struct Attribute {
    pub key: &'static str,
    /// How a definition calls its type.
    pub word: &'static str,
    pub kind: Kind,
    pub array: bool,
    pub values: &'static [&'static str],
}

const fn attribute(
    key: &'static str,
    word: &'static str,
    kind: Kind,
    values: &'static [&'static str],
) -> Attribute {
    Attribute {
        key,
        word,
        kind,
        array: false,
        values,
    }
}

const fn array(mut of: Attribute) -> Attribute {
    of.array = true;
    of
}

const INSTANTS: &[&str] = &[
    "\"2025-06-01T00:00:00.000Z\"",
    "\"2026-01-01T00:00:00.000Z\"",
    "\"2026-01-01T00:00:01.500Z\"",
    "\"2026-01-01T00:00:10.000Z\"",
    "\"2027-01-01T00:00:00.000Z\"",
];

/// The columns that a table may have. `m` and `l` change names with `n` and `k`.
pub static COLUMNS: [Attribute; 12] = [
    attribute("n", "integer", Kind::Number, &["-1", "0", "1", "2", "3"]),
    attribute("m", "integer", Kind::Number, &["0", "1", "2"]),
    attribute("f", "float", Kind::Number, &["-1.5", "0", "0.5", "2"]),
    attribute(
        "s",
        "varchar",
        Kind::Text,
        &[
            "\"\"", "\"a\"", "\"ab\"", "\"abc\"", "\"b\"", "\"B\"", "\"é\"", "\"a_%\"",
        ],
    ),
    attribute(
        "w",
        "varchar",
        Kind::Text,
        &[
            "\"red fox\"",
            "\"Fox\"",
            "\"red\"",
            "\"blue fox red\"",
            "\"\"",
        ],
    ),
    attribute("k", "enum", Kind::Text, &["\"x\"", "\"y\"", "\"z\""]),
    attribute("l", "enum", Kind::Text, &["\"x\"", "\"y\"", "\"z\""]),
    attribute("b", "boolean", Kind::Truth, &["true", "false"]),
    attribute("d", "datetime", Kind::Instant, INSTANTS),
    array(attribute(
        "tags",
        "varchar",
        Kind::Text,
        &["\"p\"", "\"q\"", "\"r\""],
    )),
    array(attribute("nums", "integer", Kind::Number, &["0", "1", "2"])),
    array(attribute("days", "datetime", Kind::Instant, INSTANTS)),
];

/// Every column may be renamed to its partner, which takes the same values, and back.
pub const PARTNERS: [(&str, &str); 2] = [("n", "m"), ("k", "l")];

pub static SYSTEM: [Attribute; 4] = [
    attribute(
        "$id",
        "",
        Kind::Text,
        &["\"r0\"", "\"r1\"", "\"r2\"", "\"r3\"", "\"r4\"", "\"r5\""],
    ),
    attribute(
        "$sequence",
        "",
        Kind::Number,
        &["1", "2", "3", "4", "6", "8", "10", "13"],
    ),
    attribute("$createdAt", "", Kind::Instant, INSTANTS),
    attribute("$updatedAt", "", Kind::Instant, INSTANTS),
];

/// Where rows stand in time. In runs of their own: the seeds of others would draw other runs.
pub static ENDS: [Attribute; 3] = [
    attribute("$validFrom", "", Kind::Instant, INSTANTS),
    attribute("$validTo", "", Kind::Instant, INSTANTS),
    attribute("$systemFrom", "", Kind::Instant, INSTANTS),
];

/// The column of a relationship, in some runs, from the first table to the second.
pub const LINK: &str = "link";

pub const IDS: [&str; 10] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"];

const ROW_GRANTS: [&[&str]; 7] = [
    &[],
    &["read(\"any\")"],
    &["read(\"users\")"],
    &["read(\"user:ann\")", "write(\"user:ann\")"],
    &["read(\"team:red\")", "update(\"users\")"],
    &["read(\"guests\")", "read(\"user:ben\")"],
    &["read(\"team:red\")", "read(\"user:ann\")"],
];

const TABLE_GRANTS: [&[&str]; 7] = [
    &[],
    &["read(\"any\")", "write(\"user:ann\")"],
    &["create(\"any\")"],
    &["read(\"any\")", "create(\"users\")"],
    &["read(\"users\")", "write(\"users\")"],
    &["read(\"team:red\")", "create(\"any\")"],
    &["read(\"guests\")"],
];

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub fn row_grants(chance: &mut Chance) -> Vec<String> {
    owned(chance.pick::<&[&str]>(&ROW_GRANTS))
}

pub fn table_grants(chance: &mut Chance) -> Vec<String> {
    owned(chance.pick::<&[&str]>(&TABLE_GRANTS))
}

/// A key, a guest, and users of several roles.
pub fn callers() -> Vec<Caller> {
    let user = |roles: &[&str]| {
        let roles = roles.iter().map(|role| Role::parse(role).unwrap());
        Caller {
            project: ProjectId::new(PROJECT).unwrap(),
            actor: Actor::User {
                roles: Arc::new(RoleSet::new(roles.collect())),
            },
            request: None,
            meta: None,
            function: None,
        }
    };
    vec![
        fixture::key(),
        fixture::guest(),
        user(&["any", "users", "user:ann"]),
        user(&["any", "users", "user:ben", "team:red"]),
    ]
}

pub fn json(text: &str) -> Json {
    engine::read_json(text.as_bytes()).expect("written in this folder")
}

/// A value for the column, sometimes none.
pub fn value(chance: &mut Chance, of: &Attribute) -> String {
    if chance.one_in(6) {
        return "null".to_owned();
    }
    if !of.array {
        return (*chance.pick(of.values)).to_owned();
    }
    let count = chance.below(4);
    let elements: Vec<&str> = (0..count).map(|_| *chance.pick(of.values)).collect();
    format!("[{}]", elements.join(","))
}

pub fn new_column(of: &Attribute) -> NewColumn {
    let elements = || {
        of.values
            .iter()
            .map(|value| value.trim_matches('"').to_owned())
    };
    NewColumn {
        key: of.key.to_owned(),
        kind: of.word.to_owned(),
        size: (of.word == "varchar").then_some(64),
        array: of.array,
        elements: (of.word == "enum").then(|| elements().collect()),
        ..NewColumn::default()
    }
}

/// An index over one or two of the columns.
pub fn new_index(chance: &mut Chance, columns: &[&'static Attribute]) -> NewIndex {
    let scalars: Vec<&Attribute> = columns.iter().copied().filter(|one| !one.array).collect();
    let mut keys = vec!["$updatedAt"];
    if !scalars.is_empty() {
        keys = (0..=chance.below(2))
            .map(|_| chance.pick(&scalars).key)
            .collect();
        keys.dedup();
    }
    let kind = if keys == ["w"] || keys == ["s"] {
        *chance.pick(&["key", "fulltext", "fulltext"])
    } else {
        "key"
    };
    NewIndex {
        key: format!("i{}", chance.below(4)),
        kind: kind.to_owned(),
        columns: owned(&keys),
        ..NewIndex::default()
    }
}

/// A table with some of the columns, and an index or two.
pub fn new_table(chance: &mut Chance, id: &str) -> NewTable {
    let mut columns: Vec<&'static Attribute> = COLUMNS.iter().collect();
    let count = 3 + chance.below(6);
    while columns.len() > count {
        columns.remove(chance.below(columns.len()));
    }
    let mut indexes: Vec<NewIndex> = Vec::new();
    for _ in 0..chance.below(3) {
        let index = new_index(chance, &columns);
        if indexes.iter().all(|one| one.key != index.key) {
            indexes.push(index);
        }
    }
    if columns.iter().any(|one| one.key == "w") {
        indexes.push(NewIndex {
            key: "words".to_owned(),
            kind: "fulltext".to_owned(),
            columns: owned(&["w"]),
            ..NewIndex::default()
        });
    }
    NewTable {
        id: TableId::new(id).unwrap(),
        name: "T".to_owned(),
        permissions: table_grants(chance),
        row_security: !chance.one_in(5),
        enabled: true,
        columns: columns.into_iter().map(new_column).collect(),
        indexes,
    }
}

/// What is known of the columns that `table` has now.
pub fn columns_of(table: &model::Table) -> Vec<&'static Attribute> {
    let is_there = |one: &&'static Attribute| table.position(one.key).is_some();
    COLUMNS.iter().filter(is_there).collect()
}
