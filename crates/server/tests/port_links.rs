//! Exports, imports and copies of databases with relationships: every kind of them, in circles,
//! with links to rows that come later.

mod process;

use std::fs;
use std::path::Path;
use std::process::Output;

use process::{Folder, Running, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};

const TABLES: &str = "/tablesdb/shop/tables";

fn table(server: &Running, id: &str) {
    let body = json!({"tableId": id, "name": id, "columns": [{"key": "n", "type": "integer"}]});
    server.call("POST", TABLES, &body);
}

fn column(server: &Running, table: &str, key: &str) {
    let body = json!({"key": key, "size": 20, "required": false, "default": null});
    server.call("POST", &format!("{TABLES}/{table}/columns/varchar"), &body);
}

/// Relates two tables; `back` is the key of the other end, if there is one.
fn relate(
    server: &Running,
    kind: &str,
    (table, key): (&str, &str),
    (related, back): (&str, Option<&str>),
    on_delete: &str,
) {
    let mut body = json!({
        "relatedTableId": related, "type": kind, "key": key, "twoWay": back.is_some(),
        "onDelete": on_delete,
    });
    if let Some(back) = back {
        body["twoWayKey"] = json!(back);
    }
    let route = format!("{TABLES}/{table}/columns/relationship");
    server.call("POST", &route, &body);
}

fn row(server: &Running, table: &str, id: &str) {
    let body = json!({"rowId": id, "data": {"n": 1}});
    server.call("POST", &format!("{TABLES}/{table}/rows"), &body);
}

fn link(server: &Running, table: &str, id: &str, links: &Value) {
    let route = format!("{TABLES}/{table}/rows/{id}");
    server.call("PATCH", &route, &json!({ "data": links }));
}

/// The ids of the rows that a row leads to.
fn related(server: &Running, table: &str, id: &str, key: &str) -> Value {
    let select = format!(
        "%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22%24id%22%2C%22{key}.%24id%22%5D%7D"
    );
    let route = format!("{TABLES}/{table}/rows/{id}?queries%5B0%5D={select}");
    let row = server.call("GET", &route, &Value::Null);
    match &row[key] {
        Value::Array(rows) => rows.iter().map(|row| row["$id"].clone()).collect(),
        Value::Null => Value::Null,
        single => single["$id"].clone(),
    }
}

/// How many rows lead to one shelf: more than one batch, or one page, holds.
const MANY: usize = 620;

/// Every kind of relationship. People and books lead to each other in a circle, and both to
/// themselves; links lead to rows that were made later.
fn fill(server: &Running) {
    let shop = json!({"databaseId": "shop", "name": "Shop"});
    server.call("POST", "/tablesdb", &shop);
    for id in ["people", "books", "shelves", "boxes", "images", "tags"] {
        table(server, id);
    }
    for start in (0..MANY).step_by(100) {
        let row = |n: usize| json!({"$id": format!("b{n}"), "n": n});
        let rows: Vec<Value> = (start..MANY.min(start + 100)).map(row).collect();
        let route = format!("{TABLES}/books/rows");
        server.call("POST", &route, &json!({ "rows": rows }));
    }
    relate_all(server);
    for (table, ids) in [
        ("people", vec!["p1", "p2", "p3"]),
        ("shelves", vec!["s1", "s2"]),
        ("boxes", vec!["x1"]),
        ("images", vec!["i1", "i2"]),
        ("tags", vec!["t1", "t2"]),
    ] {
        for id in ids {
            row(server, table, id);
        }
    }
    link_all(server);
}

/// Type, table and key, the other table and perhaps its key, and what a deletion does.
type Related = (
    &'static str,
    (&'static str, &'static str),
    (&'static str, Option<&'static str>),
    &'static str,
);

/// Every kind, before and after a plain column.
#[rustfmt::skip]
const BEFORE: &[Related] = &[
    ("manyToOne", ("people", "boss"), ("people", Some("staff")), "setNull"),
    ("oneToOne", ("people", "spouse"), ("people", Some("spouse_of")), "cascade"),
    ("manyToOne", ("books", "author"), ("people", Some("authored")), "restrict"),
];
#[rustfmt::skip]
const AFTER: &[Related] = &[
    ("oneToMany", ("shelves", "on"), ("books", None), "setNull"),
    ("oneToMany", ("boxes", "on"), ("books", None), "cascade"),
    ("oneToMany", ("boxes", "in"), ("books", Some("box")), "restrict"),
    ("manyToMany", ("books", "tags"), ("tags", Some("books")), "cascade"),
    ("manyToMany", ("books", "similar"), ("books", None), "setNull"),
    ("oneToOne", ("books", "cover"), ("images", None), "cascade"),
    ("manyToOne", ("people", "likes"), ("books", None), "restrict"),
    ("oneToMany", ("shelves", "more"), ("books", None), "setNull"),
];

fn relate_all(server: &Running) {
    for (kind, parent, child, on_delete) in BEFORE {
        relate(server, kind, *parent, *child, on_delete);
    }
    column(server, "books", "title");
    for (kind, parent, child, on_delete) in AFTER {
        relate(server, kind, *parent, *child, on_delete);
    }
    // A column of the key that a hidden one has.
    column(server, "books", "shelves");
    let index = json!({"key": "by_title", "type": "key", "columns": ["title", "n"]});
    server.call("POST", &format!("{TABLES}/books/indexes"), &index);
}

fn link_all(server: &Running) {
    let (people, books) = ("people", "books");
    link(
        server,
        people,
        "p1",
        &json!({"boss": "p3", "spouse": "p2", "likes": "b5"}),
    );
    link(server, people, "p3", &json!({"boss": "p1"}));
    link(server, people, "p2", &json!({"authored": ["b0", "b619"]}));
    let all: Vec<String> = (0..MANY).map(|n| format!("b{n}")).collect();
    link(server, "shelves", "s2", &json!({ "on": all }));
    link(server, "shelves", "s1", &json!({"more": ["b3"]}));
    link(
        server,
        "boxes",
        "x1",
        &json!({"in": ["b0", "b1"], "on": ["b2"]}),
    );
    let first = json!({
        "tags": ["t2", "t1"], "similar": ["b7", "b0"], "cover": "i2", "title": "ü",
        "shelves": "text",
    });
    link(server, books, "b0", &first);
    link(server, books, "b1", &json!({"tags": ["t1"], "cover": "i1"}));
}

fn with(folder: &Folder, words: &str, file: &Path) -> Output {
    let mut command = tidemark(words);
    command.arg("--data").arg(folder.data()).arg(file);
    command.output().unwrap()
}

#[track_caller]
fn import(folder: &Folder, words: &str, file: &Path) -> String {
    let output = with(folder, words, file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn export(folder: &Folder, words: &str) -> String {
    let output = on(folder, format!("export shop {words}").trim());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A new data directory with the default project.
fn empty() -> Folder {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    folder
}

fn serve(folder: &Folder) -> Running {
    let env = [("TIDEMARK_API_KEY", "a-secret-of-our-own")];
    let mut server = Running::start_with(folder, &env);
    server.key = Some("a-secret-of-our-own".to_owned());
    server
}

/// The line of a row, and its number.
fn line_of<'e>(export: &'e str, part: &str) -> (usize, &'e str) {
    let mut lines = export.lines().enumerate();
    let (at, line) = lines.find(|(_, line)| line.contains(part)).unwrap();
    (at + 1, line)
}

#[test]
fn links_of_every_kind_come_back_byte_for_byte() {
    let folder = Folder::new();
    let server = Running::start(&folder);
    fill(&server);
    let first = export(&folder, "");
    assert_eq!(server.stop(), Some(0));
    let (_, book) = line_of(&first, "{\"$id\":\"b0\"");
    let book: Value = serde_json::from_str(book).unwrap();
    assert_eq!(
        (&book["author"], &book["tags"], &book["similar"]),
        (&json!("p2"), &json!(["t2", "t1"]), &json!(["b7", "b0"]))
    );
    assert_eq!(
        book["$links"],
        json!({"boxes": {"on": null}, "shelves": {"more": null, "on": "s2"}})
    );
    assert_eq!(
        (&book["box"], &book["shelves"]),
        (&json!("x1"), &json!("text"))
    );

    let copy = empty();
    let file = folder.join("shop.jsonl");
    fs::write(&file, &first).unwrap();
    let said = import(&copy, "import", &file);
    assert_eq!(said, "Imported 630 rows into 6 tables of database shop.\n");
    assert_eq!(export(&copy, ""), first);
    let left: Vec<_> = fs::read_dir(copy.data()).unwrap().collect();
    assert!(left.iter().all(|name| {
        let name = name.as_ref().unwrap().file_name();
        !name.to_string_lossy().starts_with(".tmp")
    }));

    let server = serve(&copy);
    let shown = |table: &str, id: &str, key: &str| related(&server, table, id, key);
    assert_eq!(shown("people", "p1", "boss"), "p3");
    assert_eq!(shown("people", "p3", "staff"), json!(["p1"]));
    assert_eq!(shown("people", "p2", "spouse_of"), "p1");
    assert_eq!(shown("people", "p2", "authored"), json!(["b0", "b619"]));
    assert_eq!(shown("boxes", "x1", "on"), json!(["b2"]));
    assert_eq!(shown("tags", "t1", "books"), json!(["b0", "b1"]));
    assert_eq!(shown("shelves", "s2", "on").as_array().unwrap().len(), MANY);
    assert_eq!(export(&copy, ""), first, "the same through the server");
    assert_eq!(server.stop(), Some(0));
    let mut doctor = tidemark("doctor --data");
    let doctor = doctor
        .arg(copy.data())
        .env("TIDEMARK_LISTEN", "127.0.0.1:0");
    let doctor = doctor.output().unwrap();
    assert!(doctor.status.success(), "{}", text(&doctor.stdout));
}

#[test]
fn an_import_that_broke_off_is_resumed_with_its_links() {
    let folder = Folder::new();
    let server = Running::start(&folder);
    fill(&server);
    let good = export(&folder, "");
    let file = folder.join("shop.jsonl");
    let (line, _) = line_of(&good, "{\"$id\":\"p1\"");
    fs::write(
        &file,
        good.replacen("\"boss\":\"p3\"", "\"boss\":\"nobody\"", 1),
    )
    .unwrap();
    let copy = empty();
    let refused = with(&copy, "import", &file);
    assert_refused(
        &refused,
        1,
        &format!("line {line}: Column `boss`: there is no row `nobody` to link to."),
    );
    assert_refused(&refused, 1, "--resume");
    fs::write(&file, &good).unwrap();
    import(&copy, "import --resume", &file);
    assert_eq!(export(&copy, ""), good);

    // What was linked otherwise meanwhile takes the file's links, and those it had not are gone.
    let server = serve(&copy);
    link(
        &server,
        "people",
        "p1",
        &json!({"boss": "p2", "spouse": null}),
    );
    link(&server, "people", "p2", &json!({"boss": "p1"}));
    link(&server, "shelves", "s1", &json!({"on": ["b9"]}));
    let said = import(&copy, "import --resume", &file);
    assert!(said.contains("630 rows were there already"), "{said}");
    for table in ["people", "books"] {
        for row in export(&copy, "")
            .lines()
            .filter(|line| line.contains("$id"))
        {
            let links = |line: &str| {
                let mut row: Value = serde_json::from_str(line).unwrap();
                row["$updatedAt"] = Value::Null;
                row
            };
            let id = &links(row)["$id"];
            let (_, wanted) = line_of(&good, &format!("{{\"$id\":{id}"));
            assert_eq!(links(row), links(wanted), "{table}");
        }
    }
}

#[test]
fn a_table_alone_comes_without_its_relationships_to_others() {
    let folder = Folder::new();
    let server = Running::start(&folder);
    fill(&server);
    let alone = export(&folder, "--table books");
    let file = folder.join("books.jsonl");
    fs::write(&file, &alone).unwrap();
    let copy = empty();
    let said = import(&copy, "import", &file);
    assert!(
        said.starts_with("Imported 620 rows into 1 table of"),
        "{said}"
    );
    for key in ["author", "box", "tags", "cover"] {
        assert!(
            said.contains(&format!("Not copied: books: the relationship `{key}`")),
            "{said}"
        );
    }
    let copied = export(&copy, "");
    let (_, book) = line_of(&copied, "{\"$id\":\"b0\"");
    let book: Value = serde_json::from_str(book).unwrap();
    assert_eq!(book["similar"], json!(["b7", "b0"]), "to itself it has one");
    assert_eq!(book.get("author"), None);
    assert!(import(&copy, "import --resume", &file).contains("620 rows were there already."));

    // As CSV into a table that has relationships: links come when all rows are there.
    let csv = export(&folder, "--table people --format csv");
    assert!(csv.starts_with("$id,$createdAt,$updatedAt,$permissions,n,boss,spouse,likes\r\n"));
    let schema: Vec<String> = export(&folder, "")
        .lines()
        .filter(|line| !line.starts_with("{\"$id\"") || line.starts_with("{\"$id\":\"b"))
        .map(|line| {
            if line.starts_with("{\"end\"") {
                return "{\"end\":{\"rows\":620}}".to_owned();
            }
            line.replace("\"author\":\"p2\"", "\"author\":null")
                .replace("\"s2\"", "null")
                .replace("\"s1\"", "null")
                .replace("\"x1\"", "null")
                .replace("[\"t2\",\"t1\"]", "null")
                .replace("[\"t1\"]", "null")
                .replace("\"i1\"", "null")
                .replace("\"i2\"", "null")
        })
        .collect();
    fs::write(&file, schema.join("\n")).unwrap();
    let copy = empty();
    import(&copy, "import", &file);
    let people = folder.join("people.csv");
    fs::write(&people, &csv).unwrap();
    import(&copy, "import --database shop --table people", &people);
    assert_eq!(export(&copy, "--table people --format csv"), csv);
    let lost = csv.replace(",b5\r\n", ",nobody\r\n");
    fs::write(&people, lost).unwrap();
    let refused = with(
        &copy,
        "import --resume --database shop --table people",
        &people,
    );
    assert_refused(
        &refused,
        1,
        "line 2: Column `likes`: there is no row `nobody`",
    );
}

#[test]
fn links_are_copied_from_another_server_and_compared() {
    let folder = Folder::new();
    let server = Running::start(&folder);
    fill(&server);
    let copy = empty();
    let words = format!(
        "import --from-appwrite {} --project default --key {} --data",
        server.endpoint,
        server.key.as_deref().unwrap()
    );
    let run = || {
        let mut command = tidemark(&words);
        command.arg(copy.data()).output().unwrap()
    };
    let output = run();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(export(&copy, ""), export(&folder, ""));
    let compared = |said: &str, what: &str| {
        let line = said.lines().find(|line| line.starts_with(what)).unwrap();
        let columns = line.split_whitespace();
        columns.skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let shelves = compared(&said, "shop/shelves.on ");
    assert_eq!(
        (&*shelves[0], &*shelves[1], &*shelves[4]),
        ("620", "620", "equal")
    );
    assert_eq!(compared(&said, "shop/books.tags ")[0], "3");

    // A link that is not there any more is taken away here, too.
    link(&server, "people", "p1", &json!({"boss": null}));
    link(&server, "books", "b0", &json!({"tags": ["t2"]}));
    let output = run();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(compared(&said, "shop/people.boss ")[1], "1");
    assert_eq!(compared(&said, "shop/books.tags ")[4], "equal");
}
