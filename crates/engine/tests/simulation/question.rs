//! Lists to ask for: every method of the query language, over the few values of the domain.
//!
//! Much here looks like the questions of `store/tests/reads.rs` and stays apart from them on
//! purpose: the two check the same rules with answers of their own, and a mistake in what they
//! shared would be a mistake that neither finds.

use engine::{Caller, Family};
use model::{Catalogue, Mark, Table};

use super::chance::Chance;
use super::domain::{
    self, Attribute, COLUMNS, DATABASES, IDS, Kind, LINK, PROJECT, SYSTEM, TABLES,
};
use super::times::Times;

/// One list, as a reader asks for it.
#[derive(Debug)]
pub struct Question {
    pub number: usize,
    pub caller: Caller,
    pub database: &'static str,
    pub table: &'static str,
    pub texts: Vec<String>,
    pub total: bool,
    pub family: Family,
    pub ttl_s: u32,
    /// Its rows come in no order, but all of them.
    pub is_random: bool,
    /// It has no condition.
    pub is_unfiltered: bool,
    /// At which other times than now.
    pub times: Option<Times>,
    /// Not a list, but this row.
    pub only: Option<&'static str>,
}

const COMPARISONS: &[&str] = &[
    "equal",
    "equal",
    "equal",
    "equal",
    "notEqual",
    "lessThan",
    "lessThanEqual",
    "greaterThan",
    "greaterThanEqual",
    "between",
    "notBetween",
    "isNull",
    "isNotNull",
];
const OF_TEXTS: &[&str] = &[
    "startsWith",
    "notStartsWith",
    "endsWith",
    "notEndsWith",
    "contains",
    "containsAny",
    "containsAll",
    "notContains",
    "regex",
];
const OF_ARRAYS: &[&str] = &[
    "contains",
    "containsAny",
    "containsAll",
    "notContains",
    "isNull",
    "isNotNull",
];
/// Pages without a total, of one row, and with more rows than a table has are all common.
const LIMITS: &[usize] = &[1, 2, 2, 3, 3, 4, 6, 25];

/// Rows of a page in random order: more than most tables have.
pub const RANDOM_ROWS_MAX: usize = 100;

impl Question {
    pub fn draw(chance: &mut Chance, catalogue: &Catalogue, number: usize) -> Question {
        Question::draw_of(chance, catalogue, number, &[])
    }

    /// One that may look at these attributes as well.
    pub fn draw_of(
        chance: &mut Chance,
        catalogue: &Catalogue,
        number: usize,
        more: &'static [Attribute],
    ) -> Question {
        let database = chance.weighed(&[(9, DATABASES[0]), (1, DATABASES[1])]);
        let table = chance.weighed(&[(3, TABLES[0]), (1, TABLES[1])]);
        let is_there = table_at(catalogue, database, table).is_some();
        let (database, table) = if is_there || chance.one_in(8) {
            (database, table)
        } else {
            (DATABASES[0], TABLES[0])
        };
        let known = table_at(catalogue, database, table);
        let mut columns = known.map_or_else(|| COLUMNS.iter().collect(), domain::columns_of);
        columns.extend(SYSTEM.iter().chain(more));
        let is_random = chance.one_in(40);
        let mut texts: Vec<String> = Vec::new();
        for _ in 0..chance.weighed(&[(3, 0), (5, 1), (2, 2), (1, 3)]) {
            texts.push(filter(chance, &columns, 0));
        }
        let has_link = known.is_some_and(|table| table.position(LINK).is_some());
        if has_link && chance.one_in(8) {
            let values: &[&str] = &[*chance.pick(SYSTEM[0].values)];
            let (method, values) =
                chance.weighed(&[(1, ("isNull", &[][..])), (2, ("equal", values))]);
            texts.push(call(method, LINK, values));
        }
        let caller = chance.pick(&domain::callers()).clone();
        let is_unfiltered = texts.is_empty();
        if is_random {
            texts.push(r#"{"method":"orderRandom"}"#.to_owned());
            texts.push(call("limit", "", &[&RANDOM_ROWS_MAX.to_string()]));
        } else {
            page(chance, &columns, &mut texts);
        }
        if chance.one_in(6) {
            texts.push(select(chance, &columns));
        }
        Question {
            number,
            caller,
            database,
            table,
            texts,
            total: chance.below(3) > 0,
            family: chance.weighed(&[(2, Family::Tables), (1, Family::Documents)]),
            ttl_s: chance.weighed(&[(9, 0), (1, 1), (1, 20)]),
            is_random,
            is_unfiltered,
            times: None,
            only: None,
        }
    }
}

impl Question {
    /// Whether every row of the table is among those it is about.
    pub fn means_all(&self) -> bool {
        self.is_unfiltered && self.caller.actor.bypasses_grants()
    }

    /// The same list at other times, or one row of the table.
    pub fn at(mut self, times: Times, only: Option<&'static str>) -> Question {
        let may_stand = |text: &String| {
            let has = |word: &str| text.contains(word);
            // There a cursor would be a version.
            let has_no_place = times.is_wide() && has("\"cursor");
            !has_no_place && (only.is_none() || has("\"select\""))
        };
        self.texts.retain(may_stand);
        self.texts.extend(times.texts());
        Question {
            times: Some(times),
            only,
            total: self.total && only.is_none(),
            is_random: self.is_random && only.is_none(),
            ttl_s: 0,
            ..self
        }
    }

    /// This row of the table.
    pub fn only_row(self, id: &'static str) -> Question {
        Question {
            texts: Vec::new(),
            only: Some(id),
            total: false,
            is_random: false,
            ttl_s: 0,
            ..self
        }
    }

    /// A list of this table that a transaction shows its owner, without what only its commit fixes.
    pub fn inside(
        mut self,
        caller: Caller,
        database: &'static str,
        table: &'static str,
    ) -> Question {
        let may_stand = |text: &String| {
            let of_commit = [
                "$createdAt",
                "$updatedAt",
                "$valid",
                "$system",
                "\"link\"",
                "orderRandom",
            ];
            !of_commit.iter().any(|word| text.contains(word))
        };
        self.texts.retain(may_stand);
        Question {
            caller,
            database,
            table,
            total: true,
            family: Family::Tables,
            ttl_s: 0,
            is_random: false,
            ..self
        }
    }

    /// The same, as known at a mark.
    pub fn known_at(&self, mark: Mark, number: usize) -> Question {
        let times = self.times.map(|times| times.known_at(mark));
        let said = self.times.map_or(0, |times| times.texts().len());
        let mut texts = self.texts.clone();
        texts.truncate(texts.len() - said);
        texts.extend(times.into_iter().flat_map(Times::texts));
        Question {
            number,
            texts,
            times,
            caller: self.caller.clone(),
            ..*self
        }
    }

    /// The same list, asked for by another reader, in another family, or otherwise in part.
    pub fn vary(&self, chance: &mut Chance, number: usize) -> Question {
        let mut other = Question {
            number,
            texts: self.texts.clone(),
            caller: self.caller.clone(),
            ..*self
        };
        match chance.below(6) {
            0 | 1 => {
                other.family = match self.family {
                    Family::Tables => Family::Documents,
                    Family::Documents => Family::Tables,
                };
            }
            2 => other.caller = chance.pick(&domain::callers()).clone(),
            3 if !self.is_random => {
                // Of several limits the first one counts.
                let limit = chance.pick(LIMITS).to_string();
                other.texts.insert(0, call("limit", "", &[&limit]));
            }
            4 => other.ttl_s = chance.weighed(&[(2, 0), (1, 20)]),
            _ => other.total = !self.total,
        }
        other
    }
}

pub fn table_at<'a>(catalogue: &'a Catalogue, database: &str, table: &str) -> Option<&'a Table> {
    let database = catalogue.project(PROJECT)?.databases.get(database)?;
    database.tables.get(table).map(|table| &**table)
}

fn call(method: &str, attribute: &str, values: &[&str]) -> String {
    let values = values.join(",");
    if attribute.is_empty() {
        return format!(r#"{{"method":"{method}","values":[{values}]}}"#);
    }
    format!(r#"{{"method":"{method}","attribute":"{attribute}","values":[{values}]}}"#)
}

fn page(chance: &mut Chance, columns: &[&'static Attribute], texts: &mut Vec<String>) {
    let scalars: Vec<&Attribute> = columns.iter().copied().filter(|one| !one.array).collect();
    for _ in 0..chance.weighed(&[(3, 0), (4, 1), (2, 2)]) {
        let method = *chance.pick(&["orderAsc", "orderDesc"]);
        texts.push(call(method, chance.pick(&scalars).key, &[]));
    }
    if !chance.one_in(4) {
        texts.push(call("limit", "", &[&chance.pick(LIMITS).to_string()]));
    }
    if chance.one_in(5) {
        texts.push(call("offset", "", &[&chance.below(4).to_string()]));
    }
    if chance.one_in(6) {
        let method = *chance.pick(&["cursorAfter", "cursorBefore"]);
        texts.push(call(method, "", &[&format!("\"{}\"", chance.pick(&IDS))]));
    }
}

fn select(chance: &mut Chance, columns: &[&'static Attribute]) -> String {
    let mut names: Vec<String> = (0..=chance.below(3))
        .map(|_| format!("\"{}\"", chance.pick(columns).key))
        .collect();
    names.sort();
    names.dedup();
    if chance.one_in(3) {
        names.push("\"$permissions\"".to_owned());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    call("select", "", &names)
}

/// A condition, often an equality, sometimes of several branches.
pub fn filter(chance: &mut Chance, columns: &[&'static Attribute], depth: usize) -> String {
    let word = match chance.below(if depth < 2 { 7 } else { 5 }) {
        5 => "or",
        6 => *chance.pick(&["or", "and"]),
        _ => return test(chance, columns),
    };
    let branches: Vec<String> = (0..2 + chance.below(2))
        .map(|_| filter(chance, columns, depth + 1))
        .collect();
    let branches: Vec<&str> = branches.iter().map(String::as_str).collect();
    call(word, "", &branches)
}

fn test(chance: &mut Chance, columns: &[&'static Attribute]) -> String {
    let of = *chance.pick(columns);
    if of.key == "w" && chance.one_in(2) {
        let method = *chance.pick(&["search", "search", "notSearch"]);
        let words = *chance.pick(&["\"fox\"", "\"red\"", "\"re\"", "\"\\\"red fox\\\"\""]);
        return call(method, of.key, &[words]);
    }
    let is_of_texts = of.kind == Kind::Text && chance.one_in(3);
    let method = *match (of.array, is_of_texts) {
        (true, _) => chance.pick(OF_ARRAYS),
        (false, true) => chance.pick(OF_TEXTS),
        (false, false) => chance.pick(COMPARISONS),
    };
    if method == "regex" {
        let pattern = *chance.pick(&["\"^a\"", "\"b+$\"", "\"x|fox\""]);
        return call(method, of.key, &[pattern]);
    }
    let count = match method {
        "isNull" | "isNotNull" => 0,
        "between" | "notBetween" => 2,
        "equal" => chance.weighed(&[(3, 1), (1, 2)]),
        "contains" | "containsAny" | "containsAll" | "notContains" => 1 + chance.below(2),
        _ => 1,
    };
    let values: Vec<&str> = (0..count).map(|_| *chance.pick(of.values)).collect();
    call(method, of.key, &values)
}
