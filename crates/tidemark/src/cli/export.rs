//! `tidemark export`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use engine::{inspect, inspect_copy};
use model::counted;
use transfer::export::{self, Exported};
use transfer::history;
use transfer::target::Target;

use super::{Outside, moving, runtime};
use crate::admin::client::Administration;
use crate::config::{ExportSetup, ExportedRows, FormatArg, NamedDatabase, StoreSite};

/// The exit code of an export that lacks damaged rows and is whole otherwise.
const LACKS_DAMAGED: u8 = 3;

/// # Errors
/// When the data directory cannot be reached, the database is not there, or nothing can be
/// written.
pub fn run(setup: ExportSetup, outside: Outside) -> Result<ExitCode> {
    let ExportSetup { site, rows, output } = setup;
    let Some(rows) = rows else {
        return write_history(&site, output.as_deref());
    };
    let done = runtime()?.block_on(async {
        let Outside { clock, rng, .. } = outside;
        let store = Administration::open(&site, clock, rng, false).await?;
        let mut target = Target::new(store.into(), rows.project.to_string());
        let written = async |out: &mut dyn Write| write_rows(&mut target, &rows, out).await;
        let done = write(output.as_deref(), written).await;
        target.close()?;
        done
    })?;
    eprintln!(
        "Exported {} of {}, as of mark {}.",
        counted(done.rows, "row"),
        counted(done.tables, "table"),
        done.mark
    );
    if done.damaged == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let rows = counted(done.damaged, "damaged row");
    eprintln!("The export lacks {rows}, named above.");
    Ok(ExitCode::from(LACKS_DAMAGED))
}

/// The store is read beside the server that may run on it: its file, or a copy of what a database
/// has.
fn write_history(site: &StoreSite, output: Option<&Path>) -> Result<ExitCode> {
    let directory = &site.directory;
    let (file, copy);
    let inspection = if let Some(NamedDatabase { url, password_file }) = &site.database {
        let bar = moving::bar();
        let mut tell = |step| moving::show(&bar, step);
        let copied = inspect_copy((url, password_file.as_deref()), directory, &mut tell);
        bar.finish_and_clear();
        copy = copied?;
        copy.inspection()
    } else {
        let found = inspect(&directory.as_path().into())?;
        file = found.with_context(|| format!("there is no database in {}", directory.display()))?;
        &file
    };
    let written = async |out: &mut dyn Write| history::export(inspection, out);
    let done = runtime()?.block_on(write(output, written))?;
    eprintln!(
        "Exported {} in {} and {}, up to mark {}.",
        counted(done.versions, "version"),
        counted(done.tables, "table"),
        counted(done.commits, "commit"),
        done.mark.0
    );
    Ok(ExitCode::SUCCESS)
}

/// Has something written to the file, which appears when it is whole, or to standard output.
async fn write<T>(
    output: Option<&Path>,
    written: impl AsyncFnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let Some(path) = output else {
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal; name a file with --output, or a pipe");
        }
        return written(&mut BufWriter::new(io::stdout().lock())).await;
    };
    let unfinished = unfinished(path)?;
    let done = match create(&unfinished) {
        Ok(file) => write_file(file, written).await,
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    let done = done.and_then(|done| {
        fs::rename(&unfinished, path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(done)
    });
    if done.is_err() {
        // What is not whole is no export. It may not have been made at all.
        drop(fs::remove_file(&unfinished));
    }
    done
}

async fn write_file<T>(
    file: File,
    written: impl AsyncFnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let mut out = BufWriter::new(file);
    let done = written(&mut out).await?;
    let file = out.into_inner().context("cannot write the export")?;
    file.sync_all().context("cannot sync the export")?;
    Ok(done)
}

async fn write_rows(
    target: &mut Target,
    rows: &ExportedRows,
    mut out: &mut dyn Write,
) -> Result<Exported> {
    let database = &rows.database;
    let left_out = |table: &str, row: &str| {
        eprintln!("Left out row {row} of {database}/{table}: an encrypted value of it is damaged.");
    };
    match (rows.format, &rows.table) {
        (FormatArg::Csv, Some(table)) => {
            export::as_csv(target, database, table, &mut out, left_out).await
        }
        (_, table) => {
            export::as_lines(target, database, table.as_deref(), &mut out, left_out).await
        }
    }
}

/// Where the file is made, beside its place: a rename there is one step.
fn unfinished(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().context("--output names no file")?;
    let mut name: OsString = name.to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    Ok(path.with_file_name(name))
}

/// For its owner only: an export holds what permissions keep from others.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}
