//! Links here that the source has no more, where rows there do not show them.
//!
//! The children of a one-way `oneToMany` are read as lists of their parents, and no list names the
//! rows that it has lost. So where both sides differ, all links of the source are gathered, and
//! every row here that holds another loses it, if the source has the row at all: rows that are only
//! here keep what they have.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Map, Value};

use super::{id_of, links, sum_target};
use crate::canonical::Checksum;
use crate::export::Pages;
use crate::port_request::{BATCH_ROWS, PortRequest, Start, StartTable};
use crate::remote::Remote;
use crate::schema::Relationship;
use crate::target::Target;

/// Most links of the source that are held at once, some 16 bytes each. Where there are more, both
/// sides are read several times, for a part of the links each time.
const LINKS_MAX: u64 = 1 << 21;

/// Takes away what the source has no more. The links that are here after it.
///
/// # Errors
/// When a side refuses or cannot be reached.
pub async fn take_away(
    source: &mut Remote,
    target: &mut Target,
    database: &str,
    relationship: &Relationship,
    links_there: u64,
) -> Result<Checksum> {
    let parts = links_there / LINKS_MAX + 1;
    let hasher = RandomState::new();
    for part in 0..parts {
        let known = Known {
            hasher: hasher.clone(),
            parts,
            part,
            links: HashSet::new(),
        };
        let known = links::gather(source, database, relationship, known, Known::add).await?;
        take_unknown(source, target, database, relationship, &known).await?;
    }
    let (here, mark) = holder(target, database, relationship).await?;
    let mut sums = links::Sums::new(std::slice::from_ref(relationship));
    let pages = Pages::new(target, database, &here, mark);
    sum_target(pages, &here.definition, &mut sums).await?;
    let sum = sums.finish().pop();
    Ok(sum.expect("the sums are of one relationship").1)
}

/// The links of the source, or a part of them.
#[derive(Clone)]
struct Known {
    hasher: RandomState,
    parts: u64,
    part: u64,
    /// Their hashes. Of two links with the same one, the one that is to go may stay until the next
    /// copy, which hashes again.
    links: HashSet<u64>,
}

impl Known {
    /// The hash of a link, if it belongs to the part.
    fn hash(&self, child: &str, parent: &str) -> Option<u64> {
        let hash = self.hasher.hash_one((child, parent));
        (hash % self.parts == self.part).then_some(hash)
    }

    fn add(&mut self, child: &str, parent: &str) {
        self.links.extend(self.hash(child, parent));
    }

    /// Whether a link belongs to the part and is not at the source.
    fn lacks(&self, child: &str, parent: &str) -> bool {
        let hash = self.hash(child, parent);
        hash.is_some_and(|hash| !self.links.contains(&hash))
    }
}

/// The table whose rows hold the links, and a mark to read it at.
async fn holder(
    target: &mut Target,
    database: &str,
    relationship: &Relationship,
) -> Result<(StartTable, i64)> {
    let ask = PortRequest::BeginExport {
        project: target.project.clone(),
        database: database.to_owned(),
    };
    let start: Start = target.read(&ask).await?;
    let wanted = links::holder(relationship);
    let mut tables = start.tables.into_iter();
    let table = tables.find(|table| id_of(&table.definition) == wanted);
    let table = table.ok_or_else(|| anyhow!("table {database}/{wanted} is gone"))?;
    Ok((table, start.mark))
}

async fn take_unknown(
    source: &mut Remote,
    target: &mut Target,
    database: &str,
    relationship: &Relationship,
    known: &Known,
) -> Result<()> {
    let (here, mark) = holder(target, database, relationship).await?;
    let table = id_of(&here.definition);
    let path = target.path(database, table);
    let mut pages = Pages::new(target, database, &here, mark);
    while let Some(page) = pages.next().await? {
        let mut unknown = Vec::new();
        for line in page.rows.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let row: Map<String, Value> =
                serde_json::from_slice(line).context("a row of the store is no JSON")?;
            let id = row["$id"].as_str().unwrap_or_default();
            let mut held = links::held(relationship, table, &row).into_iter();
            if held.any(|parent| known.lacks(id, parent)) {
                unknown.push(id.to_owned());
            }
        }
        let there = source.known((database, table), &unknown).await?;
        let lines = unknown.iter().filter(|id| there.contains(*id));
        let lines: Vec<String> = lines
            .map(|id| links::hidden_line(relationship, id, None))
            .collect();
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        for some in lines.chunks(BATCH_ROWS) {
            // A row that is refused went meanwhile, and its link with it.
            pages.target().put_links(&path, some).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_judged_in_one_part() {
        let hasher = RandomState::new();
        let (mut added, mut lacking) = (0, 0);
        for part in 0..3 {
            let mut known = Known {
                hasher: hasher.clone(),
                parts: 3,
                part,
                links: HashSet::new(),
            };
            for n in 0..100 {
                known.add(&format!("b{n}"), "s");
            }
            added += known.links.len();
            let lacks = |n: &i32| known.lacks(&format!("b{n}"), "s");
            lacking += (0..150).filter(lacks).count();
            assert!(!(0..100).any(|n| lacks(&n)));
        }
        assert_eq!((added, lacking), (100, 50));
    }
}
