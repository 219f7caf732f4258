//! Writes a database, or one table of it, out of a store.

use std::io::Write;

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use super::csv::{self, Fields};
use super::port_request::{PageEnd, PortRequest, Start, StartTable, TablePath};
use super::target::{self, Target};
use super::{lines, row_counter};

/// About how many bytes of rows one page holds, which is what an export holds in memory. Rows
/// that are suddenly larger than those before them may make one page larger.
const PAGE_BYTES: u64 = 4 << 20;
/// Rows of the first page of a table, whose width is not known yet, and of any page.
const FIRST_PAGE_ROWS: u32 = 100;
const PAGE_ROWS_MAX: u32 = 2_000;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Tables.
    pub tables: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Rows that were left out because an encrypted value of theirs is damaged.
    pub damaged: u64,
    /// Where they were read.
    pub mark: i64,
}

impl Exported {
    fn count(&mut self, page: &RowPage) {
        self.rows += page.count;
        self.damaged += page.damaged.len() as u64;
    }
}

/// Writes a database as JSON lines; with `table`, that table alone. Rows of which an encrypted
/// value is damaged are left out and given to `left_out`: table and row.
///
/// # Errors
/// When there is no such database or table, or writing fails.
pub async fn as_lines(
    target: &mut Target,
    database: &str,
    table: Option<&str>,
    out: &mut impl Write,
    mut left_out: impl FnMut(&str, &str),
) -> Result<Exported> {
    let start = begin(target, database, table).await?;
    let mut say = |line: String| writeln!(out, "{line}").context("cannot write the export");
    say(lines::header())?;
    say(json!({ "database": start.database }).to_string())?;
    for table in &start.tables {
        say(json!({ "table": table.definition }).to_string())?;
    }
    let mut done = Exported {
        mark: start.mark,
        ..Exported::default()
    };
    for table in &start.tables {
        let id = id_of(table);
        writeln!(out, "{}", json!({ "rows": id })).context("cannot write the export")?;
        let mut pages = Pages::without_damaged(target, database, table, start.mark);
        while let Some(page) = pages.next().await? {
            out.write_all(&page.rows)
                .context("cannot write the export")?;
            done.count(&page);
            pages.name_damaged(&page, |row| left_out(id, row));
        }
        done.tables += 1;
    }
    writeln!(out, "{}", json!({ "end": { "rows": done.rows } }))
        .and_then(|()| out.flush())
        .context("cannot write the export")?;
    Ok(done)
}

/// Writes the rows of one table as CSV.
///
/// # Errors
/// As for [`as_lines`].
pub async fn as_csv(
    target: &mut Target,
    database: &str,
    table: &str,
    out: &mut impl Write,
    mut left_out: impl FnMut(&str, &str),
) -> Result<Exported> {
    let start = begin(target, database, Some(table)).await?;
    let table = start
        .tables
        .first()
        .expect("begin gives the table asked for");
    let fields = Fields::of_table(&table.definition);
    let mut out = csv::writer(out);
    fields
        .write_header(&mut out)
        .context("cannot write the export")?;
    let mut done = Exported {
        tables: 1,
        mark: start.mark,
        ..Exported::default()
    };
    let mut pages = Pages::without_damaged(target, database, table, start.mark);
    while let Some(page) = pages.next().await? {
        for line in page
            .rows
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            fields
                .write_row(line, &mut out)
                .context("cannot write the export")?;
        }
        done.count(&page);
        pages.name_damaged(&page, |row| left_out(id_of(table), row));
    }
    out.flush().context("cannot write the export")?;
    Ok(done)
}

async fn begin(target: &mut Target, database: &str, table: Option<&str>) -> Result<Start> {
    let ask = PortRequest::BeginExport {
        project: target.project.clone(),
        database: database.to_owned(),
    };
    let mut start: Start = target.read(&ask).await?;
    if let Some(wanted) = table {
        start.tables.retain(|table| id_of(table) == wanted);
        if start.tables.is_empty() {
            return Err(anyhow!("No table `{wanted}` in database `{database}`."));
        }
    }
    Ok(start)
}

fn id_of(table: &StartTable) -> &str {
    table.definition["id"].as_str().unwrap_or_default()
}

/// Some rows of a table.
pub struct RowPage {
    /// Each with its line end.
    pub rows: Vec<u8>,
    /// How many.
    pub count: u64,
    /// The ids of those that were left out.
    damaged: Vec<String>,
}

/// The rows of one table, page after page, all at one mark.
pub struct Pages<'a> {
    target: &'a mut Target,
    path: TablePath,
    schema: &'a str,
    mark: i64,
    after: i64,
    rows_max: u32,
    leaves_out_damaged: bool,
    is_done: bool,
    bar: indicatif::ProgressBar,
}

impl<'a> Pages<'a> {
    /// From the first row on.
    pub fn new(
        target: &'a mut Target,
        database: &str,
        table: &'a StartTable,
        mark: i64,
    ) -> Pages<'a> {
        let id = id_of(table);
        Pages {
            path: target.path(database, id),
            bar: row_counter(id),
            target,
            schema: &table.schema,
            mark,
            after: 0,
            rows_max: FIRST_PAGE_ROWS,
            leaves_out_damaged: false,
            is_done: false,
        }
    }

    /// As [`Pages::new`], but for rows of which an encrypted value is damaged.
    fn without_damaged(
        target: &'a mut Target,
        database: &str,
        table: &'a StartTable,
        mark: i64,
    ) -> Pages<'a> {
        let mut pages = Pages::new(target, database, table, mark);
        pages.leaves_out_damaged = true;
        pages
    }

    /// Gives the rows that a page lacks to `name`, which may write to the terminal.
    fn name_damaged(&self, page: &RowPage, name: impl FnMut(&str)) {
        self.bar
            .suspend(|| page.damaged.iter().map(String::as_str).for_each(name));
    }

    /// The store that is read, to write to it between two pages; they show none of it.
    pub fn target(&mut self) -> &mut Target {
        self.target
    }

    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// When the store refuses, or the schema changed since the start.
    pub async fn next(&mut self) -> Result<Option<RowPage>> {
        if self.is_done {
            return Ok(None);
        }
        let ask = PortRequest::ExportPage {
            path: self.path.clone(),
            mark: self.mark,
            schema: self.schema.to_owned(),
            after: self.after,
            rows_max: self.rows_max,
            leaves_out_damaged: self.leaves_out_damaged,
        };
        let response = self.target.ask(&ask, &[]).await?;
        let end: PageEnd = target::head(&response)?;
        self.is_done = end.rows < u64::from(self.rows_max);
        self.after = end.last;
        self.bar.inc(end.rows);
        if end.rows == 0 {
            self.is_done = true;
            return Ok(None);
        }
        self.rows_max = next_rows_max(self.rows_max, end.rows, response.rows.len() as u64);
        Ok(Some(RowPage {
            rows: response.rows,
            count: end.rows - end.damaged.len() as u64,
            damaged: end.damaged,
        }))
    }
}

impl Drop for Pages<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// As many rows of the width just seen as make a page, and at most four times as many as before.
fn next_rows_max(rows_max: u32, rows: u64, bytes: u64) -> u32 {
    let width = (bytes / rows.max(1)).max(1);
    let fit = u32::try_from(PAGE_BYTES / width).unwrap_or(PAGE_ROWS_MAX);
    fit.clamp(1, PAGE_ROWS_MAX.min(rows_max.saturating_mul(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_the_width_of_rows() {
        assert_eq!(next_rows_max(100, 100, 100 * 300), 400);
        assert_eq!(next_rows_max(2_000, 2_000, 2_000 * 300), 2_000);
        assert_eq!(next_rows_max(2_000, 2_000, 2_000 * (64 << 10)), 64);
        assert_eq!(next_rows_max(100, 1, 20 << 20), 1);
        assert_eq!(next_rows_max(1, 1, 100), 4);
    }
}
