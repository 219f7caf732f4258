//! Exports, imports and copies of databases with relationships: every kind of them, in circles,
//! with links to rows that come later.

mod process;

use std::fs;
use std::path::Path;
use std::process::Output;

use process::{Folder, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};
use testing::ChildServer;

const TABLES: &str = "/tablesdb/shop/tables";

fn table(server: &ChildServer, id: &str) {
    let body = json!({"tableId": id, "name": id, "columns": [{"key": "n", "type": "integer"}]});
    server.call("POST", TABLES, &body);
}

fn column(server: &ChildServer, table: &str, key: &str) {
    let body = json!({"key": key, "size": 20, "required": false, "default": null});
    server.call("POST", &format!("{TABLES}/{table}/columns/varchar"), &body);
}

/// Relates two tables; `back` is the key of the other end, if there is one.
fn relate(
    server: &ChildServer,
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

fn row(server: &ChildServer, table: &str, id: &str) {
    let body = json!({"rowId": id, "data": {"n": 1}});
    server.call("POST", &format!("{TABLES}/{table}/rows"), &body);
}

fn link(server: &ChildServer, table: &str, id: &str, links: &Value) {
    let route = format!("{TABLES}/{table}/rows/{id}");
    server.call("PATCH", &route, &json!({ "data": links }));
}

/// The ids of the rows that a row leads to.
fn related(server: &ChildServer, table: &str, id: &str, key: &str) -> Value {
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
fn fill(server: &ChildServer) {
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

fn relate_all(server: &ChildServer) {
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

fn link_all(server: &ChildServer) {
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

fn serve(folder: &Folder) -> ChildServer {
    let env = [("TIDEMARK_API_KEY", "a-secret-of-our-own")];
    let mut server = process::start_with(folder, &env);
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
    let server = process::start(&folder);
    fill(&server);
    let first = export(&folder, "");
    server.stop().unwrap();
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
    server.stop().unwrap();
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
    let server = process::start(&folder);
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

/// Those that books hold to tables that show them.
fn assert_hidden_links_are_named(said: &str) {
    for (key, of) in [("on", "shelves"), ("more", "shelves"), ("on", "boxes")] {
        let hidden = format!(
            "Not copied: books: the links of the relationship `{key}` of table `{of}`, which does \
             not come with it"
        );
        assert_eq!(said.matches(&hidden).count(), 1, "{said}");
    }
}

#[test]
fn a_table_alone_comes_without_its_relationships_to_others() {
    let folder = Folder::new();
    let server = process::start(&folder);
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
    assert_hidden_links_are_named(&said);
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

/// Copies all that a server has into a data directory.
fn copy_from(server: &ChildServer, copy: &Folder) -> Output {
    let words = format!(
        "import --from-appwrite {} --project default --key {} --data",
        server.endpoint,
        server.key.as_deref().unwrap()
    );
    let mut command = tidemark(&words);
    command.arg(copy.data()).output().unwrap()
}

/// What a copy says of a table or relationship: both counts, both checksums, and how they compare.
fn compared(said: &str, what: &str) -> Vec<String> {
    let line = said.lines().find(|line| line.starts_with(what)).unwrap();
    let columns = line.split_whitespace();
    columns.skip(1).map(str::to_owned).collect()
}

#[test]
fn links_are_copied_from_another_server_and_compared() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    let copy = empty();
    let run = || copy_from(&server, &copy);
    let output = run();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(export(&copy, ""), export(&folder, ""));
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

#[test]
fn a_hidden_link_that_the_source_has_no_more_is_taken_away() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    let copy = empty();
    assert!(copy_from(&server, &copy).status.success());
    link(&server, "shelves", "s1", &json!({ "more": [] }));
    link(&server, "boxes", "x1", &json!({ "on": ["b8"] }));
    let output = copy_from(&server, &copy);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(compared(&said, "shop/shelves.more ")[..2], ["0", "0"]);
    assert_eq!(compared(&said, "shop/boxes.on ")[..2], ["1", "1"]);

    // A row that is only here keeps its link, also one to a row of the source.
    let mine = serve(&copy);
    row(&mine, "books", "mine");
    link(&mine, "shelves", "s1", &json!({"more": ["mine", "b4"]}));
    let output = copy_from(&server, &copy);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(compared(&said, "shop/shelves.more ")[..2], ["0", "1"]);
    assert_eq!(related(&mine, "shelves", "s1", "more"), json!(["mine"]));
}

/// Exchanges the images of two books.
fn exchange(server: &ChildServer, (one, of_one): (&str, &str), (other, of_other): (&str, &str)) {
    link(server, "books", one, &json!({ "cover": null }));
    link(server, "books", other, &json!({ "cover": of_one }));
    link(server, "books", one, &json!({ "cover": of_other }));
}

/// Of every kind, and images of three further books, one of them far from the others.
fn fill_with_covers(server: &ChildServer) {
    fill(server);
    for (book, image) in [("b2", "i3"), ("b3", "i4"), ("b610", "i5")] {
        row(server, "images", image);
        link(server, "books", book, &json!({ "cover": image }));
    }
}

#[test]
fn rows_that_exchanged_their_only_links_are_copied() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill_with_covers(&server);
    let copy = empty();
    assert!(copy_from(&server, &copy).status.success());
    // Beside each other, and on different pages.
    exchange(&server, ("b0", "i2"), ("b1", "i1"));
    exchange(&server, ("b2", "i3"), ("b610", "i5"));
    let output = copy_from(&server, &copy);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(compared(&said, "shop/books.cover ")[4], "equal");
    assert_eq!(export(&copy, ""), export(&folder, ""));

    // A row that is only here keeps its link, and the row of the source goes without.
    let mine = serve(&copy);
    link(&mine, "books", "b0", &json!({ "cover": null }));
    row(&mine, "books", "mine");
    link(&mine, "books", "mine", &json!({ "cover": "i1" }));
    let output = copy_from(&server, &copy);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("\n1 row without their links: rows that are only here"),
        "{said}"
    );
    let cover = |book: &str| related(&mine, "books", book, "cover");
    assert_eq!([cover("mine"), cover("b1")], ["i1", "i2"]);
}

#[test]
fn rows_that_exchanged_their_only_links_are_resumed() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill_with_covers(&server);
    let file = folder.join("shop.jsonl");
    fs::write(&file, export(&folder, "")).unwrap();
    let copy = empty();
    import(&copy, "import", &file);
    let mine = serve(&copy);
    let cover = |book: &str| related(&mine, "books", book, "cover");
    for far in [("b3", "i4"), ("b610", "i5")] {
        exchange(&mine, ("b2", "i3"), far);
        import(&copy, "import --resume", &file);
        assert_eq!([cover("b2"), cover(far.0)], ["i3", far.1]);
    }

    // A row that is only here keeps its link, and the row of the file is named.
    link(&mine, "books", "b1", &json!({ "cover": null }));
    row(&mine, "books", "mine");
    link(&mine, "books", "mine", &json!({ "cover": "i1" }));
    let wanted = fs::read_to_string(&file).unwrap();
    let (line, _) = line_of(&wanted, "{\"$id\":\"b1\"");
    let refused = with(&copy, "import --resume", &file);
    assert_refused(&refused, 1, &format!("line {line}: "));
    assert_eq!(cover("mine"), "i1");
    link(&mine, "books", "mine", &json!({ "cover": null }));
    import(&copy, "import --resume", &file);
    assert_eq!(cover("b1"), "i1");
}

#[test]
fn a_definition_that_can_never_be_made_is_refused_with_its_line() {
    let end = |own: &str, side: &str, related: &str, other: &str| {
        json!({
            "key": own, "type": "relationship", "side": side, "relatedTable": related,
            "twoWay": true, "twoWayKey": other, "relationType": "manyToOne",
        })
    };
    let (parent, child) = (end("p", "parent", "b", "c"), end("c", "child", "a", "p"));
    let folder = empty();
    let file = folder.join("malformed.jsonl");
    for (tables, why) in [
        (
            [vec![&parent, &parent], vec![&child]],
            "line 3: table `a`: the column `p` stands there twice",
        ),
        (
            [vec![&parent], vec![&child, &child]],
            "line 4: table `b`: the column `c` stands there twice",
        ),
    ] {
        let mut lines = vec![
            json!({"tidemark": "export", "version": 1}),
            json!({"database": {"id": "shop", "name": "Shop"}}),
        ];
        let table = |(id, columns): (&str, &Vec<&Value>)| {
            let table = json!({"id": id, "name": id, "columns": columns, "indexes": []});
            json!({ "table": table })
        };
        lines.extend(["a", "b"].into_iter().zip(&tables).map(table));
        lines.push(json!({"end": {"rows": 0}}));
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(&file, lines.join("\n")).unwrap();
        assert_refused(&with(&folder, "import --resume", &file), 1, why);
    }
}
