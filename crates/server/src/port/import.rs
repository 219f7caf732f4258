//! Reads an export, or a CSV file, into a store.

use std::io::{BufRead, Read};
use std::mem;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use serde_json::{Map, Value};

use super::ask::{Ask, RowsPut, TablePath, TablePut};
use super::csv::{self, Fields};
use super::lines::{self, Line};
use super::target::{Target, is_about_content};

/// A batch is closed at so many bytes of rows, or …
pub const BATCH_BYTES: usize = 4 << 20;
/// … so many rows: beyond them a commit stands alone and is reported without images.
pub const BATCH_ROWS: usize = 500;

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
    let header = from.headers().map_err(|error| csv::explain(&error))?;
    let fields = Fields::of_table(&definition).named(header)?;
    if how.resume && !fields.has("$id") {
        bail!("--resume needs a column `$id`: without one no row can be known again");
    }
    let mut import = Import::new(target, how);
    import.done.database = database;
    import.done.tables = 1;
    import.table = Some(path);
    let read = import.read_records(&mut from, &fields, draw_id).await;
    import.explain(read).await
}

/// An import under way.
struct Import<'a> {
    target: &'a mut Target,
    how: How,
    done: Imported,
    /// Whether callers without a key are to see the database in the end.
    enabled: Option<bool>,
    table: Option<TablePath>,
    /// Columns that were left out, by table.
    gone: Vec<(String, Vec<String>)>,
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
            table: None,
            gone: Vec::new(),
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
        let ask = Ask::EnableDatabase {
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
                self.table = Some(self.target.path(&self.done.database, &table));
                Ok(())
            }
            Line::End(rows) => {
                self.flush().await?;
                if rows != self.rows_read {
                    bail!(
                        "{}: the export had {rows} rows, the file has {}",
                        at(self.line),
                        self.rows_read
                    );
                }
                Ok(())
            }
        }
    }

    async fn put_database(&mut self, definition: &Value) -> Result<()> {
        let id = definition["id"].as_str().unwrap_or_default();
        let id = self.how.database.clone().unwrap_or_else(|| id.to_owned());
        let ask = Ask::PutDatabase {
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

    async fn put_table(&mut self, definition: Value) -> Result<()> {
        if self.done.database.is_empty() {
            bail!("a table stands before its database");
        }
        let id = definition["id"].as_str().unwrap_or_default().to_owned();
        let ask = Ask::PutTable {
            project: self.target.project.clone(),
            database: self.done.database.clone(),
            definition,
            may_exist: self.how.resume,
        };
        let put: TablePut = self.target.read(&ask).await?;
        self.done.left_out.extend(put.left_out);
        if !put.gone.is_empty() {
            self.gone.push((id, put.gone));
        }
        self.done.tables += 1;
        Ok(())
    }

    async fn take_row(&mut self, text: &[u8]) -> Result<()> {
        let Some(table) = &self.table else {
            bail!("{}: a row stands before its table", at(self.line));
        };
        self.rows_read += 1;
        let gone = self.gone.iter().find(|(id, _)| *id == table.table);
        match gone {
            None => self.batch.extend_from_slice(text),
            Some((_, gone)) => {
                let row = without(text, gone).with_context(|| at(self.line))?;
                self.batch.extend_from_slice(&row);
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
        from: &mut ::csv::Reader<R>,
        fields: &Fields,
        draw_id: impl Fn() -> String,
    ) -> Result<()> {
        let mut record = ::csv::StringRecord::new();
        while from
            .read_record(&mut record)
            .map_err(|error| csv::explain(&error))?
        {
            self.line = record.position().map_or(0, ::csv::Position::line);
            let row = fields.line(&record, self.line, &draw_id)?;
            self.how.bar.set_position(from.position().byte());
            self.take_row(row.as_bytes()).await?;
        }
        self.flush().await
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
        Err(anyhow!(
            "{}. Before it {rows} rows were imported into database `{}`, and they stay. \
             Mend what is wrong and run the same command with --resume: what is there is compared, \
             not written again",
            why.trim_end_matches('.'),
            self.done.database
        ))
    }
}

fn at(line: u64) -> String {
    format!("line {line}")
}

/// A row without these columns.
fn without(text: &[u8], gone: &[String]) -> Result<Vec<u8>> {
    let mut row: Map<String, Value> = serde_json::from_slice(text)?;
    for key in gone {
        row.remove(key);
    }
    Ok(serde_json::to_vec(&row)?)
}
