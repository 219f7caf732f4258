//! Copies databases from a compatible server into a store, and compares both in the end.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};

use super::canonical::{self, Checksum};
use super::definition;
use super::export::Pages;
use super::port_request::{PortRequest, RowsPut, Start, TablePut};
use super::remote::Remote;
use super::row_counter;
use super::schema::{Relationship, Schema};
use super::state::{Progress, State};
use super::target::Target;

mod links;
mod stale;

/// How the two sides of one table, or of one relationship, compare.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The database's id.
    pub database: String,
    /// The table's id; of a relationship that and its key.
    pub what: String,
    /// The source's rows, or links.
    pub source: Checksum,
    /// The target's.
    pub target: Checksum,
}

/// What was copied.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// What became of rows in this run.
    pub rows: RowsPut,
    /// Rows whose links could not be set, because a row that they lead from or to is not here.
    pub links_refused: u64,
    /// Rows whose links could not be set, because a row that is only here has the only one.
    pub links_taken: u64,
    /// What could not be created, in words.
    pub left_out: Vec<String>,
    /// Both sides, table by table.
    pub compared: Vec<Compared>,
}

impl Copied {
    /// Whether every table has the same rows on both sides.
    pub fn is_equal(&self) -> bool {
        self.compared
            .iter()
            .all(|table| table.source == table.target)
    }
}

/// A database that is being copied.
struct Plan {
    id: String,
    enabled: bool,
    /// Their definitions here: without what could not be created.
    tables: Vec<Value>,
    relationships: Vec<Relationship>,
}

/// Copies the databases named, or all; then compares.
///
/// # Errors
/// When a side refuses or cannot be reached; what was copied stays, and the state says how far.
pub async fn run(
    source: &mut Remote,
    target: &mut Target,
    wanted: &[String],
    state: &mut State,
) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut plans = Vec::new();
    for database in chosen(source.databases().await?, wanted)? {
        plans.push(define(source, target, &database, &mut copied).await?);
    }
    for plan in &plans {
        for table in &plan.tables {
            let put = copy_table(source, target, &plan.id, table, state).await;
            let put = put.with_context(|| format!("table {}/{}", plan.id, id_of(table)))?;
            copied.rows.created += put.created;
            copied.rows.changed += put.changed;
            copied.rows.same += put.same;
        }
        for relationship in &plan.relationships {
            let refused = links::copy(source, target, &plan.id, relationship, state).await;
            let key = links::name(relationship);
            let refused = refused.with_context(|| format!("relationship {}/{key}", plan.id))?;
            copied.links_refused += refused.missing;
            copied.links_taken += refused.taken;
        }
        let ask = PortRequest::EnableDatabase {
            project: target.project.clone(),
            database: plan.id.clone(),
            enabled: plan.enabled,
        };
        target.ask(&ask, &[]).await?;
    }
    for plan in &plans {
        compare(source, target, plan, &mut copied.compared).await?;
    }
    Ok(copied)
}

fn id_of(definition: &Value) -> &str {
    definition["id"].as_str().unwrap_or_default()
}

fn chosen(databases: Vec<Value>, wanted: &[String]) -> Result<Vec<Value>> {
    let id = |database: &Value| database["$id"].as_str().unwrap_or_default().to_owned();
    if wanted.is_empty() {
        return Ok(databases);
    }
    let known: Vec<String> = databases.iter().map(id).collect();
    if let Some(missing) = wanted.iter().find(|wanted| !known.contains(wanted)) {
        bail!(
            "the source has no database `{missing}`. It has {}",
            known.join(", ")
        );
    }
    let is_wanted = |database: &Value| wanted.contains(&id(database));
    Ok(databases.into_iter().filter(is_wanted).collect())
}

/// Creates a database and its tables where they are absent.
async fn define(
    source: &mut Remote,
    target: &mut Target,
    database: &Value,
    copied: &mut Copied,
) -> Result<Plan> {
    let database = definition::database(database);
    let id = id_of(&database).to_owned();
    let ask = PortRequest::PutDatabase {
        project: target.project.clone(),
        database: id.clone(),
        name: database["name"].as_str().unwrap_or(&id).to_owned(),
        may_exist: true,
    };
    target.ask(&ask, &[]).await?;
    let mut plan = Plan {
        enabled: database["enabled"] != false,
        tables: Vec::new(),
        relationships: Vec::new(),
        id,
    };
    let mut schema = Schema::default();
    for table in source.tables(&plan.id).await? {
        let mut table = definition::table(&table);
        if let Some(options) = source.options(&plan.id, id_of(&table)).await? {
            definition::add_options(&mut table, &options);
        }
        let mut beginning = table.clone();
        let left_out = schema.take(&mut beginning);
        copied
            .left_out
            .extend(left_out.with_context(|| format!("database {}", plan.id))?);
        let ask = PortRequest::PutTable {
            project: target.project.clone(),
            database: plan.id.clone(),
            definition: beginning,
            may_exist: true,
            may_have_more: schema.is_begun(id_of(&table)),
        };
        let put: TablePut = target
            .read(&ask)
            .await
            .with_context(|| format!("table {}/{}", plan.id, id_of(&table)))?;
        copied.left_out.extend(put.left_out);
        plan.tables.push(table);
    }
    let left_out = target.finish(&plan.id, &mut schema, true).await?;
    copied.left_out.extend(left_out);
    for table in &mut plan.tables {
        let gone = schema.members(id_of(table)).map(|members| &members.gone);
        if let (Some(gone), Some(columns)) = (gone, table["columns"].as_array_mut()) {
            columns.retain(|column| !gone.contains(definition::text(&column["key"])));
        }
    }
    plan.relationships = schema.relationships().to_vec();
    Ok(plan)
}

async fn copy_table(
    source: &mut Remote,
    target: &mut Target,
    database: &str,
    table: &Value,
    state: &mut State,
) -> Result<RowsPut> {
    let id = id_of(table);
    let mut progress = state.progress(database, id);
    let mut done = RowsPut::default();
    let bar = row_counter(&format!("copying {database}/{id}"));
    while !progress.done {
        let Some(page) = source.rows(database, id, progress.after.as_deref()).await? else {
            // The row to go on from was deleted meanwhile. Rows copied already are found there.
            progress = Progress::default();
            continue;
        };
        if !page.is_empty() {
            let mut rows = String::new();
            for row in &page {
                rows += &canonical::line(row, table);
                rows.push('\n');
            }
            let path = target.path(database, id);
            let put = target.put_rows(path, rows.as_bytes(), true).await?;
            done.created += put.created;
            done.changed += put.changed;
            done.same += put.same;
            bar.inc(page.len() as u64);
        }
        progress = next(&page, progress);
        state.keep(database, id, progress.clone())?;
    }
    bar.finish_and_clear();
    Ok(done)
}

fn next(page: &[Map<String, Value>], progress: Progress) -> Progress {
    let last = page.last().and_then(|row| row["$id"].as_str());
    Progress {
        after: last.map(str::to_owned).or(progress.after),
        // Only an empty page is the last for certain: a server may give fewer than were asked.
        done: page.is_empty(),
    }
}

/// Reads both sides of a database once more. Links that are only here, and that no row of the
/// source could show to be gone, are taken away.
async fn compare(
    source: &mut Remote,
    target: &mut Target,
    plan: &Plan,
    compared: &mut Vec<Compared>,
) -> Result<()> {
    let ask = PortRequest::BeginExport {
        project: target.project.clone(),
        database: plan.id.clone(),
    };
    let start: Start = target.read(&ask).await?;
    let mut here_links = links::Sums::new(&plan.relationships);
    for table in &plan.tables {
        let id = id_of(table);
        let here = start
            .tables
            .iter()
            .find(|here| id_of(&here.definition) == id);
        let here = here.ok_or_else(|| anyhow!("table {}/{id} is gone", plan.id))?;
        let pages = Pages::new(target, &plan.id, here, start.mark);
        compared.push(Compared {
            database: plan.id.clone(),
            what: id.to_owned(),
            source: sum_source(source, &plan.id, table).await?,
            target: sum_target(pages, table, &mut here_links).await?,
        });
    }
    for (relationship, mut here) in here_links.finish() {
        let there = links::sum_source(source, &plan.id, relationship).await?;
        if there != here && !links::is_read_at_holder(relationship) {
            here = stale::take_away(source, target, &plan.id, relationship, there.rows).await?;
        }
        compared.push(Compared {
            database: plan.id.clone(),
            what: links::name(relationship),
            source: there,
            target: here,
        });
    }
    Ok(())
}

async fn sum_source(source: &mut Remote, database: &str, table: &Value) -> Result<Checksum> {
    let id = id_of(table);
    let bar = row_counter(&format!("comparing {database}/{id}"));
    let (mut sum, mut after) = (Checksum::default(), None::<String>);
    loop {
        let Some(page) = source.rows(database, id, after.as_deref()).await? else {
            (sum, after) = (Checksum::default(), None);
            continue;
        };
        for row in &page {
            sum.add(&canonical::compared(row, table));
        }
        bar.inc(page.len() as u64);
        let Some(last) = page.last() else {
            bar.finish_and_clear();
            return Ok(sum);
        };
        after = last["$id"].as_str().map(str::to_owned);
    }
}

async fn sum_target(
    mut pages: Pages<'_>,
    table: &Value,
    links: &mut links::Sums<'_>,
) -> Result<Checksum> {
    let mut sum = Checksum::default();
    while let Some(page) = pages.next().await? {
        for line in page
            .rows
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let row = serde_json::from_slice(line).context("a row of the store is no JSON")?;
            sum.add(&canonical::compared(&row, table));
            links.add(id_of(table), &row);
        }
    }
    Ok(sum)
}
