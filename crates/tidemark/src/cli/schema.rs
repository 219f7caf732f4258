//! `tidemark schema`: the schema of databases as a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use client::Access;
use model::counted;
use transfer::remote::Remote;
use transfer::schema_file::file::SchemaFile;
use transfer::schema_file::plan::{ColumnRename, SchemaStep, listed, plan, refuse_loss};
use transfer::schema_file::push::push;
use transfer::schema_file::read::schema;
use transfer::schema_file::types::{TargetLanguage, types};

use super::connection::with_access;
use super::whole_file::write_whole;
use super::{Outside, runtime, say};
use crate::config::ConnectionArgs;

/// Keep the schema of databases in a file.
#[derive(Subcommand)]
pub enum SchemaCommand {
    /// Write the schema of a server to the file
    ///
    /// One line for each column and index, so that changes can be reviewed. Indexes that could not
    /// be built are left out. Without --database it reads the databases that the file has already;
    /// all if there is no file.
    #[command(after_help = "Examples:
  tidemark schema pull                     the server that runs on ./tidemark-data
  tidemark schema pull --database shop --file shop.json")]
    Pull {
        /// Only this database; may be given several times
        #[arg(long = "database", value_name = "ID")]
        databases: Vec<String>,
        /// The file, and the server.
        #[command(flatten)]
        place: SchemaPlace,
    },
    /// Show what `push` would change
    ///
    /// One line for each change: `+` is added, `~` changed, `-` deleted, `!` says what would be
    /// lost.
    Diff {
        /// Exit with 1 if there is a difference
        #[arg(long)]
        exit_code: bool,
        /// Columns that got another key.
        #[command(flatten)]
        renames: Renames,
        /// The file, and the server.
        #[command(flatten)]
        place: SchemaPlace,
    },
    /// Change the server so that its schema is that of the file
    ///
    /// Databases that the file does not name are left alone. If rows, values, links or history
    /// would be lost, each loss is named and nothing is changed, unless --allow-data-loss is given.
    /// Each change is one commit; if one is refused, those before it stay, and the same command
    /// does the rest.
    #[command(after_help = "Examples:
  tidemark schema push --dry-run                      only prints the changes
  tidemark schema push --rename shop/orders/mail=email")]
    Push {
        /// Print the changes and make none
        #[arg(long)]
        dry_run: bool,
        /// Also delete tables, columns and history that the file does not have
        #[arg(long)]
        allow_data_loss: bool,
        /// Columns that got another key.
        #[command(flatten)]
        renames: Renames,
        /// The file, and the server.
        #[command(flatten)]
        place: SchemaPlace,
    },
    /// Print types of rows for a program, from the file
    ///
    /// TypeScript: interfaces for `node-appwrite`. Python and Go: models for the clients of
    /// Tidemark. No server is needed.
    #[command(after_help = "Example:
  tidemark schema types typescript > rows.ts")]
    Types {
        /// The language
        language: LanguageArg,
        /// The file
        #[arg(long, value_name = "PATH", default_value = FILE)]
        file: PathBuf,
    },
}

const FILE: &str = "tidemark-schema.json";

/// The file, and the server.
#[derive(Args)]
pub struct SchemaPlace {
    /// The file
    #[arg(long, value_name = "PATH", default_value = FILE)]
    file: PathBuf,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Columns that got another key.
#[derive(Args)]
pub struct Renames {
    /// A column that got another key and keeps its values; may be given several times
    #[arg(long = "rename", value_name = "DATABASE/TABLE/COLUMN=NEW")]
    renames: Vec<ColumnRename>,
}

/// What a program is written in.
#[derive(Clone, Copy, ValueEnum)]
pub enum LanguageArg {
    /// For `node-appwrite`.
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
    /// For the client for Python.
    Python,
    /// For the client for Go.
    Go,
}

/// # Errors
/// When the file cannot be read, the server refuses, or data would be lost.
pub fn run(command: SchemaCommand, outside: &Outside) -> Result<ExitCode> {
    match command {
        SchemaCommand::Pull { databases, place } => pull(&databases, &place, outside)?,
        SchemaCommand::Diff {
            exit_code,
            renames,
            place,
        } => {
            let (_, steps) = with_server(&place, outside, |access| {
                planned(access, &place.file, &renames.renames)
            })?;
            say(&listed(&steps))?;
            if exit_code && !steps.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
        SchemaCommand::Push {
            dry_run,
            allow_data_loss,
            renames,
            place,
        } => {
            with_server(&place, outside, |access| {
                let (wanted, steps) = planned(access, &place.file, &renames.renames)?;
                if steps.is_empty() {
                    return say("The server has the schema of the file already.\n");
                }
                if dry_run {
                    return say(&listed(&steps));
                }
                if !allow_data_loss {
                    refuse_loss(&steps)?;
                }
                bring(access, &wanted, &steps)
            })?;
        }
        SchemaCommand::Types { language, file } => {
            let language = match language {
                LanguageArg::TypeScript => TargetLanguage::TypeScript,
                LanguageArg::Python => TargetLanguage::Python,
                LanguageArg::Go => TargetLanguage::Go,
            };
            say(&types(&read(&file)?, language)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn with_server<T>(
    place: &SchemaPlace,
    outside: &Outside,
    work: impl FnOnce(&Access) -> Result<T>,
) -> Result<T> {
    let lender = ("tidemark schema", &*outside.clock);
    with_access(&place.connection, lender, work)
}

fn read(path: &Path) -> Result<SchemaFile> {
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read {}; `tidemark schema pull` writes it",
            path.display()
        )
    })?;
    SchemaFile::parse(&text).with_context(|| path.display().to_string())
}

fn pull(databases: &[String], place: &SchemaPlace, outside: &Outside) -> Result<()> {
    let SchemaPlace { file, .. } = place;
    let known = if databases.is_empty() && file.exists() {
        let ids = read(file)?.databases.into_iter();
        ids.map(|database| database.id).collect()
    } else {
        databases.to_vec()
    };
    let found = with_server(place, outside, |access| {
        runtime()?.block_on(async {
            let mut remote = Remote::connect(access.clone()).await?;
            let mut found = schema(&mut remote, &known, true).await?;
            for table in found.databases.iter_mut().flat_map(|one| &mut one.tables) {
                table.indexes.retain(|index| !index.is_failed);
            }
            Ok(found)
        })
    })?;
    write_whole(file, found.text().as_bytes(), 0o666)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let tables = found.databases.iter().map(|one| one.tables.len() as u64);
    say(&format!(
        "Wrote {} of {} to {}.\n",
        counted(tables.sum(), "table"),
        counted(found.databases.len() as u64, "database"),
        file.display()
    ))
}

fn planned(
    access: &Access,
    path: &Path,
    renames: &[ColumnRename],
) -> Result<(SchemaFile, Vec<SchemaStep>)> {
    let wanted = read(path)?;
    let server = runtime()?.block_on(of_server(access, &wanted))?;
    let steps = plan(&server, &wanted, renames)?;
    Ok((wanted, steps))
}

async fn of_server(access: &Access, wanted: &SchemaFile) -> Result<SchemaFile> {
    let mut remote = Remote::connect(access.clone()).await?;
    if !remote.has_tables() {
        bail!("the server has no routes of tables (/tablesdb); Appwrite has them from 1.8 on");
    }
    let ids: Vec<String> = wanted.databases.iter().map(|one| one.id.clone()).collect();
    if ids.is_empty() {
        bail!("the file names no database");
    }
    schema(&mut remote, &ids, false).await
}

fn bring(access: &Access, wanted: &SchemaFile, steps: &[SchemaStep]) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(push(access, steps, |step| eprintln!("{step}")))?;
    let left = plan(&runtime.block_on(of_server(access, wanted))?, wanted, &[])?;
    ensure!(
        left.is_empty(),
        "the server took every change and differs from the file still: {}",
        listed(&left).trim_end().replace('\n', "; ")
    );
    say(&format!(
        "Made {}.\n",
        counted(steps.len() as u64, "change")
    ))
}
