//! The tables of one database on their way in, where they cannot be made one by one.
//!
//! A relationship is a column of two tables, and tables lead to each other in circles. So each
//! table is created up to its first relationship; then columns follow in the order in which they
//! stand, and a relationship when both tables have come to it. Columns so come into the order they
//! had, because they came so when they were made. Indexes are last.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{self, LeftOut, is_relationship, text};
use super::links::Members;

/// Most columns of one call that creates a table (wire protocol, 2.2).
const COLUMNS_AT_ONCE_MAX: usize = 100;

/// What is added to a table that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// A column.
    Column(Value),
    /// A relationship, as the table shows it on which it is created.
    Relationship(Value),
    /// An index.
    Index(Value),
}

/// A part, and the table it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The table's id.
    pub table: String,
    /// The part.
    pub part: Part,
}

/// A relationship that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relationship {
    /// The table on which it is created, and its key there.
    pub parent: (String, String),
    /// The table it leads to, and its key there, if that table shows it.
    pub child: (String, Option<String>),
    /// Whether one row of the parent may lead to several.
    pub is_list: bool,
    /// Whether the child holds the links.
    pub child_holds: bool,
}

/// What remains to be made of a table that was begun.
struct Rest {
    table: String,
    columns: VecDeque<Value>,
    indexes: Vec<Value>,
}

/// The tables of a database.
#[derive(Default)]
pub struct Schema {
    tables: Vec<String>,
    rests: Vec<Rest>,
    members: HashMap<String, Members>,
    relationships: Vec<Relationship>,
}

impl Schema {
    /// Takes a table in, without what no server of ours can make. Its definition is cut to what
    /// one call creates; what was left out is said.
    ///
    /// # Errors
    /// When it is no definition, or one of a table that was taken already, or a column stands in
    /// it that can never be made. Every relationship that is kept can be made after this: columns
    /// differ in their keys, so that an end has one partner, and both say that they are two.
    pub fn take(&mut self, definition: &mut Value) -> Result<Vec<String>> {
        check(definition)?;
        let table = text(&definition["id"]).to_owned();
        if self.tables.contains(&table) {
            bail!("table `{table}` stands there twice");
        }
        let LeftOut { said, columns_gone } = definition::without_foreign(definition);
        let members = self.members.entry(table.clone()).or_default();
        members.gone.extend(columns_gone);
        let columns = definition["columns"].as_array_mut();
        let plain = columns.map_or(0, |columns| {
            let first = columns.iter().position(is_relationship);
            first.unwrap_or(columns.len()).min(COLUMNS_AT_ONCE_MAX)
        });
        let columns = definition["columns"].as_array_mut();
        let columns = columns.map(|columns| columns.split_off(plain));
        let columns = VecDeque::from(columns.unwrap_or_default());
        if !columns.is_empty() {
            let indexes = match definition["indexes"].take() {
                Value::Array(indexes) => indexes,
                _ => Vec::new(),
            };
            self.rests.push(Rest {
                table: table.clone(),
                columns,
                indexes,
            });
        }
        self.tables.push(table);
        Ok(said)
    }

    /// Whether a table was only begun.
    pub fn is_begun(&self, table: &str) -> bool {
        self.rests.iter().any(|rest| rest.table == table)
    }

    /// What is still to be made, in an order in which it can be, and what cannot be, in words.
    /// Nothing is taken in after it.
    pub fn finish(&mut self) -> (Vec<Step>, Vec<String>) {
        let left_out = self.leave_out();
        let mut steps = Vec::new();
        let mut rests = mem::take(&mut self.rests);
        while rests.iter().any(|rest| !rest.columns.is_empty()) {
            let before = steps.len();
            for at in 0..rests.len() {
                advance(&mut rests, at, &mut steps);
            }
            if steps.len() == before {
                // No table of ours is like this. Elsewhere columns may stand in any order.
                bring_to_front(&mut rests);
            }
        }
        for rest in rests {
            let table = rest.table;
            let step = |index| Step {
                table: table.clone(),
                part: Part::Index(index),
            };
            steps.extend(rest.indexes.into_iter().map(step));
        }
        for step in &steps {
            self.learn(step);
        }
        (steps, left_out)
    }

    /// Takes out relationships one of whose tables is missing, or does not know of it.
    fn leave_out(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let ends: Vec<(String, Value)> = self
            .rests
            .iter()
            .flat_map(|rest| {
                rest.columns
                    .iter()
                    .map(|end| (rest.table.clone(), end.clone()))
            })
            .filter(|(_, column)| is_relationship(column))
            .collect();
        for rest in &mut self.rests {
            let table = rest.table.clone();
            let is_whole = |column: &Value| {
                !is_relationship(column)
                    || if needs_partner(column) {
                        let is_partner = |(other, end): &(String, Value)| {
                            are_partners((&table, column), (other, end))
                        };
                        ends.iter().any(is_partner)
                    } else {
                        self.tables
                            .iter()
                            .any(|known| *known == text(&column["relatedTable"]))
                    }
            };
            let gone: VecDeque<Value>;
            (rest.columns, gone) = mem::take(&mut rest.columns).into_iter().partition(is_whole);
            let members = self.members.entry(table.clone()).or_default();
            for column in gone {
                let (key, related) = (text(&column["key"]), text(&column["relatedTable"]));
                let why = if self.tables.iter().any(|known| known == related) {
                    "which does not show its other end"
                } else {
                    "which does not come with it"
                };
                said.push(format!(
                    "{table}: the relationship `{key}` to table `{related}`, {why}"
                ));
                members.gone.insert(key.to_owned());
            }
        }
        said
    }

    /// Notes which members of rows are links from now on.
    fn learn(&mut self, step: &Step) {
        let Part::Relationship(column) = &step.part else {
            return;
        };
        let word = |name: &str| text(&column[name]).to_owned();
        let child_key = (column["twoWay"] == true).then(|| word("twoWayKey"));
        let kind = word("relationType");
        let relationship = Relationship {
            parent: (step.table.clone(), word("key")),
            child: (word("relatedTable"), child_key),
            is_list: matches!(kind.as_str(), "oneToMany" | "manyToMany"),
            child_holds: kind == "oneToMany",
        };
        let (parent, child) = (relationship.parent.clone(), relationship.child.clone());
        if relationship.child_holds {
            let members = self.members.entry(parent.0.clone()).or_default();
            members.gone.insert(parent.1.clone());
            let members = self.members.entry(child.0).or_default();
            match child.1 {
                Some(key) => drop(members.links.insert(key)),
                None => drop(members.hidden.insert(parent)),
            }
        } else {
            let members = self.members.entry(parent.0).or_default();
            members.links.insert(parent.1);
            if let Some(key) = child.1 {
                self.members.entry(child.0).or_default().gone.insert(key);
            }
        }
        self.relationships.push(relationship);
    }

    /// What a table's rows hold beside plain content; after [`Schema::finish`].
    pub fn members(&self, table: &str) -> Option<&Members> {
        self.members.get(table)
    }

    /// Every relationship that is made; after [`Schema::finish`].
    pub fn relationships(&self) -> &[Relationship] {
        &self.relationships
    }
}

/// Refuses a definition whose columns cannot be made, in whatever order.
fn check(definition: &Value) -> Result<()> {
    if !definition.is_object() {
        bail!("the definition of a table is a JSON object");
    }
    let table = text(&definition["id"]);
    let mut keys = HashSet::new();
    for column in definition["columns"].as_array().into_iter().flatten() {
        let key = text(&column["key"]);
        if !keys.insert(key) {
            bail!("table `{table}`: the column `{key}` stands there twice");
        }
        // Its parent would be made without it, and nothing after it could be.
        if is_relationship(column) && column["side"] == "child" && column["twoWay"] != true {
            bail!(
                "table `{table}`: the relationship `{key}` goes one way, so its child does not \
                 show it"
            );
        }
    }
    Ok(())
}

/// Whether the other table shows the relationship, too.
fn needs_partner(column: &Value) -> bool {
    column["twoWay"] == true
}

/// Whether two columns are the two ends of one relationship.
fn are_partners(one: (&str, &Value), other: (&str, &Value)) -> bool {
    let leads = |(_, from): (&str, &Value), (table, to): (&str, &Value)| {
        from["relatedTable"] == table && from["twoWayKey"] == to["key"]
    };
    let is_child = |(_, column): (&str, &Value)| column["side"] == "child";
    leads(one, other)
        && leads(other, one)
        && is_child(one) != is_child(other)
        && needs_partner(one.1)
        && needs_partner(other.1)
}

/// Makes as many columns of one table as can be made now.
fn advance(rests: &mut [Rest], at: usize, steps: &mut Vec<Step>) {
    while let Some(column) = rests[at].columns.pop_front() {
        let table = rests[at].table.clone();
        if !is_relationship(&column) {
            let part = Part::Column(column);
            steps.push(Step { table, part });
            continue;
        }
        let is_made = column["side"] != "child"
            && (!needs_partner(&column) || take_partner(rests, (&table, &column)));
        if !is_made {
            rests[at].columns.push_front(column);
            return;
        }
        let part = Part::Relationship(column);
        steps.push(Step { table, part });
    }
}

/// Takes the other end of a relationship, if its table has come to it.
fn take_partner(rests: &mut [Rest], (table, column): (&str, &Value)) -> bool {
    for rest in rests {
        let first = rest.columns.front();
        if first.is_some_and(|first| are_partners((table, column), (&rest.table, first))) {
            rest.columns.pop_front();
            return true;
        }
    }
    false
}

/// Moves both ends of some relationship to where they can be made.
fn bring_to_front(rests: &mut [Rest]) {
    let parent = rests.iter().enumerate().find_map(|(at, rest)| {
        let position = rest
            .columns
            .iter()
            .position(|column| is_relationship(column) && column["side"] != "child");
        position.map(|position| (at, position))
    });
    let (at, position) = parent.expect("of two ends one is no child, and single children are out");
    let column = rests[at]
        .columns
        .remove(position)
        .expect("it was just found");
    let table = rests[at].table.clone();
    if needs_partner(&column) {
        for rest in rests.iter_mut() {
            let other = rest.table.clone();
            let is_partner = |end: &Value| are_partners((&table, &column), (&other, end));
            if let Some(position) = rest.columns.iter().position(is_partner) {
                let end = rest.columns.remove(position).expect("it was just found");
                rest.columns.push_front(end);
                break;
            }
        }
    }
    rests[at].columns.push_front(column);
}

#[cfg(test)]
mod tests;
