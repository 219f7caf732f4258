//! Links on their way from a compatible server, one relationship after the other, once all rows are
//! here.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::port::canonical::Checksum;
use crate::port::links::HIDDEN;
use crate::port::remote::{Links, Remote};
use crate::port::row_counter;
use crate::port::schema::Relationship;
use crate::port::state::{Progress, State};
use crate::port::target::Target;

/// How people know a relationship.
pub fn name(relationship: &Relationship) -> String {
    let (table, key) = &relationship.parent;
    format!("{table}.{key}")
}

/// At which end a relationship is read: where a row shows one link, if it is shown there at all.
fn read_at(relationship: &Relationship) -> (&str, &str) {
    match &relationship.child {
        (table, Some(key)) if relationship.child_holds => (table, key),
        _ => (&relationship.parent.0, &relationship.parent.1),
    }
}

/// Whether rows are read at the end that holds the links.
fn is_read_at_holder(relationship: &Relationship) -> bool {
    !relationship.child_holds || relationship.child.1.is_some()
}

/// Copies the links of a relationship. How many rows' links could not be set.
///
/// # Errors
/// When a side refuses or cannot be reached; the state says how far it came.
pub async fn copy(
    source: &mut Remote,
    target: &mut Target,
    database: &str,
    relationship: &Relationship,
    state: &mut State,
) -> Result<u64> {
    let (table, key) = read_at(relationship);
    let kept = format!("{table}/{key}");
    let mut progress = state.progress(database, &kept);
    let mut refused = 0;
    let bar = row_counter(&format!("links of {database}/{}", name(relationship)));
    while !progress.done {
        let after = progress.after.as_deref();
        let Some(page) = source.related((database, table), key, after).await? else {
            progress = Progress::default();
            continue;
        };
        let lines = lines(&page, relationship);
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        let holder = if relationship.child_holds {
            &relationship.child.0
        } else {
            &relationship.parent.0
        };
        if !lines.is_empty() {
            let path = target.path(database, holder);
            let failed = target.put_links(&path, &lines).await?;
            refused += failed.len() as u64;
        }
        bar.inc(page.len() as u64);
        progress = Progress {
            done: page.is_empty(),
            after: page
                .into_iter()
                .next_back()
                .map(|row| row.id)
                .or(progress.after),
        };
        state.keep(database, &kept, progress.clone())?;
    }
    bar.finish_and_clear();
    Ok(refused)
}

/// A line for each row that holds links.
fn lines(page: &[Links], relationship: &Relationship) -> Vec<String> {
    let (table, key) = &relationship.parent;
    if !is_read_at_holder(relationship) {
        let line = |child: &String, parent: &str| {
            json!({"$id": child, HIDDEN: {table: {key: parent}}}).to_string()
        };
        let of_parent = |row: &Links| {
            let lines = row.to.iter().map(|child| line(child, &row.id));
            lines.collect::<Vec<_>>()
        };
        return page.iter().flat_map(of_parent).collect();
    }
    let key = match &relationship.child {
        (_, Some(own)) if relationship.child_holds => own,
        _ => key,
    };
    page.iter()
        .map(|row| json!({"$id": row.id, key: row.to}).to_string())
        .collect()
}

/// The links of a relationship at the source.
///
/// # Errors
/// When it refuses or cannot be reached.
pub async fn sum_source(
    source: &mut Remote,
    database: &str,
    relationship: &Relationship,
) -> Result<Checksum> {
    let (table, key) = read_at(relationship);
    let bar = row_counter(&format!(
        "comparing links of {database}/{}",
        name(relationship)
    ));
    let (mut sum, mut after) = (Checksum::default(), None::<String>);
    loop {
        let page = source
            .related((database, table), key, after.as_deref())
            .await;
        let what = || format!("relationship {database}/{}", name(relationship));
        let Some(page) = page.with_context(what)? else {
            (sum, after) = (Checksum::default(), None);
            continue;
        };
        for row in &page {
            for to in &row.to {
                if is_read_at_holder(relationship) {
                    add(&mut sum, &row.id, to);
                } else {
                    add(&mut sum, to, &row.id);
                }
            }
        }
        bar.inc(page.len() as u64);
        let Some(last) = page.into_iter().next_back() else {
            bar.finish_and_clear();
            return Ok(sum);
        };
        after = Some(last.id);
    }
}

fn add(sum: &mut Checksum, holder: &str, to: &str) {
    // No id holds a space.
    sum.add(&format!("{holder} {to}"));
}

/// The links of all relationships here, summed while rows are read.
pub struct Sums<'a>(Vec<(&'a Relationship, Checksum)>);

impl<'a> Sums<'a> {
    /// None yet.
    pub fn new(relationships: &'a [Relationship]) -> Sums<'a> {
        let none = |relationship| (relationship, Checksum::default());
        Sums(relationships.iter().map(none).collect())
    }

    /// Takes in the links that a row holds, as a line of an export has them.
    pub fn add(&mut self, table: &str, row: &Map<String, Value>) {
        for (relationship, sum) in &mut self.0 {
            let held = match (&relationship.parent, &relationship.child) {
                ((parent, key), (child, None)) if relationship.child_holds && child == table => row
                    .get(HIDDEN)
                    .map(|links| &links[parent.as_str()][key.as_str()]),
                (_, (child, Some(key))) if relationship.child_holds && child == table => {
                    row.get(key)
                }
                ((parent, key), _) if !relationship.child_holds && parent == table => row.get(key),
                _ => None,
            };
            let links = match held {
                Some(Value::Array(links)) => links.iter().collect(),
                Some(single) => vec![single],
                None => Vec::new(),
            };
            let id = row["$id"].as_str().unwrap_or_default();
            for to in links.into_iter().filter_map(Value::as_str) {
                add(sum, id, to);
            }
        }
    }

    /// Each relationship with its links.
    pub fn finish(self) -> Vec<(&'a Relationship, Checksum)> {
        self.0
    }
}
