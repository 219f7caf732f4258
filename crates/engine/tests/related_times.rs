//! Related rows at other times: random histories of linked rows against a model that keeps nothing
//! but the list of what was written.

mod fixture;

#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "simulation/chance.rs"]
mod chance;

use std::fmt::Write as _;
use std::sync::Arc;

use chance::Chance;
use engine::{
    Engine, EngineError, ListRows, Place, ReadError, RelationshipChange, RowAnswer, RowInput, View,
};
use fixture::linked::{B, listed, open, query, select};
use fixture::{NEW_YEAR_US, PLACE, key, list_rows_of, row};
use futures_executor::block_on;
use model::{Json, Mark, RowId};
use testing::places::on_database;

const BOOKS: [&str; 4] = ["t1", "t2", "t3", "t4"];
const AUTHORS: [&str; 3] = ["b1", "b2", "b3"];
/// Writes of one history.
const WRITES: usize = 40;
/// Also at night in a database, whose reads take longer.
const HISTORIES: u64 = 6;
const HISTORIES_AT_NIGHT: u64 = 400;
/// Instants at which content begins and ends.
const DAYS: [i64; 5] = [-20, -10, 0, 10, 20];
const DAY_US: i64 = 86_400_000_000;

/// What a row holds at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    n: i64,
    author: Option<&'static str>,
    tags: Vec<&'static str>,
}

/// What one commit did to one row over a period.
#[derive(Clone, Debug)]
struct Entry {
    mark: i64,
    row: &'static str,
    from: i64,
    until: i64,
    /// `None`: it is not there.
    set: Option<Held>,
}

/// Everything that was ever written.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    /// The mark from which on `author` is called `writer`.
    renamed: i64,
}

impl Model {
    fn at(&self, row: &str, valid: i64, system: i64) -> Option<&Held> {
        let holds = |entry: &&Entry| {
            entry.row == row && entry.mark <= system && entry.from <= valid && valid < entry.until
        };
        self.entries.iter().rev().find(holds)?.set.as_ref()
    }

    fn author_key(&self, system: i64) -> &'static str {
        if system < self.renamed {
            "author"
        } else {
            "writer"
        }
    }

    /// One row with what is related to it, through each path.
    fn show(&self, row: &str, (valid, system): (i64, i64), paths: &[&[&str]]) -> Option<String> {
        let held = self.at(row, valid, system)?;
        let mut text = format!("{row}={}", held.n);
        for path in paths {
            let [key, further @ ..] = path else {
                unreachable!("a path has a name")
            };
            let is_there = |other: &&&str| self.at(other, valid, system).is_some();
            let through: Vec<&str> = match *key {
                "tags" => held.tags.iter().filter(is_there).copied().collect(),
                "author" | "writer" => held.author.iter().filter(is_there).copied().collect(),
                "books" => self.holders(row, (valid, system), |book| book.author == Some(row)),
                "tagged" => self.holders(row, (valid, system), |book| book.tags.contains(&row)),
                other => unreachable!("{other} is no relationship"),
            };
            let more: &[&[&str]] = if further.is_empty() { &[] } else { &[further] };
            let shown = through.iter().filter_map(|other| {
                let at = (valid, system);
                self.show(other, at, more)
            });
            let mut shown: Vec<String> = shown.collect();
            shown.sort_unstable();
            write!(text, "[{key}{}]", listed(shown.iter().map(String::as_str))).unwrap();
        }
        Some(text)
    }

    fn holders(
        &self,
        _: &str,
        (valid, system): (i64, i64),
        holds: impl Fn(&Held) -> bool,
    ) -> Vec<&'static str> {
        let holds_at = |book: &&&str| self.at(book, valid, system).is_some_and(&holds);
        BOOKS.iter().filter(holds_at).copied().collect()
    }
}

fn days() -> Vec<i64> {
    DAYS.iter().map(|day| NEW_YEAR_US + day * DAY_US).collect()
}

/// Whether a row with this content is looked for.
type Holds<'h> = Box<dyn Fn(&Held) -> bool + 'h>;

struct History {
    engine: Arc<Engine>,
    model: Model,
    chance: Chance,
    marks: Vec<i64>,
    compared: u64,
    /// Of these, those of lists in which some row is related to another.
    linked: u64,
}

impl History {
    fn new(directory: &std::path::Path, seed: u64) -> History {
        let mut history = History {
            engine: open(directory),
            model: Model {
                renamed: i64::MAX,
                ..Model::default()
            },
            chance: Chance::new(seed),
            marks: Vec::new(),
            compared: 0,
            linked: 0,
        };
        for row in AUTHORS.into_iter().chain(BOOKS) {
            history.put(row, Held::default(), i64::MIN, i64::MAX);
        }
        history
    }

    /// Puts content, unless a link in it is refused.
    fn put(&mut self, row: &'static str, held: Held, from: i64, until: i64) {
        let mut members = vec![("n".to_owned(), Json::Int(held.n))];
        let is_book = row.starts_with('t');
        if is_book {
            let key = self.model.author_key(i64::MAX - 1).to_owned();
            let author = held.author.map_or(Json::Null, |id| Json::Text(id.into()));
            let tags = held.tags.iter().map(|id| Json::Text((*id).into()));
            members.extend([(key, author), ("tags".into(), Json::List(tags.collect()))]);
        }
        let instant = |at: i64| match at {
            i64::MIN => Json::Text("min".into()),
            i64::MAX => Json::Null,
            at => Json::Int(at),
        };
        members.push(("$validFrom".into(), instant(from)));
        members.push(("$validTo".into(), instant(until)));
        let input = RowInput {
            members,
            ..self::row(row, &[])
        };
        let place = if is_book { PLACE } else { B };
        match block_on(self.engine.upsert_row(&key(), place, input, None)) {
            Ok(done) => {
                let set = Some(held);
                self.note(done.mark.0, row, (from, until), set);
            }
            // The row that a link leads to is deleted from some time on.
            Err(EngineError::Write(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn note(&mut self, mark: i64, row: &'static str, over: (i64, i64), set: Option<Held>) {
        let (from, until) = over;
        self.model.entries.push(Entry {
            mark,
            row,
            from,
            until,
            set,
        });
        self.marks.push(mark);
    }

    /// Deletes an author from now on: the links to him go with him.
    fn delete(&mut self, author: &'static str) {
        let id = RowId::new(author).unwrap();
        let Ok(done) = block_on(self.engine.delete_row(&key(), B, id, None)) else {
            return;
        };
        let mark = done.0;
        for book in BOOKS {
            // The content changes at the mark and at the days alone.
            let mut begins = vec![mark];
            begins.extend(days().into_iter().filter(|day| *day > mark));
            let ends = begins.iter().skip(1).copied().chain([i64::MAX]);
            for (from, until) in begins.clone().into_iter().zip(ends) {
                let Some(held) = self.model.at(book, from, mark) else {
                    continue;
                };
                let mut left = held.clone();
                left.author = left.author.filter(|id| *id != author);
                left.tags.retain(|id| *id != author);
                if left != *held {
                    self.note(mark, book, (from, until), Some(left));
                }
            }
        }
        self.note(mark, author, (mark, i64::MAX), None);
    }

    fn write(&mut self) {
        let days = days();
        let mut ends = [*self.chance.pick(&days), *self.chance.pick(&days)];
        ends.sort_unstable();
        let [mut from, mut until] = ends;
        if from == until || self.chance.one_in(4) {
            until = i64::MAX;
        }
        if self.chance.one_in(5) {
            from = i64::MIN;
        }
        let n = self.chance.below(1_000) as i64;
        if self.chance.one_in(12) {
            let author = *self.chance.pick(&AUTHORS);
            return self.delete(author);
        }
        if self.chance.one_in(3) {
            let row = *self.chance.pick(&AUTHORS);
            let held = Held {
                n,
                ..Held::default()
            };
            return self.put(row, held, from, until);
        }
        let row = *self.chance.pick(&BOOKS);
        let author = (!self.chance.one_in(4)).then(|| *self.chance.pick(&AUTHORS));
        let tags = AUTHORS.into_iter();
        let tags = tags.filter(|_| self.chance.one_in(2)).collect();
        self.put(row, Held { n, author, tags }, from, until);
    }

    /// Renames the column, as a commit of its own.
    fn rename(&mut self) {
        let change = RelationshipChange {
            on_delete: None,
            new_key: Some("writer".into()),
        };
        let caller = key();
        let renamed = self
            .engine
            .update_relationship(&caller, PLACE, "author", &change);
        block_on(renamed).unwrap();
        // The next commit is the first that is sure to come after it.
        self.model.renamed = self.marks.last().unwrap() + 1;
    }

    /// Compares lists and single rows at one place.
    fn compare(&mut self) {
        let system = *self.chance.pick(&self.marks);
        let mut instants = days();
        instants.extend([system, system - 1, NEW_YEAR_US - 100 * DAY_US]);
        let valid = *self.chance.pick(&instants);
        let author = self.model.author_key(system);
        let times = [
            query("asOf", None, &system.to_string()),
            query("validAt", None, &valid.to_string()),
        ];
        let at = (valid, system);
        let of_books: [&[&[&str]]; 4] = [
            &[&[author]],
            &[&["tags"]],
            &[&[author, "books", "tags"]],
            &[&[author, "tagged"], &["tags", "books"]],
        ];
        let of_authors: [&[&[&str]]; 3] = [
            &[&["books"]],
            &[&["tagged"]],
            &[&["books", author], &["tagged", "tags", "books"]],
        ];
        for paths in of_books {
            self.compare_list(PLACE, &BOOKS, (at, &times), paths);
        }
        for paths in of_authors {
            self.compare_list(B, &AUTHORS, (at, &times), paths);
        }
        self.compare_filters(at, author, &times);
    }

    fn compare_list(
        &mut self,
        place: Place<'_>,
        ids: &[&'static str],
        (at, times): ((i64, i64), &[String]),
        paths: &[&[&str]],
    ) {
        let mut names = vec!["n".to_owned()];
        for path in paths {
            // Each level shows its number.
            for depth in 1..=path.len() {
                names.push(format!("{}.n", path[..depth].join(".")));
            }
        }
        let mut texts = vec![select(&names)];
        texts.extend_from_slice(times);
        let list = ListRows {
            place,
            ..list_rows_of(&texts)
        };
        let shown: Vec<Option<String>> = ids
            .iter()
            .map(|id| self.model.show(id, at, paths))
            .collect();
        let told = block_on(self.engine.list_rows(&key(), &list, View::CURRENT)).unwrap();
        let expected: Vec<&str> = shown.iter().flatten().map(String::as_str).collect();
        let told_rows = String::from_utf8_lossy(&told.rows).into_owned();
        assert_eq!(told_rows, expected.join(" "), "{texts:?}");
        assert_eq!(told.total, expected.len() as u64);
        assert_eq!((told.cached, told.mark), (None, Mark(at.1)));
        self.compared += 1;
        self.linked += u64::from(told_rows.contains(": "));
        let which = self.chance.below(ids.len());
        let (id, wanted) = (RowId::new(ids[which]).unwrap(), &shown[which]);
        let told = block_on(self.engine.get_row(&key(), &list, &id, View::CURRENT));
        match (told, wanted) {
            (Ok(RowAnswer::AtTimes(told)), Some(wanted)) => {
                assert_eq!(String::from_utf8_lossy(&told.rows), *wanted, "{texts:?}");
            }
            (Err(EngineError::Read(ReadError::RowNotFound(_))), None) => {}
            (told, wanted) => panic!("{told:?}, {wanted:?}: {texts:?}"),
        }
        self.compared += 1;
    }

    /// Lists that are found by their links.
    fn compare_filters(&mut self, at: (i64, i64), author: &str, times: &[String]) {
        let wanted = *self.chance.pick(&AUTHORS);
        let quoted = format!("{wanted:?}");
        let filters: [(String, Holds<'_>); 5] = [
            (
                query("equal", Some(author), &quoted),
                Box::new(|held| held.author == Some(wanted)),
            ),
            (
                query("notEqual", Some(author), &quoted),
                Box::new(|held| held.author.is_some_and(|id| id != wanted)),
            ),
            (
                query("isNull", Some(author), ""),
                Box::new(|held| held.author.is_none()),
            ),
            (
                query("contains", Some("tags"), &quoted),
                Box::new(|held| held.tags.contains(&wanted)),
            ),
            (
                query("notContains", Some("tags"), &quoted),
                // A row without any link holds null, which satisfies nothing.
                Box::new(|held| !held.tags.is_empty() && !held.tags.contains(&wanted)),
            ),
        ];
        for (filter, holds) in filters {
            let mut texts = vec![filter, select(&["n".to_owned()])];
            texts.extend_from_slice(times);
            let expected: Vec<String> = BOOKS
                .iter()
                .filter(|book| self.model.at(book, at.0, at.1).is_some_and(&holds))
                .filter_map(|book| self.model.show(book, at, &[]))
                .collect();
            // The second answer comes from the cache, where nothing of it is yet to come.
            for _ in 0..2 {
                let list = list_rows_of(&texts);
                let told = block_on(self.engine.list_rows(&key(), &list, View::CURRENT)).unwrap();
                let told = String::from_utf8_lossy(&told.rows).into_owned();
                assert_eq!(told, expected.join(" "), "{texts:?}");
                self.compared += 1;
            }
        }
    }
}

#[test]
fn related_rows_at_any_coordinates_are_what_the_model_says() {
    let histories = match std::env::var("TIDEMARK_LANE").as_deref() {
        Ok("night") if !on_database() => HISTORIES_AT_NIGHT,
        _ => HISTORIES,
    };
    let (mut compared, mut linked) = (0, 0);
    for seed in 0..histories {
        let directory = tempfile::tempdir().unwrap();
        let mut history = History::new(directory.path(), seed);
        for number in 0..WRITES {
            if number == WRITES / 2 {
                history.rename();
            }
            history.write();
            history.compare();
        }
        compared += history.compared;
        linked += history.linked;
        history.engine.close().unwrap();
    }
    println!("{compared} answers compared, {linked} of them of linked rows");
    assert!(compared > histories * WRITES as u64 * 20);
    assert!(linked > compared / 10);
}
