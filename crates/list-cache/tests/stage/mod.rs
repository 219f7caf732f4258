//! A table in memory, its committed rows, and the cache before them.

#![allow(dead_code, reason = "each test file uses a part of the stage")]

use std::collections::BTreeMap;
use std::sync::Arc;

use list_cache::{
    Answer, Asked, Batch, Bounds, Contract, Family, Fill, ListCache, ListFetch, Names, Read,
    ReadRows, Rule, Step, Withheld,
};
use model::{
    Change, Column, ColumnKey, ColumnKind, ColumnNumber, DatabaseId, Field, Image, Mark, ProjectId,
    Role, RoleSet, RowId, Table, TableId, TableNumber, Timestamp, Value,
};
use query::predicate::{compare_by, field_of, satisfies};
use query::{Query, Side, Visibility};

pub const TABLE: TableNumber = TableNumber(7);
pub const EVERYBODY: &str = r#"["read(\"any\")"]"#;
pub const NOBODY: &str = "[]";
pub const EXACT: Contract = Contract::Exact;
pub const TTL: Contract = Contract::Ttl { age_s_max: 60 };
/// Up to what totals are counted here.
pub const CAP: u64 = 5;

/// Two numbers, `n` and `m`, and a text, `w`.
pub fn table() -> Arc<Table> {
    let column = |number: u32, key: &str, kind| Column {
        number: ColumnNumber(number),
        key: ColumnKey::new(key).unwrap(),
        kind,
        required: false,
        array: false,
        encrypt: false,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    let number = || ColumnKind::Bigint {
        min: i64::MIN,
        max: i64::MAX,
    };
    Arc::new(Table {
        number: TABLE,
        project: ProjectId::new("p").unwrap(),
        database: DatabaseId::new("d").unwrap(),
        id: TableId::new("t").unwrap(),
        name: "t".into(),
        enabled: true,
        row_security: true,
        permissions: vec![],
        columns: vec![
            column(1, "n", number()),
            column(2, "m", number()),
            column(3, "w", ColumnKind::Text),
        ],
        indexes: vec![],
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 1,
        permission_epoch: 1,
        options: model::TableOptions::default(),
    })
}

/// The query that `texts`, each a JSON object, ask for.
pub fn query(texts: &[&str]) -> Query {
    seen_by(texts, Visibility::Everything)
}

pub fn seen_by(texts: &[&str], visibility: Visibility) -> Query {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let ast = query::parse(&texts).unwrap();
    let limits = query::Limits {
        page_rows_default: 3,
        page_rows_max: 100,
    };
    query::resolve(&ast, &table(), visibility, None, &limits).unwrap()
}

pub fn guests() -> Visibility {
    Visibility::Granted(Arc::new(RoleSet::new(vec![Role::any(), Role::guests()])))
}

pub fn image(n: i64, m: i64, permissions: &str) -> Image {
    Image {
        created: Timestamp(0),
        updated: Timestamp(0),
        permissions: permissions.into(),
        values: vec![Value::Int(n), Value::Int(m), Value::Null],
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "a change has rows that come and rows that go"
)]
pub fn row(n: i64, m: i64) -> Option<Image> {
    Some(image(n, m, EVERYBODY))
}

/// The rows as committed, the rows that a commit in flight will show, and the cache.
pub struct World {
    pub lists: ListCache,
    rows: BTreeMap<String, (i64, Image)>,
    next_seq: i64,
    mark: i64,
    pub now_ms: u64,
}

impl World {
    pub fn new() -> World {
        World::of_bytes(64 << 20)
    }

    pub fn of_bytes(bytes_max: u64) -> World {
        World {
            lists: ListCache::new(Bounds {
                bytes_max,
                total_cap: Some(CAP),
            }),
            rows: BTreeMap::new(),
            next_seq: 1,
            mark: 1,
            now_ms: 0,
        }
    }

    pub fn with(rows: &[(&str, i64, i64)]) -> World {
        let mut world = World::new();
        for (id, n, m) in rows {
            world.commit(&[(id, row(*n, *m))]);
        }
        world
    }

    /// The changes that lead from the committed rows to these; `None` deletes.
    pub fn changes(&mut self, rows: &[(&str, Option<Image>)]) -> Vec<Change> {
        let change = |(id, after): &(&str, Option<Image>)| {
            let known = self.rows.get(*id).cloned();
            let seq = known.as_ref().map_or(self.next_seq, |(seq, _)| *seq);
            self.next_seq = self.next_seq.max(seq + 1);
            Change {
                table: TABLE,
                id: RowId::new(id).unwrap(),
                seq,
                before: known.map(|(_, image)| image),
                after: after.clone(),
            }
        };
        rows.iter().map(change).collect()
    }

    pub fn withhold(&self, changes: &[Change]) -> Withheld {
        self.lists.withhold(Batch {
            images: vec![Arc::new(changes.to_vec())],
            tables: vec![],
            ..Batch::default()
        })
    }

    /// What the store does when a commit becomes visible.
    pub fn show(&mut self, changes: Vec<Change>) {
        for change in changes {
            let id = change.id.as_str().to_owned();
            match change.after {
                Some(after) => {
                    self.rows.insert(id, (change.seq, after));
                }
                None => {
                    self.rows.remove(&id);
                }
            }
        }
        self.mark += 1;
    }

    pub fn commit(&mut self, rows: &[(&str, Option<Image>)]) {
        let changes = self.changes(rows);
        let withheld = self.withhold(&changes);
        self.show(changes);
        self.lists.publish(withheld, true);
    }

    /// Body, total up to the cap, and the place of the last row of a full page, as committed.
    pub fn read(&self, query: &Query) -> (String, u64, Option<Vec<Value>>) {
        let (body, total, last_place, _) = self.read_shown(query);
        (body, total, last_place)
    }

    /// The same, and the `$sequence` of each row.
    fn read_shown(&self, query: &Query) -> (String, u64, Option<Vec<Value>>, Vec<i64>) {
        let order = query.read_order();
        let place = |change: &Change, image: &Image| -> Vec<Value> {
            let value = |field: Field| match field {
                Field::Id => Value::Text(change.id.as_str().to_owned()),
                Field::Sequence => Value::Int(change.seq),
                Field::Created => Value::Instant(image.created),
                Field::Updated => Value::Instant(image.updated),
                Field::Column(position) => image.values[position].clone(),
            };
            order.iter().map(|key| value(key.field)).collect()
        };
        let mut rows: Vec<(Vec<Value>, (i64, String))> = Vec::new();
        let mut cursor = None;
        for (id, (seq, image)) in &self.rows {
            let change = Change {
                table: TABLE,
                id: RowId::new(id).unwrap(),
                seq: *seq,
                before: None,
                after: None,
            };
            let place = place(&change, image);
            if query
                .cursor
                .as_ref()
                .is_some_and(|cursor| cursor.row == change.id)
                && query.visibility.sees(&image.permissions)
            {
                cursor = Some(place.clone());
            }
            let is_meant = satisfies(&query.filter, &|field| field_of(&change, image, field))
                && query.visibility.sees(&image.permissions);
            if is_meant {
                rows.push((place, (*seq, format!("{id}{:?}", image.values))));
            }
        }
        rows.sort_by(|(left, _), (right, _)| compare_by(&order, left, right));
        let total = (rows.len() as u64).min(CAP);
        if query.cursor.is_some() && cursor.is_none() {
            return ("no cursor".to_owned(), total, None, Vec::new());
        }
        if let Some(cursor) = cursor {
            rows.retain(|(place, _)| compare_by(&order, place, &cursor).is_gt());
        }
        let offset = query.offset as usize;
        let mut page: Vec<_> = rows
            .into_iter()
            .skip(offset)
            .take(query.limit as usize)
            .collect();
        let is_full = page.len() == query.limit as usize;
        let last_place = page
            .last()
            .filter(|_| is_full)
            .map(|(place, _)| place.clone());
        if query
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.side == Side::Before)
        {
            page.reverse();
        }
        let (shown, bodies): (Vec<i64>, Vec<String>) = page.into_iter().map(|(_, row)| row).unzip();
        (bodies.join(","), total, last_place, shown)
    }

    /// What a reading asks for, as committed now.
    pub fn found(&self, query: &Query, fill: &Fill<'_>) -> Read {
        let (body, total, last_place, shown) = self.read_shown(query);
        Read {
            rows: fill.rows().then(|| ReadRows {
                body: body.into_bytes().into(),
                tag: 0,
                last_place,
                shown,
            }),
            total: fill.total().then_some(total),
            mark: Mark(self.mark),
            read_ms: self.now_ms,
        }
    }

    pub fn fetch<'a>(&'a self, query: &'a Query, contract: Contract) -> ListFetch<'a> {
        self.lists.ask(Asked {
            query,
            family: Family::Tables,
            total: true,
            contract,
        })
    }

    /// The same without the total.
    pub fn fetch_rows<'a>(&'a self, query: &'a Query, contract: Contract) -> ListFetch<'a> {
        self.lists.ask(Asked {
            query,
            family: Family::Tables,
            total: false,
            contract,
        })
    }

    /// Caches the rows alone, which are read if need be.
    pub fn ask_rows(&self, query: &Query, contract: Contract) -> Answer {
        let mut fetch = self.fetch_rows(query, contract);
        loop {
            match fetch.step(self.now_ms) {
                Step::Answer(answer) => return answer,
                Step::Read(fill) => {
                    let found = self.found(query, &fill);
                    fetch.fill(fill, found);
                }
                Step::Wait(_) => panic!("nobody else reads"),
            }
        }
    }

    /// Asks for the rows of so many other lists that whatever was cached before is evicted.
    pub fn crowd_out(&self, contract: Contract) {
        for n in 0..2_000 {
            let filler = format!(r#"{{"method":"equal","attribute":"m","values":[{n}]}}"#);
            let filler = self::query(&[&filler]);
            // Twice, so that it counts as in use.
            for _ in 0..2 {
                self.ask_rows(&filler, contract);
            }
        }
    }

    /// The names of what [`World::asking`] asks for.
    pub fn names(&self, query: &Query, contract: Contract) -> Names {
        self.lists.name(Asked {
            query,
            family: Family::Tables,
            total: true,
            contract,
        })
    }

    /// The answer to a question that nobody else asks at the time. A look by name must find the
    /// same if it is there at once, and nothing otherwise.
    pub fn ask(&self, query: &Query, contract: Contract) -> Answer {
        let looked = self.lists.look(&self.names(query, contract), self.now_ms);
        let mut looked = looked.map(|answer| told(&answer));
        let mut fetch = self.fetch(query, contract);
        loop {
            match fetch.step(self.now_ms) {
                Step::Answer(answer) => {
                    let at_once = answer.is_hit.then(|| told(&answer));
                    assert!(looked.is_none() || looked == at_once, "{looked:?}");
                    return answer;
                }
                Step::Read(fill) => {
                    assert_eq!(looked.take(), None, "found what is not there");
                    let found = self.found(query, &fill);
                    fetch.fill(fill, found);
                }
                Step::Wait(_) => panic!("nobody else reads"),
            }
        }
    }

    /// Whether the answer is what is committed.
    pub fn is_exact(&self, query: &Query) -> bool {
        let (body, total, _) = self.read(query);
        says(&self.ask(query, EXACT), &body, total)
    }

    pub fn is_hit(&self, query: &Query) -> bool {
        self.ask(query, EXACT).is_hit
    }

    pub fn switch_off(&self, rule: Option<Rule>) {
        if let Some(rule) = rule {
            self.lists.rules().switch_off(rule);
        }
    }
}

fn told(answer: &Answer) -> (Arc<[u8]>, Option<u64>, Option<bool>) {
    (answer.rows.body.clone(), answer.total, answer.is_stale)
}

pub fn says(answer: &Answer, body: &str, total: u64) -> bool {
    &*answer.rows.body == body.as_bytes() && answer.total == Some(total)
}
