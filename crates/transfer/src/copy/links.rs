//! Links on their way from a compatible server, one relationship after the other, once all rows are
//! here.

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use crate::canonical::Checksum;
use crate::links::HIDDEN;
use crate::remote::{Links, Remote};
use crate::row_counter;
use crate::schema::Relationship;
use crate::state::{Progress, State};
use crate::target::{Target, is_conflict};

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

/// The table whose rows hold the links.
pub fn holder(relationship: &Relationship) -> &str {
    if relationship.child_holds {
        &relationship.child.0
    } else {
        &relationship.parent.0
    }
}

/// Whether rows are read at the end that holds the links.
pub fn is_read_at_holder(relationship: &Relationship) -> bool {
    !relationship.child_holds || relationship.child.1.is_some()
}

/// Copies the links of a relationship. Which could not be set.
///
/// # Errors
/// When a side refuses or cannot be reached; the state says how far it came.
pub async fn copy(
    source: &mut Remote,
    target: &mut Target,
    database: &str,
    relationship: &Relationship,
    state: &mut State,
) -> Result<Refused> {
    let mut way = Way {
        source,
        target,
        database,
        relationship,
    };
    let mut refused = way.put(state).await?;
    if refused.taken > 0 {
        // Rows of several pages may lead where others of them led: then all let go before any
        // takes. Broken off between the two, a copy begins with this relationship again.
        state.keep(database, &way.kept(), Progress::default())?;
        way.free().await?;
        refused = way.put(state).await?;
    }
    Ok(refused)
}

/// Rows whose links could not be set.
#[derive(Default)]
pub struct Refused {
    /// For a row that is not here.
    pub missing: u64,
    /// For another row that has the only link.
    pub taken: u64,
}

/// A relationship on its way from the source to the target.
struct Way<'a> {
    source: &'a mut Remote,
    target: &'a mut Target,
    database: &'a str,
    relationship: &'a Relationship,
}

impl Way<'_> {
    /// Under which name the state keeps how far it has come.
    fn kept(&self) -> String {
        let (table, key) = read_at(self.relationship);
        format!("{table}/{key}")
    }

    async fn page(&mut self, after: Option<&str>) -> Result<Option<Vec<Links>>> {
        let (table, key) = read_at(self.relationship);
        let place = (self.database, table);
        self.source.related(place, key, after).await
    }

    fn bar(&self, what: &str) -> ProgressBar {
        let (database, name) = (self.database, name(self.relationship));
        row_counter(&format!("{what} {database}/{name}"))
    }

    /// Gives rows the links they have at the source.
    async fn put(&mut self, state: &mut State) -> Result<Refused> {
        let kept = self.kept();
        let mut progress = state.progress(self.database, &kept);
        let mut refused = Refused::default();
        let bar = self.bar("links of");
        while !progress.done {
            let Some(page) = self.page(progress.after.as_deref()).await? else {
                progress = Progress::default();
                continue;
            };
            let lines = lines(&page, self.relationship);
            let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
            if !lines.is_empty() {
                let path = self.target.path(self.database, holder(self.relationship));
                for (_, error) in self.target.put_links(&path, &lines).await? {
                    let is_taken = is_conflict(&error);
                    refused.taken += u64::from(is_taken);
                    refused.missing += u64::from(!is_taken);
                }
            }
            bar.inc(page.len() as u64);
            progress = Progress {
                done: page.is_empty(),
                after: last_id(page).or(progress.after),
            };
            state.keep(self.database, &kept, progress.clone())?;
        }
        bar.finish_and_clear();
        Ok(refused)
    }

    /// Takes links away from rows that have others at the source.
    async fn free(&mut self) -> Result<()> {
        let mut after = None;
        let bar = self.bar("making room for links of");
        loop {
            let Some(page) = self.page(after.as_deref()).await? else {
                after = None;
                continue;
            };
            if page.is_empty() {
                bar.finish_and_clear();
                return Ok(());
            }
            let lines = lines(&page, self.relationship);
            let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
            let path = self.target.path(self.database, holder(self.relationship));
            self.target.free_links(&path, &lines).await?;
            bar.inc(page.len() as u64);
            after = last_id(page);
        }
    }
}

fn last_id(page: Vec<Links>) -> Option<String> {
    page.into_iter().next_back().map(|row| row.id)
}

/// A line with a hidden link, or without it.
pub fn hidden_line(relationship: &Relationship, child: &str, parent: Option<&str>) -> String {
    let (table, key) = &relationship.parent;
    json!({"$id": child, HIDDEN: {table: {key: parent}}}).to_string()
}

/// A line for each row that holds links.
fn lines(page: &[Links], relationship: &Relationship) -> Vec<String> {
    if !is_read_at_holder(relationship) {
        let line = |child: &String, parent: &str| hidden_line(relationship, child, Some(parent));
        let of_parent = |row: &Links| {
            let lines = row.to.iter().map(|child| line(child, &row.id));
            lines.collect::<Vec<_>>()
        };
        return page.iter().flat_map(of_parent).collect();
    }
    let key = match &relationship.child {
        (_, Some(own)) if relationship.child_holds => own,
        _ => &relationship.parent.1,
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
    let sum = Checksum::default();
    gather(source, database, relationship, sum, add).await
}

/// Takes in all links of a relationship at the source, each with the row that holds it and the row
/// it leads to.
///
/// # Errors
/// When it refuses or cannot be reached.
pub async fn gather<T: Clone>(
    source: &mut Remote,
    database: &str,
    relationship: &Relationship,
    empty: T,
    take: impl Fn(&mut T, &str, &str),
) -> Result<T> {
    let (table, key) = read_at(relationship);
    let name = format!("{database}/{}", name(relationship));
    let bar = row_counter(&format!("comparing links of {name}"));
    let (mut gathered, mut after) = (empty.clone(), None::<String>);
    loop {
        let page = source.related((database, table), key, after.as_deref());
        let page = page.await.with_context(|| format!("relationship {name}"))?;
        let Some(page) = page else {
            (gathered, after) = (empty.clone(), None);
            continue;
        };
        for row in &page {
            for to in &row.to {
                if is_read_at_holder(relationship) {
                    take(&mut gathered, &row.id, to);
                } else {
                    take(&mut gathered, to, &row.id);
                }
            }
        }
        bar.inc(page.len() as u64);
        if page.is_empty() {
            bar.finish_and_clear();
            return Ok(gathered);
        }
        after = last_id(page);
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
        let id = row["$id"].as_str().unwrap_or_default();
        for (relationship, sum) in &mut self.0 {
            for to in held(relationship, table, row) {
                add(sum, id, to);
            }
        }
    }

    /// Each relationship with its links.
    pub fn finish(self) -> Vec<(&'a Relationship, Checksum)> {
        self.0
    }
}

/// Where the links of a relationship lead that a row here holds, as a line of an export has them.
pub fn held<'r>(
    relationship: &Relationship,
    table: &str,
    row: &'r Map<String, Value>,
) -> Vec<&'r str> {
    let held = match (&relationship.parent, &relationship.child) {
        ((parent, key), (child, None)) if relationship.child_holds && child == table => row
            .get(HIDDEN)
            .map(|links| &links[parent.as_str()][key.as_str()]),
        (_, (child, Some(key))) if relationship.child_holds && child == table => row.get(key),
        ((parent, key), _) if !relationship.child_holds && parent == table => row.get(key),
        _ => None,
    };
    match held {
        Some(Value::Array(links)) => links.iter().filter_map(Value::as_str).collect(),
        Some(single) => single.as_str().into_iter().collect(),
        None => Vec::new(),
    }
}
