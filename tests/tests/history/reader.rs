//! A thread that reads, and what it asks for.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use client::Answer;
use serde_json::{Value, json};
use tests::history::{Filter, Name, Order, Question, Read, Shown};

use super::{ANCHOR, Caller, Draws, FAMILIES, Family, Fixture, GROUPS, Planted};

pub fn questions() -> Vec<Question> {
    let list = |filter, order| Question {
        filter,
        order,
        limit: 5,
        offset: 0,
        after: None,
        total: true,
    };
    let mut all = vec![
        list(Filter::All, Order::Descending),
        list(Filter::Above(50), Order::Ascending),
        list(Filter::GroupOrBelow(1, 20), Order::Descending),
        list(Filter::Groups(vec![0, 2]), Order::Ascending),
    ];
    for group in 0..GROUPS as i64 {
        all.push(list(Filter::Groups(vec![group]), Order::Descending));
    }
    for place in 0..all.len() {
        let mut without_total = all[place].clone();
        without_total.total = false;
        all.push(without_total);
    }
    let whole = list(Filter::All, Order::Sequence);
    all.push(Question {
        limit: 100,
        ..whole
    });
    let page = list(Filter::Groups(vec![0]), Order::Ascending);
    all.push(Question {
        offset: 2,
        limit: 3,
        ..page
    });
    for filter in [Filter::All, Filter::Groups(vec![1])] {
        let after = Some(ANCHOR);
        all.push(Question {
            after,
            ..list(filter, Order::Descending)
        });
    }
    for name in [
        ANCHOR,
        Name { writer: 1, slot: 1 },
        Name { writer: 2, slot: 2 },
    ] {
        let row = list(Filter::Only(name), Order::Sequence);
        all.push(Question {
            total: false,
            ..row
        });
    }
    all
}

/// What follows the table's route.
fn route(question: &Question, as_of: Option<i64>) -> String {
    let mut queries = match question.filter {
        Filter::Only(_) => Vec::new(),
        _ => list_of(question),
    };
    queries.extend(as_of.map(|mark| json!({"method": "asOf", "values": [mark]})));
    let texts = queries.iter().enumerate().map(|(place, query)| {
        let text = query.to_string();
        let text = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        format!("queries[{place}]={text}")
    });
    let texts = texts.collect::<Vec<String>>().join("&");
    match question.filter {
        Filter::Only(name) if texts.is_empty() => format!("/{}", name.id()),
        Filter::Only(name) => format!("/{}?{texts}", name.id()),
        _ if question.total => format!("?{texts}"),
        _ => format!("?{texts}&total=false"),
    }
}

/// The queries of a list.
fn list_of(question: &Question) -> Vec<Value> {
    let equal = |groups: &[i64]| json!({"method": "equal", "attribute": "g", "values": groups});
    let compare =
        |method, number: i64| json!({"method": method, "attribute": "n", "values": [number]});
    let mut queries = match &question.filter {
        Filter::Groups(groups) => vec![equal(groups)],
        Filter::Above(number) => vec![compare("greaterThan", *number)],
        Filter::GroupOrBelow(group, number) => {
            let either = [equal(&[*group]), compare("lessThan", *number)];
            vec![json!({"method": "or", "values": either})]
        }
        Filter::All | Filter::Only(_) => Vec::new(),
    };
    match question.order {
        Order::Sequence => {}
        Order::Ascending => queries.push(json!({"method": "orderAsc", "attribute": "n"})),
        Order::Descending => queries.push(json!({"method": "orderDesc", "attribute": "n"})),
    }
    queries.push(json!({"method": "limit", "values": [question.limit]}));
    if question.offset > 0 {
        queries.push(json!({"method": "offset", "values": [question.offset]}));
    }
    if let Some(after) = question.after {
        queries.push(json!({"method": "cursorAfter", "values": [after.id()]}));
    }
    queries
}

/// A list counts as so old as the server says, from when it was read; that may take a while itself
/// on a machine with much else to do.
const AGE_LATE_NS: u64 = 1_000_000_000;
/// Marks that a reader remembers of each table.
const MARKS_MAX: usize = 200;

/// A thread that reads.
pub struct Reader<'a> {
    pub fixture: &'a Fixture<'a>,
    pub caller: Caller<'a>,
    pub draws: Draws,
    /// The last answer to each request: its tag, and what it showed.
    pub held: HashMap<(String, bool), (String, Shown)>,
    /// Marks of lists of each table.
    pub marks: [Vec<i64>; 2],
    pub read: [Vec<Read>; 2],
    pub hits: usize,
    /// Reads that were refused while the table granted guests nothing.
    pub refused: usize,
}

impl<'a> Reader<'a> {
    pub fn run(mut self) -> Result<Reader<'a>> {
        while self.fixture.goes_on() {
            let question = self.draws.below(self.fixture.questions.len() as u64) as usize;
            let table = self.draws.below(2) as usize;
            self.ask(table, question)?;
        }
        Ok(self)
    }

    fn ask(&mut self, table: usize, place: usize) -> Result<()> {
        let question = &self.fixture.questions[place];
        let family = FAMILIES[self.draws.below(2) as usize];
        let is_key = self.draws.flip();
        let sees_all = is_key || !self.fixture.tables[table].has_row_security;
        // Who sees a row is judged by its grants of today, whatever time is read.
        let as_of = if sees_all {
            self.draw_mark(table)
        } else {
            None
        };
        let mut path = self.fixture.rows_of(table, family) + &route(question, as_of);
        let is_list_of_now = as_of.is_none() && path.contains('?');
        let ttl_s = self.fixture.ttl_s.filter(|_| is_list_of_now);
        if let Some(ttl_s) = ttl_s {
            path = format!("{path}&ttl={ttl_s}");
        }
        let asked = (path, is_key);
        let held = self.held.get(&asked).filter(|_| self.draws.flip());
        let tag = held.map(|(tag, _)| tag.as_str());
        let sent = self.fixture.now();
        let answer = self.caller.get(&asked.0, is_key, tag)?;
        let answered = self.fixture.now();
        let is_one_row = matches!(question.filter, Filter::Only(_));
        let is_barred = match answer.status.as_u16() {
            401 => true,
            // A row that may not be read is not there: nothing tells the two apart.
            404 => is_one_row,
            _ => false,
        };
        if is_barred && !is_key && self.fixture.bars(table) {
            self.refused += 1;
            return Ok(());
        }
        let told = |name| Some(answer.headers.get(name)?.to_str().ok()?.to_owned());
        let cached: Option<String> = told("x-tidemark-cache");
        self.hits += usize::from(cached.as_ref().is_some_and(|told| told.starts_with("hit")));
        let says_erased = told("x-tidemark-erased").is_some_and(|told| told == "true")
            && !self.is_planted(Planted::SilentErasures);
        let shown = match answer.status.as_u16() {
            304 => held
                .map(|(_, shown)| shown.clone())
                .context("304 without a tag")?,
            _ => shown(&answer, question, family).with_context(|| asked.0.clone())?,
        };
        let kept = self.held.get(&asked).map(|(_, shown)| shown.clone());
        let kept = kept.filter(|_| self.is_planted(Planted::KeptLists) && ttl_s.is_some());
        let is_kept = kept.is_some();
        let shown = kept.unwrap_or(shown);
        if let Some(tag) = told("etag").filter(|_| as_of.is_none() && !is_kept) {
            self.held.insert(asked, (tag, shown.clone()));
        }
        self.read[table].push(Read {
            sent,
            answered,
            question: place,
            sees_all,
            is_guest: !is_key,
            within: ttl_s
                .filter(|_| !self.is_planted(Planted::NoAge))
                .map(|ttl_s| u64::from(ttl_s) * 1_000_000_000 + AGE_LATE_NS),
            as_of: as_of.map(|mark| self.noted(table, mark)),
            shown,
            says_erased,
        });
        if let Some(mark) = cached.as_deref().and_then(mark_of) {
            self.remember(table, mark);
        }
        Ok(())
    }

    /// For every fourth question, a mark that was seen before.
    fn draw_mark(&mut self, table: usize) -> Option<i64> {
        let count = self.marks[table].len() as u64;
        if count == 0 || self.draws.below(4) > 0 {
            return None;
        }
        Some(self.marks[table][self.draws.below(count) as usize])
    }

    /// What is noted of the mark that was read: the truth, unless a fault is planted.
    fn noted(&self, table: usize, mark: i64) -> i64 {
        let last = self.marks[table].last().copied();
        let last = last.filter(|_| self.is_planted(Planted::OtherMarks));
        last.unwrap_or(mark)
    }

    fn is_planted(&self, planted: Planted) -> bool {
        self.fixture.planted == Some(planted)
    }

    fn remember(&mut self, table: usize, mark: i64) {
        let marks = &mut self.marks[table];
        if marks.last() == Some(&mark) {
            return;
        }
        if marks.len() < MARKS_MAX {
            marks.push(mark);
        } else {
            // The first ones are read to the end.
            marks[MARKS_MAX - 1] = mark;
        }
    }
}

/// The mark that a list tells: `hit; mark=7; age=0`.
fn mark_of(told: &str) -> Option<i64> {
    let mut parts = told.split("; ");
    parts.find_map(|part| part.strip_prefix("mark=")?.parse().ok())
}

fn shown(answer: &Answer, question: &Question, family: Family) -> Result<Shown> {
    if let Filter::Only(name) = question.filter {
        let rows = match answer.status.as_u16() {
            404 => Vec::new(),
            _ => vec![(
                name,
                answer.accepted("reading a row")?["v"]
                    .as_i64()
                    .context("no v")?,
            )],
        };
        return Ok(Shown { rows, total: None });
    }
    let body = answer.accepted("reading a list")?;
    let row = |row: &Value| {
        let name = row["$id"].as_str().and_then(Name::parse);
        Some((name?, row["v"].as_i64()?))
    };
    let rows = body[family.rows].as_array().context("no rows")?;
    let rows: Option<Vec<(Name, i64)>> = rows.iter().map(row).collect();
    let total = question
        .total
        .then(|| body["total"].as_u64().unwrap_or(u64::MAX));
    Ok(Shown {
        rows: rows.context("a row of nobody")?,
        total,
    })
}
