//! Moving a store from a data directory into a database and back: all of it is there again, and
//! whatever a move is cut by, exactly one place has the store.

#[path = "reads/drawn.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod drawn;
#[path = "reads/oracle.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod oracle;
mod suite;
mod target_database;
#[path = "reads/world.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod world;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use drawn::random_asked;
use futures_executor::block_on;
use model::{Row, Value};
use rusqlite::Connection;
use store::{
    DatabaseStore, DatabaseUrl, MoveStep, Moved, Op, Store, StoreError, TotalCap, move_to_database,
    move_to_directory,
};
use suite::db::{self, Db, Directory};
use target_database::{Target, data_of};
use world::{Chance, World};

impl Target {
    fn there(&self, directory: &Path, schema: &str) -> Result<Moved, StoreError> {
        move_to_database(directory, (&self.url(schema), None), &mut |_| {})
    }

    fn back(&self, schema: &str, directory: &Path) -> Result<Moved, StoreError> {
        move_to_directory((&self.url(schema), None), directory, &mut |_| {})
    }

    fn refused(&self, schema: &str) -> String {
        let refused = DatabaseStore::open(&self.url(schema), None).err();
        refused.expect("it is refused").to_string()
    }
}

fn is_night() -> bool {
    std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night")
}

/// Everything a file holds, a line each: names of tables, indexes and triggers, and all values.
fn dump(directory: &Path) -> Vec<String> {
    let file = Connection::open(directory.join("tidemark.db")).unwrap();
    let strings = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).unwrap();
        let found = statement.query_map((), |row| row.get(0)).unwrap();
        found.collect::<Result<_, _>>().unwrap()
    };
    let known = strings("SELECT 't' || number FROM table_ WHERE st = 9223372036854775807");
    let is_left = |name: &String| {
        let table = name.split('_').next().unwrap();
        let is_of_rows = table.len() > 1 && table[1..].bytes().all(|one| one.is_ascii_digit());
        !is_of_rows || known.iter().any(|known| known == table)
    };
    let names = "SELECT type || ' ' || name || ' of ' || tbl_name FROM sqlite_schema ORDER BY 1";
    let mut lines = strings(names);
    lines.retain(|line| is_left(&line.rsplit(' ').next().unwrap().to_owned()));
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' \
                  AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT GLOB 't*_f*_*' \
                  AND name NOT GLOB 'sqlite_stat*' ORDER BY 1";
    for table in strings(tables).iter().filter(|name| is_left(name)) {
        let mut columns = strings(&format!(
            "SELECT name FROM pragma_table_info('{table}') ORDER BY name"
        ));
        if table.ends_with("_perm") {
            columns.push("rowid".to_owned());
        }
        let shown = columns
            .iter()
            .map(|column| format!("typeof([{column}]) || ' ' || quote([{column}])"));
        let shown: Vec<String> = shown.collect();
        let which = match table.as_str() {
            "upkeep" => " WHERE task <> 'drop'",
            _ => "",
        };
        let rows = format!(
            "SELECT '{table}: ' || {} FROM [{table}]{which} ORDER BY 1",
            shown.join(" || ', ' || ")
        );
        lines.extend(strings(&rows));
    }
    lines
}

#[track_caller]
fn assert_same(back: &[String], before: &[String]) {
    for (back, before) in back.iter().zip(before) {
        assert_eq!(back, before);
    }
    assert_eq!(back.len(), before.len());
}

/// Of the subjects that leave the most different things, by the names of their cases.
const MOVED: [&str; 8] = [
    "catalogue::a_reopened",
    "constraints::",
    "related::",
    "time::",
    "rows::grants",
    "search::an_index",
    "schema::a_dropped",
    "schema::a_small_index",
];

#[test]
fn stores_that_the_suite_leaves_come_back_as_they_were() {
    let target = Target::new("cases");
    let is_moved = |(name, _): &&suite::Case| MOVED.iter().any(|start| name.starts_with(start));
    for (nth, (name, case)) in suite::CASES.iter().filter(is_moved).enumerate() {
        let place = Directory::new();
        case(&place);
        if !data_of(&place).exists() {
            continue;
        }
        // What the last start leaves.
        Db::open(&place).close();
        let before = dump(&data_of(&place));
        let schema = format!("s{nth}");
        let there = target.there(&data_of(&place), &schema);
        let there = there.unwrap_or_else(|error| panic!("{name}: {error}"));
        let other = place.0.path().join("other");
        let back = target.back(&schema, &other);
        let back = back.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(back, there, "{name}");
        println!("{name}");
        assert_same(&dump(&other), &before);
        let store = store::open(db::options(&other)).unwrap();
        block_on(store.close(model::Mark::ZERO)).unwrap();
        target.sql(&format!(
            "SET client_min_messages = error; DROP SCHEMA {schema} CASCADE"
        ));
    }
}

/// Rows, total, and the mark of the snapshot.
type Answered = (Vec<Row>, u64, model::Mark);

fn answered(store: &dyn Store, query: &query::Query, epoch: u64) -> Answered {
    let listing = store::Listing {
        total: Some(TotalCap::None),
        ..db::listing(query, epoch)
    };
    let snapshot = block_on(store.list(listing)).unwrap();
    (snapshot.answer.rows, snapshot.answer.total, snapshot.mark)
}

#[test]
fn reads_at_all_coordinates_are_the_same_there_and_back() {
    let target = Target::new("reads");
    let World {
        db,
        tables,
        stages,
        directory,
    } = World::new(11, 150);
    let data = directory.0.path().join("data");
    let epoch = db.catalogue.epoch;
    let mut chance = Chance::new(909);
    let mut asked = Vec::new();
    let count = if is_night() { 5_000 } else { 500 };
    while asked.len() < count {
        let stage = chance.below(stages.len() + 1);
        let (rows, at) = match stages.get(stage) {
            Some(stage) => (&stage.rows, Some(stage.coordinates())),
            None => (&stages.last().unwrap().rows, None),
        };
        let nth = chance.below(2);
        let query =
            random_asked(&mut chance, &rows[nth], &tables[nth]).query(&tables[nth], at, &[]);
        let before = answered(&*db.store, &query, epoch);
        asked.push((query, before));
    }
    assert!(asked.iter().any(|(_, (rows, ..))| rows.len() > 20));
    let loaded = db.load();
    db.close();
    target.there(&data, "one").unwrap();
    let other = directory.0.path().join("other");
    target.back("one", &other).unwrap();
    let store = store::open(db::options(&other)).unwrap();
    let back = block_on(store.load()).unwrap();
    assert_eq!(
        (back.mark, back.lineage, back.boundaries),
        (loaded.mark, loaded.lineage, loaded.boundaries)
    );
    for (query, before) in asked {
        assert_eq!(answered(&*store, &query, epoch), before, "{query:#?}");
    }
    block_on(store.close(back.horizon)).unwrap();
}

/// A directory with a table and rows, which is closed.
fn notes(rows: usize) -> Directory {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    for nth in 0..rows {
        db.ok(vec![db.insert_granted(
            &format!("n{nth}"),
            db::note(&format!("title {nth}")),
            &["read(\"any\")"],
        )]);
    }
    db.close();
    place
}

/// The directory with what is in it, as another one.
fn twin(of: &Path) -> Directory {
    let place = Directory::new();
    fs::create_dir(data_of(&place)).unwrap();
    for name in ["tidemark.db", "tidemark.marks"] {
        fs::copy(of.join(name), data_of(&place).join(name)).unwrap();
    }
    place
}

/// What a child of [`a_move_that_is_cut_leaves_one_place_with_the_store`] is to do: the step at
/// which it ends, the way, the URL and the directory, a line each.
const CUT: &str = "TIDEMARK_TEST_MOVE_CUT";

/// Ends without any order at one of its steps.
fn move_and_cut(words: &str) {
    let words: Vec<&str> = words.lines().collect();
    let (mut left, directory) = (words[0].parse::<u64>().unwrap(), Path::new(words[3]));
    let url = DatabaseUrl::parse(words[2]).unwrap();
    let mut tell = |_: MoveStep| {
        if left == 0 {
            std::process::abort();
        }
        left -= 1;
    };
    match words[1] {
        "there" => move_to_database(directory, (&url, None), &mut tell),
        _ => move_to_directory((&url, None), directory, &mut tell),
    }
    .unwrap();
}

/// A move in a process of its own, which is cut at a step. Its session has ended then.
fn cut_at(target: &Target, step: u64, (way, schema): (&str, &str), directory: &Path) {
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args([
        "--exact",
        "a_move_that_is_cut_leaves_one_place_with_the_store",
    ]);
    let url = target.text(schema);
    let words = format!("{step}\n{way}\n{url}\n{}", directory.display());
    let output = own.env(CUT, words).output().unwrap();
    assert!(!output.status.success(), "step {step} {way}: {output:?}");
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    while target.sql(held) != "0\n" {
        std::thread::yield_now();
    }
}

/// Some of so many steps, the last ones among them.
fn steps(count: u64) -> Vec<u64> {
    let some = if is_night() { 40 } else { 6 };
    let spread = (0..some).map(|nth| nth * (count - 3) / some);
    spread.chain(count - 3..count).collect()
}

#[test]
fn a_move_that_is_cut_leaves_one_place_with_the_store() {
    if let Ok(words) = std::env::var(CUT) {
        return move_and_cut(&words);
    }
    let target = Target::new("cuts");
    let original = notes(40);
    let before = dump(&data_of(&original));
    let whole = twin(&data_of(&original));
    let (mut there, mut back) = (0, 0);
    let url = target.url("whole");
    move_to_database(&data_of(&whole), (&url, None), &mut |_| there += 1).unwrap();
    for step in steps(there) {
        let place = twin(&data_of(&original));
        let schema = format!("there{step}");
        cut_at(&target, step, ("there", &schema), &data_of(&place));
        // The last step tells that the directory is sealed.
        if step + 1 < there {
            place_serves(&place);
        } else {
            assert_sealed(&data_of(&place));
        }
        let refused = target.refused(&schema);
        assert!(refused.contains("that has not ended"), "{step}: {refused}");
        let again = target.there(&data_of(&place), &schema).unwrap();
        assert_eq!(again.rows.is_none(), step + 1 == there, "{step}");
        assert_sealed(&data_of(&place));
        // A whole copy does not count where the source has changed since.
        let titles = format!("SELECT count(*) FROM {schema}.t1 WHERE c1 = 'still here'");
        let changed = if step + 1 < there { "1\n" } else { "0\n" };
        assert_eq!(target.sql(&titles), changed, "{step}");
        DatabaseStore::open(&target.url(&schema), None)
            .unwrap()
            .close();
    }
    let first = original.0.path().join("first");
    move_to_directory((&url, None), &first, &mut |_| back += 1).unwrap();
    for step in steps(back) {
        target.sql("UPDATE whole.meta SET moving = 0");
        let directory = original.0.path().join(format!("back{step}"));
        cut_at(&target, step, ("back", "whole"), &directory);
        if step + 1 < back {
            DatabaseStore::open(&url, None).unwrap().close();
        } else {
            let refused = target.refused("whole");
            assert!(
                refused.contains("was moved into a data directory"),
                "{refused}"
            );
        }
        let refused = store::open(db::options(&directory)).err().unwrap();
        let is_unfinished = matches!(refused, StoreError::MoveUnfinished { .. });
        assert!(is_unfinished, "{step}: {refused:?}");
        let again = target.back("whole", &directory).unwrap();
        assert_eq!(again.rows.is_none(), step + 1 == back, "{step}");
        assert_same(&dump(&directory), &before);
        assert!(
            target
                .refused("whole")
                .contains("was moved into a data directory")
        );
    }
}

/// Rows can be read and written in it.
fn place_serves(place: &Directory) {
    let mut db = Db::open(place);
    assert!(db.get("n1").is_some());
    let written = db.update("n1", vec![(db::TITLE, Value::Text("still here".into()))]);
    db.ok(vec![written]);
    db.close();
}

fn assert_sealed(directory: &Path) {
    let refused = store::open(db::options(directory)).err().unwrap();
    let is_elsewhere = matches!(refused, StoreError::StoredElsewhere { .. });
    assert!(is_elsewhere, "{refused:?}");
}

#[test]
fn places_that_are_in_use_full_or_sealed_are_refused() {
    let target = Target::new("places");
    let place = notes(2);
    let data = data_of(&place);
    let open = Db::open(&place);
    let refused = target.there(&data, "one").unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    open.close();
    target.there(&data, "one").unwrap();
    // Again, and to another one.
    let refused = target.there(&data, "one").unwrap_err().to_string();
    assert!(refused.contains("has arrived already"), "{refused}");
    let refused = target.there(&data, "two").unwrap_err().to_string();
    assert!(refused.contains(", schema one. "), "{refused}");
    let full = notes(1);
    let refused = target
        .there(&data_of(&full), "one")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("`one` holds a store with data"),
        "{refused}"
    );
    let refused = target.back("one", &data_of(&full)).unwrap_err();
    assert!(
        matches!(refused, StoreError::NotEmpty { .. }),
        "{refused:?}"
    );
    // The directory that was moved is kept beside the store, and its old database is in the way.
    let refused = target.back("one", &data).unwrap_err();
    assert!(
        matches!(refused, StoreError::NotEmpty { .. }),
        "{refused:?}"
    );
    let owner = DatabaseStore::open(&target.url("one"), None).unwrap();
    let other = place.0.path().join("other");
    let refused = target.back("one", &other).unwrap_err().to_string();
    assert!(refused.contains("connected from"), "{refused}");
    owner.close();
    assert!(!other.exists(), "nothing is made before the source is held");
    target.sql("UPDATE one.meta SET format = format - 1");
    let refused = target.back("one", &other).unwrap_err();
    assert!(
        matches!(refused, StoreError::OlderFormat { .. }),
        "{refused:?}"
    );
    target.sql("UPDATE one.meta SET format = format + 2");
    let refused = target.back("one", &other).unwrap_err();
    assert!(matches!(refused, StoreError::Format { .. }), "{refused:?}");
    target.sql("UPDATE one.meta SET format = format - 1");
    // Without its old database it takes the store back.
    for name in ["tidemark.db", "tidemark.marks"] {
        fs::remove_file(data.join(name)).unwrap();
    }
    target.back("one", &data).unwrap();
    place_serves(&place);
    let refused = target.back("one", &other).unwrap_err().to_string();
    assert!(
        refused.contains("was moved into a data directory"),
        "{refused}"
    );
    let refused = target.back("absent", &other).unwrap_err().to_string();
    assert!(refused.contains("`absent` holds no store"), "{refused}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('two', 'absent')";
    assert_eq!(target.sql(schemas), "0\n");
}

#[test]
fn a_directory_that_was_sealed_while_it_was_looked_at_is_not_copied() {
    let target = Target::new("looks");
    let place = notes(2);
    let data = data_of(&place);
    let (marks, url) = (data.join("tidemark.marks"), target.url("one"));
    // Reading it waits for one who writes it.
    let known = fs::read(&marks).unwrap();
    fs::remove_file(&marks).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&marks)
            .status()
            .unwrap()
            .success()
    );
    let path = data.clone();
    let moving =
        std::thread::spawn(move || move_to_database(&path, (&url, None), &mut |_| {}).map(|_| ()));
    let mut writer = fs::File::options().write(true).open(&marks).unwrap();
    fs::write(
        data.join("tidemark.database"),
        "the database of another move",
    )
    .unwrap();
    writer.write_all(&known).unwrap();
    drop(writer);
    let refused = moving.join().unwrap().unwrap_err();
    let is_elsewhere = matches!(refused, StoreError::StoredElsewhere { .. });
    assert!(is_elsewhere, "{refused:?}");
}

#[test]
fn a_copy_is_not_taken_when_another_move_has_sealed_the_source() {
    let target = Target::new("strays");
    let place = notes(2);
    target.there(&data_of(&place), "one").unwrap();
    let [first, second, stray] = ["first", "second", "stray"].map(|name| place.0.path().join(name));
    // What a move leaves that ends before it seals the source.
    let unfinished = stray.join("move.unfinished");
    fs::create_dir_all(&unfinished).unwrap();
    let mut leave = |step: MoveStep| {
        if step == MoveStep::Whole {
            for file in fs::read_dir(first.join("move.unfinished")).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), unfinished.join(file.file_name())).unwrap();
            }
        }
    };
    move_to_directory((&target.url("one"), None), &first, &mut leave).unwrap();
    target.sql("UPDATE one.meta SET moving = 0");
    target.back("one", &second).unwrap();
    let refused = target.back("one", &stray).unwrap_err().to_string();
    assert!(refused.contains("went elsewhere"), "{refused}");
    let refused = store::open(db::options(&stray)).err().unwrap();
    let is_unfinished = matches!(refused, StoreError::MoveUnfinished { .. });
    assert!(is_unfinished, "{refused:?}");
}

#[test]
fn a_directory_whose_store_was_moved_says_how_to_begin_anew_in_it() {
    let target = Target::new("anew");
    let place = notes(2);
    let data = data_of(&place);
    target.there(&data, "one").unwrap();
    let refusal = || {
        let refused = store::open(db::options(&data)).err().unwrap();
        refused.to_string()
    };
    let moved = "first move tidemark.db* and tidemark.marks away";
    assert!(refusal().contains(moved), "{}", refusal());
    fs::remove_file(data.join("tidemark.db")).unwrap();
    assert!(refusal().contains(moved), "{}", refusal());
    fs::remove_file(data.join("tidemark.marks")).unwrap();
    let said = refusal();
    assert!(!said.contains(moved), "{said}");
    assert!(said.contains("remove the file tidemark.database"), "{said}");
    fs::remove_file(data.join("tidemark.database")).unwrap();
    Db::with_notes(&place).close();
}

#[test]
fn a_schema_that_a_store_has_left_says_how_to_make_room_in_it() {
    let target = Target::new("room");
    let place = notes(2);
    let other = place.0.path().join("other");
    target.there(&data_of(&place), "one").unwrap();
    target.back("one", &other).unwrap();
    let refused = target.there(&other, "one").unwrap_err().to_string();
    let drop = "DROP SCHEMA \"one\" CASCADE";
    assert!(refused.contains(drop), "{refused}");
    target.sql(&format!("SET client_min_messages = error; {drop}"));
    target.there(&other, "one").unwrap();
}

#[test]
fn a_store_that_no_directory_can_hold_is_not_taken() {
    let target = Target::new("altered");
    let place = notes(3);
    let before = dump(&data_of(&place));
    target.there(&data_of(&place), "one").unwrap();
    // A text that no directory has there: a bound that is no number.
    target.sql("UPDATE one.column_ SET low = 'low' || low WHERE low IS NOT NULL");
    let other = place.0.path().join("other");
    let refused = target.back("one", &other).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
    let left: Vec<_> = fs::read_dir(&other).unwrap().collect();
    assert!(left.len() == 1, "only its lock: {left:?}");
    // Nor a table that no catalogue knows.
    target.sql("UPDATE one.column_ SET low = substr(low, 4) WHERE low IS NOT NULL");
    target.sql("CREATE TABLE one.t77 (n bigint)");
    let refused = target.back("one", &other).unwrap_err().to_string();
    assert!(
        refused.contains("other tables than its catalogue"),
        "{refused}"
    );
    target.sql("DROP TABLE one.t77");
    DatabaseStore::open(&target.url("one"), None)
        .unwrap()
        .close();
    target.back("one", &other).unwrap();
    assert_same(&dump(&other), &before);
}

/// Shown also of a test that passes, which at night is where the speed of a move is read.
fn tell_speed(versions: i64, way: &str, took: Duration) {
    let took_ms = i64::try_from(took.as_millis()).unwrap().max(1);
    let each_second = versions * 1_000 / took_ms;
    let told = format!("{versions} versions moved {way}: {each_second} a second\n");
    std::io::stderr().write_all(told.as_bytes()).unwrap();
}

/// 100,000 rows of five versions at night.
#[test]
fn a_long_history_is_moved_in_bounded_batches() {
    let target = Target::new("long");
    let rows = if is_night() { 100_000 } else { 400 };
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let ids: Vec<String> = (0..rows).map(|nth| format!("n{nth}")).collect();
    for ids in ids.chunks(100) {
        let rows: Vec<Op> = ids.iter().map(|id| db.insert(id, db::note(id))).collect();
        db.ok(rows);
        for version in 0..4 {
            let title = |id: &String| Value::Text(format!("{id} as of {version}"));
            let rows = ids
                .iter()
                .map(|id| db.update(id, vec![(db::TITLE, title(id))]));
            let rows: Vec<Op> = rows.collect();
            db.ok(rows);
        }
    }
    db.close();
    let data = data_of(&place);
    let file = Connection::open(data.join("tidemark.db")).unwrap();
    let versions: i64 = file
        .query_row("SELECT count(*) FROM t1_v", (), |row| row.get(0))
        .unwrap();
    drop(file);
    assert_eq!(versions, 5 * i64::from(rows));
    let before = dump(&data);
    let began = Instant::now();
    let mut seen = Vec::new();
    let url = target.url("one");
    let there = move_to_database(&data, (&url, None), &mut |step| seen.push(step)).unwrap();
    tell_speed(versions, "there", began.elapsed());
    let moved = there.rows.unwrap();
    assert!(seen.contains(&MoveStep::Copied {
        rows: moved,
        of: moved
    }));
    assert!(seen.contains(&MoveStep::Compared {
        rows: moved,
        of: moved
    }));
    assert_eq!(&seen[seen.len() - 2..], [MoveStep::Whole, MoveStep::Sealed]);
    let other = place.0.path().join("other");
    let began = Instant::now();
    target.back("one", &other).unwrap();
    tell_speed(versions, "back", began.elapsed());
    assert_same(&dump(&other), &before);
}
