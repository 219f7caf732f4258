//! Queries by chance, for the store and for the oracle.

use std::sync::Arc;

use model::permission::Role;
use model::{Coordinates, RoleSet, Table, Timestamp, Value};
use query::{Limits, Query, Visibility};

use super::oracle::{self, Ask, Key, Known};
use super::world::{Chance, ROLES, domain};

const LIMITS: Limits = Limits {
    page_rows_default: 25,
    page_rows_max: 5_000,
};

pub const TESTS: &[&str] = &[
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
pub const TEXT_TESTS: &[&str] = &[
    "startsWith",
    "notStartsWith",
    "endsWith",
    "notEndsWith",
    "contains",
    "containsAny",
    "containsAll",
    "notContains",
];
pub const ARRAY_TESTS: &[&str] = &[
    "contains",
    "containsAny",
    "containsAll",
    "notContains",
    "isNull",
    "isNotNull",
];
pub const ATTRIBUTES: &[&str] = &[
    "category",
    "name",
    "price",
    "stock",
    "inStock",
    "releasedAt",
    "rating",
    "$id",
    "$sequence",
    "$createdAt",
    "$updatedAt",
    "$validFrom",
    "$validTo",
    "$systemFrom",
];
const ARRAYS: &[&str] = &["tags", "scores", "weights", "days"];

/// The query of a list, for the store and for the oracle.
#[derive(Debug)]
pub struct Asked {
    pub filters: Vec<Ask>,
    pub order: Vec<Key>,
    pub limit: usize,
    pub selected: Option<Vec<&'static str>>,
    pub roles: Option<Vec<&'static str>>,
}

fn random_test(chance: &mut Chance, known: &[Known], table: &Table) -> Ask {
    let is_array = chance.below(4) == 0;
    let attribute = *chance.pick(if is_array { ARRAYS } else { ATTRIBUTES });
    let mut values = domain(attribute);
    if let (false, Some(row)) = (
        is_array || known.is_empty(),
        known.get(chance.below(known.len())),
    ) {
        values.push(row.value(table, attribute));
        // No client can name the end of time.
        let is_none = |value: &Value| matches!(value, Value::Null | Value::Instant(Timestamp::END));
        values.retain(|value| !is_none(value));
    }
    let is_text = matches!(values[0], Value::Text(_));
    let method = *match (is_array, is_text && chance.below(2) == 0) {
        (true, _) => chance.pick(ARRAY_TESTS),
        (false, true) => chance.pick(TEXT_TESTS),
        (false, false) => chance.pick(TESTS),
    };
    let count = match method {
        "isNull" | "isNotNull" => 0,
        "between" | "notBetween" => 2,
        "equal" | "contains" | "containsAny" | "containsAll" | "notContains" => 1 + chance.below(3),
        _ => 1,
    };
    let values = (0..count).map(|_| chance.pick(&values).clone()).collect();
    Ask::Test(method, attribute.to_owned(), values)
}

fn random_filter(chance: &mut Chance, known: &[Known], table: &Table, depth: usize) -> Ask {
    let branches = |chance: &mut Chance| {
        (0..2 + chance.below(2))
            .map(|_| random_filter(chance, known, table, depth + 1))
            .collect()
    };
    match chance.below(if depth < 2 { 6 } else { 4 }) {
        4 => Ask::Or(branches(chance)),
        5 => Ask::And(branches(chance)),
        _ => random_test(chance, known, table),
    }
}

pub fn random_asked(chance: &mut Chance, known: &[Known], table: &Table) -> Asked {
    let filters = (0..chance.below(3))
        .map(|_| random_filter(chance, known, table, 0))
        .collect();
    let mut order: Vec<Key> = Vec::new();
    for _ in 0..chance.below(4) {
        let attribute = chance.pick(ATTRIBUTES).to_string();
        if order.iter().all(|(earlier, _)| *earlier != attribute) {
            order.push((attribute, chance.below(2) == 0));
        }
    }
    let selected = (chance.below(3) == 0).then(|| vec!["stock", "tags"]);
    let roles = (chance.below(3) == 0).then(|| ROLES[..=chance.below(2)].to_vec());
    Asked {
        filters,
        order,
        // Of many rows the keys are sorted apart.
        limit: 1 + chance.below(40) + 300 * chance.below(2),
        selected,
        roles,
    }
}

impl Asked {
    pub fn everything(limit: usize) -> Asked {
        Asked {
            filters: Vec::new(),
            order: Vec::new(),
            limit,
            selected: None,
            roles: None,
        }
    }

    pub fn query(&self, table: &Arc<Table>, at: Option<Coordinates>, further: &[String]) -> Query {
        let mut texts: Vec<String> = self.filters.iter().map(Ask::json).collect();
        for (attribute, descends) in &self.order {
            let method = if *descends { "orderDesc" } else { "orderAsc" };
            texts.push(format!(
                r#"{{"method":"{method}","attribute":"{attribute}"}}"#
            ));
        }
        texts.push(format!(r#"{{"method":"limit","values":[{}]}}"#, self.limit));
        if let Some(selected) = &self.selected {
            texts.push(format!(r#"{{"method":"select","values":{selected:?}}}"#));
        }
        texts.extend(further.iter().cloned());
        let visibility = self.roles.as_ref().map_or(Visibility::Everything, |roles| {
            let roles = roles
                .iter()
                .map(|role| Role::parse(role).unwrap())
                .collect();
            Visibility::Granted(Arc::new(RoleSet::new(roles)))
        });
        query::resolve(
            &query::parse(&texts).unwrap(),
            table,
            visibility,
            at,
            &LIMITS,
        )
        .unwrap()
    }

    pub fn sees(&self, row: &Known) -> bool {
        let roles = self.roles.as_ref();
        roles.is_none_or(|roles| roles.contains(&row.role))
    }

    /// Every row that must be listed, in order.
    pub fn expected<'a>(&self, table: &Table, rows: &'a [Known]) -> Vec<&'a Known> {
        let holds = |row: &Known| self.filters.iter().all(|ask| ask.holds(table, row));
        let meant = |row: &&Known| self.sees(row) && holds(row);
        let mut found: Vec<&Known> = rows.iter().filter(meant).collect();
        found.sort_by(|one, other| oracle::order(table, &self.order, one, other));
        found
    }
}
