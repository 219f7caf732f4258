use super::*;

fn file(tables: &str) -> SchemaFile {
    let text = format!(
        r#"{{"format": "tidemark-schema-1",
            "databases": [{{"id": "d", "name": "D", "tables": [{tables}]}}]}}"#
    );
    SchemaFile::parse(&text).unwrap()
}

fn table(id: &str, columns: &str, indexes: &str) -> String {
    format!(r#"{{"id": "{id}", "name": "T", "columns": [{columns}], "indexes": [{indexes}]}}"#)
}

fn lines(server: &SchemaFile, wanted: &SchemaFile, renames: &[&str]) -> Vec<String> {
    let renames: Vec<ColumnRename> = renames.iter().map(|one| one.parse().unwrap()).collect();
    let steps = plan(server, wanted, &renames).unwrap();
    steps.iter().map(ToString::to_string).collect()
}

const A: &str = r#"{"key": "a", "type": "integer"}"#;
const B: &str = r#"{"key": "b", "type": "varchar", "size": 9}"#;
const BY_A: &str = r#"{"key": "by_a", "type": "key", "columns": ["a"], "orders": ["asc"]}"#;

#[test]
fn plan_between_equal_schemas_is_empty_whatever_the_order_of_columns() {
    let one = file(&table("t", &format!("{A}, {B}"), BY_A));
    let other = file(&table("t", &format!("{B}, {A}"), BY_A));
    assert_eq!(lines(&other, &other, &[]), [""; 0]);
    assert_eq!(lines(&other, &one, &[]), [""; 0]);
}

#[test]
fn plan_of_new_tables_makes_relationships_when_all_tables_are_there() {
    let link = r#"{"key": "to", "type": "relationship", "relatedTable": "u",
        "relationType": "oneToOne"}"#;
    let wanted = file(&format!(
        "{}, {}",
        table("t", &format!("{A}, {link}, {B}"), BY_A),
        table("u", A, BY_A)
    ));
    let empty = SchemaFile {
        databases: Vec::new(),
        ..wanted.clone()
    };
    assert_eq!(
        lines(&empty, &wanted, &[]),
        [
            "+ database d",
            "+ table d/t with 1 column, 0 indexes",
            "+ table d/u with 1 column, 1 index",
            "+ column d/t/to relationship",
            "+ column d/t/b varchar",
            "+ index d/t/by_a key (a)",
        ]
    );
}

#[test]
fn plan_that_loses_data_says_so_and_is_refused() {
    let server = file(&format!(
        "{}, {}",
        table("t", &format!("{A}, {B}"), BY_A),
        table("old", A, "")
    ));
    let wanted = file(&table("t", r#"{"key": "a", "type": "float"}"#, BY_A));
    let steps = plan(&server, &wanted, &[]).unwrap();
    assert_eq!(
        listed(&steps),
        "- index d/t/by_a\n\
         - column d/t/a   ! loses its values\n\
         + column d/t/a float\n\
         + index d/t/by_a key (a)\n\
         - column d/t/b   ! loses its values\n\
         - table d/old   ! loses its rows, with the values of a\n"
    );
    let error = refuse_loss(&steps).unwrap_err().to_string();
    assert!(error.starts_with("nothing was changed"), "{error}");
    assert!(
        error.contains("- table d/old   ! loses its rows"),
        "{error}"
    );
    assert!(!error.contains("+ column"), "{error}");
}

#[test]
fn column_that_is_renamed_keeps_its_values_and_indexes() {
    let server = file(&table("t", A, BY_A));
    let wanted = file(&table(
        "t",
        r#"{"key": "c", "type": "integer", "min": 3}"#,
        &BY_A.replace(r#"["a"]"#, r#"["c"]"#),
    ));
    assert_eq!(
        lines(&server, &wanted, &["d/t/a=c"]),
        [
            "~ column d/t/a: renamed to c",
            "~ column d/t/c: min null -> 3"
        ]
    );
    let missing = ["d/t/x=c".parse().unwrap()];
    let error = plan(&server, &wanted, &missing).unwrap_err().to_string();
    assert_eq!(error, "--rename: the server has no column `d/t/x`");
    assert!("d/t=c".parse::<ColumnRename>().is_err());
}

#[test]
fn rename_that_has_been_done_is_no_step() {
    let wanted = file(&table("t", r#"{"key": "c", "type": "integer"}"#, ""));
    assert_eq!(lines(&wanted, &wanted, &["d/t/a=c"]), [""; 0]);
    let server = file(&table("t", &format!("{A}, {B}"), ""));
    let taken = ["d/t/a=b".parse().unwrap()];
    let error = plan(&server, &wanted, &taken).unwrap_err().to_string();
    assert_eq!(error, "--rename: `d/t` has a column `b` already");
}

#[test]
fn rename_of_the_other_end_of_a_relationship_keeps_its_links() {
    let link = |key: &str| {
        let link = format!(
            r#"{{"key": "to", "type": "relationship", "relatedTable": "u",
                "relationType": "oneToOne", "twoWayKey": "{key}"}}"#
        );
        file(&format!("{}, {}", table("t", &link, ""), table("u", A, "")))
    };
    let (server, wanted) = (link("from"), link("back"));
    assert_eq!(
        lines(&server, &wanted, &[]),
        [
            "- column d/t/to   ! loses its links",
            "+ column d/t/to relationship"
        ]
    );
    assert_eq!(
        lines(&server, &wanted, &["d/u/from=back"]),
        ["~ column d/u/from: renamed to back"]
    );
}

#[test]
fn rule_over_a_column_of_another_type_is_lifted_until_it_is_there() {
    let with = |kind: &str| {
        file(&format!(
            r#"{{"id": "t", "name": "T", "constraints": {{"unique": [["a"]]}},
                "columns": [{{"key": "a", "type": "{kind}"}}]}}"#
        ))
    };
    let steps = lines(&with("integer"), &with("bigint"), &[]);
    assert_eq!(
        steps,
        [
            r#"~ constraints d/t: unique [["a"]] -> []"#,
            "- column d/t/a   ! loses its values",
            "+ column d/t/a bigint",
            r#"~ constraints d/t: unique [] -> [["a"]]"#,
        ]
    );
}

#[test]
fn options_that_keep_less_lose_versions() {
    let options = |history: &str| {
        file(&format!(
            r#"{{"id": "t", "name": "T", "options": {{"history": "{history}", "past": "keys",
                "pinnedMaxAge": 0, "ttlMax": 60}}}}"#
        ))
    };
    let loss = |from: &str, to: &str| {
        let steps = plan(&options(from), &options(to), &[]).unwrap();
        steps[0].loss().is_some()
    };
    assert!(loss("keep", "days(7)") && loss("days(8)", "days(7)") && loss("days(1)", "none"));
    assert!(!loss("days(7)", "keep") && !loss("none", "days(7)"));
    // Without options the file leaves them alone.
    let silent = file(r#"{"id": "t", "name": "T"}"#);
    assert_eq!(lines(&options("none"), &silent, &[]), [""; 0]);
}

#[test]
fn index_that_could_not_be_built_is_made_again() {
    let wanted = file(&table("t", A, BY_A));
    let mut server = wanted.clone();
    let index = &mut server.databases[0].tables[0].indexes[0];
    index.is_failed = true;
    assert_eq!(
        lines(&server, &wanted, &[]),
        ["- index d/t/by_a", "+ index d/t/by_a key (a)"]
    );
}
