//! Reads an export, or a CSV file, into a store.

use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::mem;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use model::counted;
use serde_json::Value;

use super::csv::{self, Fields};
use super::lines::{self, Line};
use super::links::{Foreign, Members, may_have_hidden};
use super::port_request::{BATCH_BYTES, BATCH_ROWS, PortRequest, RowsPut, TablePath, TablePut};
use super::row_counter;
use super::schema::Schema;
use super::target::{Target, is_about_content, is_conflict};
use super::waiting::Waiting;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The database's id.
    pub database: String,
    /// Tables whose definition was read, or that rows went into.
    pub tables: u64,
    /// What became of rows.
    pub rows: RowsPut,
    /// What could not be created, in words.
    pub left_out: Vec<String>,
}

/// How to import.
#[derive(Clone, Debug)]
pub struct How {
    /// Into this database, whatever the export says.
    pub database: Option<String>,
    /// Go on with an import that was broken off: what is there is compared, and kept or mended.
    pub resume: bool,
    /// Counts bytes read.
    pub bar: ProgressBar,
    /// Where links wait, in a file, until all rows are there.
    pub directory: PathBuf,
}

/// Reads an export.
///
/// # Errors
/// With the line, and what was done before it.
pub async fn from_lines(
    target: &mut Target,
    from: &mut impl BufRead,
    how: How,
) -> Result<Imported> {
    let mut import = Import::new(target, how);
    let read = import.read(from).await;
    import.explain(read).await
}

/// Reads a CSV file into a table.
///
/// # Errors
/// With the line and column, and what was done before it.
pub async fn from_csv(
    target: &mut Target,
    from: impl Read,
    table: &str,
    how: How,
    draw_id: impl Fn() -> String,
) -> Result<Imported> {
    let database = how.database.clone();
    let database = database.context("a CSV file names no database; give it with --database")?;
    let path = target.path(&database, table);
    let definition = target.describe(path.clone()).await?;
    let mut from = csv::reader(from);
    let header = from.headers().map_err(|error| csv::explain(&error, 0))?;
    let header = header.clone();
    let fields = Fields::of_table(&definition).named(&header)?;
    let behind = csv::lines_behind(&from, &header);
    if how.resume && !fields.has("$id") {
        bail!("--resume needs a column `$id`: without one no row can be known again");
    }
    let mut import = Import::new(target, how);
    import.members = Members::of_table(&definition);
    import.done.database = database;
    import.done.tables = 1;
    import.table = Some(path);
    let read = import.read_records((&mut from, behind), &fields, draw_id);
    let read = read.await;
    import.explain(read).await
}

/// An import under way.
struct Import<'a> {
    target: &'a mut Target,
    how: How,
    done: Imported,
    /// Whether callers without a key are to see the database in the end.
    enabled: Option<bool>,
    /// The tables, until the first row.
    schema: Option<Schema>,
    /// What the tables' rows hold; after the first row.
    finished: Schema,
    table: Option<TablePath>,
    /// What the rows of that table hold beside plain content.
    members: Members,
    links: Option<Waiting>,
    /// Relationships whose links rows came with and that are not here, each with its table.
    foreign: HashSet<(String, Foreign)>,
    batch: Vec<u8>,
    /// The line of each row of the batch.
    batch_lines: Vec<u64>,
    rows_read: u64,
    line: u64,
}

impl<'a> Import<'a> {
    fn new(target: &'a mut Target, how: How) -> Import<'a> {
        Import {
            target,
            how,
            done: Imported::default(),
            enabled: None,
            schema: Some(Schema::default()),
            finished: Schema::default(),
            table: None,
            members: Members::default(),
            links: None,
            foreign: HashSet::new(),
            batch: Vec::new(),
            batch_lines: Vec::new(),
            rows_read: 0,
            line: 0,
        }
    }

    async fn read(&mut self, from: &mut impl BufRead) -> Result<()> {
        let mut text = Vec::new();
        let mut ended = false;
        while lines::read_line(from, &mut text).with_context(|| at(self.line + 1))? {
            self.line += 1;
            self.how.bar.inc(text.len() as u64 + 1);
            if text.is_empty() {
                continue;
            }
            let line = lines::parse(&text).with_context(|| at(self.line))?;
            if ended {
                bail!("{}: something follows the end", at(self.line));
            }
            if (self.line == 1) != (line == Line::Header) {
                bail!(
                    "{}: an export begins with its header, and has one",
                    at(self.line)
                );
            }
            ended = matches!(line, Line::End(_));
            self.take(line, &text).await?;
        }
        if !ended {
            bail!(
                "{}: the file ends before the export does",
                at(self.line + 1)
            );
        }
        let Some(enabled) = self.enabled else {
            return Ok(());
        };
        let ask = PortRequest::EnableDatabase {
            project: self.target.project.clone(),
            database: self.done.database.clone(),
            enabled,
        };
        self.target.ask(&ask, &[]).await.map(drop)
    }

    async fn take(&mut self, line: Line, text: &[u8]) -> Result<()> {
        match line {
            Line::Header => Ok(()),
            Line::Row => self.take_row(text).await,
            Line::Database(definition) => {
                let put = self.put_database(&definition).await;
                put.with_context(|| at(self.line))
            }
            Line::Table(definition) => {
                let put = self.put_table(definition).await;
                put.with_context(|| at(self.line))
            }
            Line::Rows(table) => {
                self.flush().await?;
                self.finish_schema().await?;
                self.members = self.finished.members(&table).cloned().unwrap_or_default();
                self.table = Some(self.target.path(&self.done.database, &table));
                Ok(())
            }
            Line::End(rows) => {
                self.flush().await?;
                self.finish_schema().await?;
                if rows != self.rows_read {
                    bail!(
                        "{}: the export had {}, the file has {}",
                        at(self.line),
                        counted(rows, "row"),
                        self.rows_read
                    );
                }
                self.put_links().await
            }
        }
    }

    async fn put_database(&mut self, definition: &Value) -> Result<()> {
        let id = definition["id"].as_str().unwrap_or_default();
        let id = self.how.database.clone().unwrap_or_else(|| id.to_owned());
        let ask = PortRequest::PutDatabase {
            project: self.target.project.clone(),
            database: id.clone(),
            name: definition["name"].as_str().unwrap_or(&id).to_owned(),
            may_exist: self.how.resume,
        };
        self.target.ask(&ask, &[]).await.map_err(|error| {
            if is_about_content(&error) && error.to_string().contains("already exists") {
                return anyhow!(
                    "a database `{id}` exists already. Give another id with --database, or go on \
                     with an import that was broken off with --resume"
                );
            }
            error
        })?;
        self.enabled = Some(definition["enabled"] != false);
        self.done.database = id;
        Ok(())
    }

    async fn put_table(&mut self, mut definition: Value) -> Result<()> {
        if self.done.database.is_empty() {
            bail!("a table stands before its database");
        }
        let Some(schema) = &mut self.schema else {
            bail!("a table stands after the first rows");
        };
        self.done.left_out.extend(schema.take(&mut definition)?);
        let may_have_more = schema.is_begun(definition["id"].as_str().unwrap_or_default());
        let ask = PortRequest::PutTable {
            project: self.target.project.clone(),
            database: self.done.database.clone(),
            definition,
            may_exist: self.how.resume,
            may_have_more,
        };
        let put: TablePut = self.target.read(&ask).await?;
        self.done.left_out.extend(put.left_out);
        self.done.tables += 1;
        Ok(())
    }

    /// Makes what tables could not be created with, once all of them are there.
    async fn finish_schema(&mut self) -> Result<()> {
        let Some(mut schema) = self.schema.take() else {
            return Ok(());
        };
        let database = self.done.database.clone();
        let said = self.target.finish(&database, &mut schema, self.how.resume);
        self.done.left_out.extend(said.await?);
        self.finished = schema;
        Ok(())
    }

    async fn take_row(&mut self, text: &[u8]) -> Result<()> {
        let Some(table) = &self.table else {
            bail!("{}: a row stands before its table", at(self.line));
        };
        self.rows_read += 1;
        if self.members.are_plain() && !may_have_hidden(text) {
            self.batch.extend_from_slice(text);
        } else {
            let row = self.members.split(text).with_context(|| at(self.line))?;
            self.batch.extend_from_slice(&row.plain);
            for foreign in row.foreign {
                let said = format!(
                    "{}: the links of the relationship `{}` of table `{}`, which does not come \
                     with it",
                    table.table, foreign.key, foreign.table
                );
                if self.foreign.insert((table.table.clone(), foreign)) {
                    self.done.left_out.push(said);
                }
            }
            // A row that was there before may have links that it is to lose.
            if let Some(links) = row.links.filter(|_| row.is_linked || self.how.resume) {
                if self.links.is_none() {
                    self.links = Some(Waiting::new(&self.how.directory)?);
                }
                let waiting = self.links.as_mut().expect("it was just made");
                waiting.keep(&table.table, self.line, &links)?;
            }
        }
        self.batch.push(b'\n');
        self.batch_lines.push(self.line);
        if self.batch.len() >= BATCH_BYTES || self.batch_lines.len() >= BATCH_ROWS {
            self.flush().await?;
        }
        Ok(())
    }

    async fn read_records<R: Read>(
        &mut self,
        (from, behind): (&mut ::csv::Reader<R>, u64),
        fields: &Fields,
        draw_id: impl Fn() -> String,
    ) -> Result<()> {
        let mut record = ::csv::StringRecord::new();
        while from
            .read_record(&mut record)
            .map_err(|error| csv::explain(&error, behind))?
        {
            self.line = record.position().map_or(0, ::csv::Position::line) + behind;
            let row = fields.line(&record, self.line, &draw_id)?;
            self.how.bar.set_position(from.position().byte());
            self.take_row(row.as_bytes()).await?;
        }
        self.flush().await?;
        self.put_links().await
    }

    /// Sets the links that waited, now that every row is there.
    async fn put_links(&mut self) -> Result<()> {
        let Some(mut waiting) = self.links.take() else {
            return Ok(());
        };
        match self.put_all_links(&mut waiting).await {
            // Rows far apart may lead where others of them led: then all let go before any takes.
            Err(error) if self.how.resume && is_conflict(&error) => {
                for batch in waiting.batches()? {
                    let batch = batch?;
                    let path = self.target.path(&self.done.database, &batch.table);
                    self.target.free_links(&path, &batch.lines()).await?;
                }
                self.put_all_links(&mut waiting).await
            }
            put => put,
        }
    }

    async fn put_all_links(&mut self, waiting: &mut Waiting) -> Result<()> {
        let bar = row_counter("links");
        for batch in waiting.batches()? {
            let batch = batch?;
            let path = self.target.path(&self.done.database, &batch.table);
            let refused = self.target.put_links(&path, &batch.lines()).await?;
            if let Some((nth, error)) = refused.into_iter().next() {
                return Err(error.context(at(batch.rows[nth].line)));
            }
            bar.inc(batch.rows.len() as u64);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Writes the batch. When it is refused, its halves are written, and theirs: so the row at
    /// fault is found, with its line, and those before it are there.
    async fn flush(&mut self) -> Result<()> {
        let (batch, lines) = (mem::take(&mut self.batch), mem::take(&mut self.batch_lines));
        let Some(path) = self.table.clone().filter(|_| !lines.is_empty()) else {
            return Ok(());
        };
        let rows: Vec<&[u8]> = batch.split_inclusive(|byte| *byte == b'\n').collect();
        let mut waiting = vec![(&rows[..], &lines[..])];
        while let Some((rows, lines)) = waiting.pop() {
            match self.put(&path, &rows.concat()).await {
                Err(error) if is_about_content(&error) && rows.len() > 1 => {
                    let half = rows.len() / 2;
                    waiting.push((&rows[half..], &lines[half..]));
                    waiting.push((&rows[..half], &lines[..half]));
                }
                put => put.with_context(|| at(lines[0]))?,
            }
        }
        Ok(())
    }

    async fn put(&mut self, path: &TablePath, rows: &[u8]) -> Result<()> {
        let resume = self.how.resume;
        let put = self.target.put_rows(path.clone(), rows, resume).await?;
        let done = &mut self.done.rows;
        done.created += put.created;
        done.changed += put.changed;
        done.same += put.same;
        Ok(())
    }

    /// The result; of a failure also what was done before it, and how to go on.
    async fn explain(mut self, read: Result<()>) -> Result<Imported> {
        let Err(error) = read else {
            return Ok(self.done);
        };
        if !self.batch_lines.is_empty() && self.flush().await.is_err() {
            tracing::debug!("the rows before the failure could not be written either");
        }
        let RowsPut {
            created,
            changed,
            same,
        } = self.done.rows;
        let rows = created + changed + same;
        if self.done.database.is_empty() || (self.done.tables == 0 && rows == 0) {
            return Err(error);
        }
        let why = format!("{error:#}");
        let before = match rows {
            0 => "No row came in before it".to_owned(),
            rows => format!(
                "Before it {} had come into database `{}` and {}",
                counted(rows, "row"),
                self.done.database,
                if rows == 1 { "stays" } else { "stay" }
            ),
        };
        Err(anyhow!(
            "{}. {before}. Fix the file and run the same command with --resume: what is \
             there is compared, not written again",
            why.trim_end_matches('.'),
        ))
    }
}

fn at(line: u64) -> String {
    format!("line {line}")
}
