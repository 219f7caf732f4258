//! `tidemark export`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use model::counted;
use server::offline::offline_engine;
use transfer::export::{self, Exported};
use transfer::target::Target;

use super::{Outside, runtime};
use crate::admin::client::Administration;
use crate::config::{ExportSetup, FormatArg};

/// The exit code of an export that lacks damaged rows and is whole otherwise.
const LACKS_DAMAGED: u8 = 3;

/// # Errors
/// When the data directory cannot be reached, the database is not there, or nothing can be
/// written.
pub fn run(setup: ExportSetup, outside: Outside) -> Result<ExitCode> {
    let done = runtime()?.block_on(async {
        let Outside { clock, rng, .. } = outside;
        let config = offline_engine(setup.directory.clone());
        let store = Administration::open(config, clock, rng, false).await?;
        let mut target = Target::new(store.into(), setup.project.to_string());
        let done = write(&mut target, &setup).await;
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

async fn write(target: &mut Target, setup: &ExportSetup) -> Result<Exported> {
    let Some(path) = &setup.output else {
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal; name a file with --output, or a pipe");
        }
        return write_to(target, setup, &mut BufWriter::new(io::stdout().lock())).await;
    };
    let unfinished = unfinished(path)?;
    let done = match create(&unfinished) {
        Ok(file) => write_file(target, setup, file).await,
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

async fn write_file(target: &mut Target, setup: &ExportSetup, file: File) -> Result<Exported> {
    let mut out = BufWriter::new(file);
    let done = write_to(target, setup, &mut out).await?;
    let file = out.into_inner().context("cannot write the export")?;
    file.sync_all().context("cannot sync the export")?;
    Ok(done)
}

async fn write_to(
    target: &mut Target,
    setup: &ExportSetup,
    out: &mut impl Write,
) -> Result<Exported> {
    let database = &setup.database;
    let left_out = |table: &str, row: &str| {
        eprintln!("Left out row {row} of {database}/{table}: an encrypted value of it is damaged.");
    };
    match (setup.format, &setup.table) {
        (FormatArg::Csv, Some(table)) => {
            export::as_csv(target, database, table, out, left_out).await
        }
        (_, table) => export::as_lines(target, database, table.as_deref(), out, left_out).await,
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
