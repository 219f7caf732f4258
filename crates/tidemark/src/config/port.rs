//! The options of `tidemark export` and `tidemark import`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use client::{Access, Endpoint};
use engine::DatabaseUrl;
use model::ProjectId;

use super::{
    DirectoryArgs, NamedStoreArgs, PROJECT_DEFAULT, ProjectArgs, StoreArgs, StoreSite, access,
    checked_project, given,
};

/// The shape of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// One line of JSON for each table and row: a whole database, or one table
    Jsonl,
    /// RFC 4180: the rows of one table
    Csv,
}

impl FormatArg {
    /// What was asked for, else what the file's name says, else JSON lines.
    fn of(chosen: Option<FormatArg>, file: Option<&Path>) -> FormatArg {
        let extension = file.and_then(Path::extension).and_then(|end| end.to_str());
        chosen.unwrap_or(match extension {
            Some(end) if end.eq_ignore_ascii_case("csv") => FormatArg::Csv,
            _ => FormatArg::Jsonl,
        })
    }
}

/// The options of `tidemark export`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark export shop --output shop.jsonl
  tidemark export shop --table products --output products.csv
  tidemark export shop | gzip > shop.jsonl.gz
  tidemark export --history --output all.history.jsonl")]
pub struct ExportArgs {
    /// The database's id
    #[arg(required_unless_present = "history")]
    database: Option<String>,
    /// Export everything that the store knew at any time: all projects and databases with all
    /// versions, schemas, grants and records of commits
    #[arg(long, conflicts_with_all = ["database", "table", "format"])]
    history: bool,
    /// Export only this table
    #[arg(long, value_name = "ID")]
    table: Option<String>,
    /// Format of the file [default: csv if its name ends in .csv, else jsonl]
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// Output file; - is standard output. The file appears when it is complete
    #[arg(long, short, value_name = "PATH", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What to export, and where to.
pub struct ExportSetup {
    /// Where the store is.
    pub site: StoreSite,
    /// What of it; `None` is all of it, with its history.
    pub rows: Option<ExportedRows>,
    /// The file; `None` is standard output.
    pub output: Option<PathBuf>,
}

/// Which rows are exported, as they are now.
pub struct ExportedRows {
    /// The project.
    pub project: ProjectId,
    /// The database's id.
    pub database: String,
    /// The one table, if it is one.
    pub table: Option<String>,
    /// The shape of the file.
    pub format: FormatArg,
}

impl ExportArgs {
    /// # Errors
    /// When the parts contradict each other.
    pub fn check(self) -> Result<ExportSetup> {
        let output = file(self.output);
        let format = FormatArg::of(self.format, output.as_deref());
        if format == FormatArg::Csv && self.table.is_none() && !self.history {
            bail!("CSV holds the rows of one table; name it with --table");
        }
        let (project, table) = (self.project, self.table);
        let rows = self.database.map(|database| {
            anyhow::Ok(ExportedRows {
                project: project.check()?,
                database,
                table,
                format,
            })
        });
        Ok(ExportSetup {
            site: self.store.check()?,
            rows: rows.transpose()?,
            output,
        })
    }
}

fn file(path: PathBuf) -> Option<PathBuf> {
    (path.as_os_str() != "-").then_some(path)
}

/// The options of `tidemark import`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark import shop.jsonl
  tidemark import shop.jsonl --database shop-copy
  tidemark import products.csv --database shop --table products
  tidemark import --history all.history.jsonl --data /srv/new
  tidemark import --from-appwrite http://appwrite.example/v1 --project 6512… --key …")]
pub struct ImportArgs {
    /// The file; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "from_appwrite")]
    #[arg(conflicts_with = "from_appwrite")]
    file: Option<PathBuf>,
    /// Copy from this server, over the wire
    #[arg(long, value_name = "ENDPOINT", value_parser = str::parse::<Endpoint>)]
    from_appwrite: Option<Endpoint>,
    /// The project of the server to copy from; for a file, the same as --into
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// An API key of that project that may read databases, tables and rows
    #[arg(
        long,
        env = "APPWRITE_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    key: Option<String>,
    /// For a file: the database to import into, instead of the one named in the file. For a server:
    /// the databases to copy [default: all]
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    database: Vec<String>,
    /// The table that CSV rows go into; it must exist
    #[arg(long, value_name = "ID")]
    table: Option<String>,
    /// Format of the file [default: csv if its name ends in .csv, else jsonl]
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// The file is a history (`tidemark export --history`): import it as a new store, into a data
    /// directory that holds none. The store appears when the whole file has been checked
    #[arg(long, conflicts_with_all = [
        "from_appwrite", "project", "table", "format", "resume", "state",
    ])]
    history: bool,
    /// Continue an interrupted import: existing rows are compared, not written again. A copy from a
    /// server always continues
    #[arg(long)]
    resume: bool,
    /// File for the progress of a copy [default: import.state in the data directory]
    #[arg(long, value_name = "PATH")]
    state: Option<PathBuf>,
    /// The target project, which must exist
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID", default_value = PROJECT_DEFAULT)]
    into: String,
    #[command(flatten)]
    data: DirectoryArgs,
    #[command(flatten)]
    store: NamedStoreArgs,
}

/// What to import, and where to.
pub struct ImportSetup {
    /// Where the store is.
    pub site: StoreSite,
    /// The project here.
    pub into: ProjectId,
    /// What is read.
    pub source: Source,
}

/// What is read.
pub enum Source {
    /// A file.
    File {
        /// Its path; `None` is standard input.
        path: Option<PathBuf>,
        /// Its shape.
        format: FormatArg,
        /// The database to import into.
        database: Option<String>,
        /// The table that CSV rows go into.
        table: Option<String>,
        /// Whether an import that was broken off goes on.
        resume: bool,
    },
    /// A history, which becomes the store.
    History {
        /// Its path; `None` is standard input.
        path: Option<PathBuf>,
    },
    /// Another server.
    Server {
        /// How to reach it.
        access: Access,
        /// Which databases; none means all.
        databases: Vec<String>,
        /// Where the state is kept.
        state: PathBuf,
        /// Names source and target in the state.
        name: String,
    },
}

impl ImportArgs {
    /// # Errors
    /// When a part is missing, or the parts contradict each other.
    pub fn check(self) -> Result<ImportSetup> {
        // An import that names a project means the one here, as for `export`.
        let here = self
            .project
            .as_ref()
            .filter(|_| self.from_appwrite.is_none());
        let into = given(here.or(Some(&self.into))).unwrap_or(PROJECT_DEFAULT);
        let into = checked_project(into)?;
        if self.history && !self.database.is_empty() {
            bail!(
                "--database and --history do not go together: a history is a whole store, with all \
                 of its databases, and is imported into a data directory that holds none. Import \
                 it without --database; then `tidemark move` takes the store from there to the \
                 database that `--to` names"
            );
        }
        if self.database.iter().any(|id| DatabaseUrl::is_meant_by(id)) {
            bail!(
                "--database is the id of a database here. Name the one that has the store with \
                 --store, or with TIDEMARK_DATABASE"
            );
        }
        let site = self.store.check(&self.data)?;
        let source = match self.from_appwrite {
            Some(endpoint) => {
                if self.table.is_some() || self.format.is_some() {
                    bail!("--table and --format are about files, not about --from-appwrite");
                }
                let project = given(self.project.as_ref()).ok_or_else(|| {
                    anyhow!("name the project of the server to copy from with --project")
                })?;
                let key = given(self.key.as_ref()).ok_or_else(|| {
                    anyhow!(
                        "no API key of the server to copy from is given. Set APPWRITE_API_KEY, or \
                         use --key"
                    )
                })?;
                Source::Server {
                    name: format!("{endpoint} {project} into {into}"),
                    access: access(endpoint, project, key)?,
                    databases: self.database,
                    state: self
                        .state
                        .unwrap_or_else(|| site.directory.join("import.state")),
                }
            }
            None if self.history => Source::History {
                path: self.file.and_then(file),
            },
            None => of_file(
                self.file,
                self.format,
                self.database,
                self.table,
                self.resume,
            )?,
        };
        Ok(ImportSetup { site, into, source })
    }
}

fn of_file(
    path: Option<PathBuf>,
    format: Option<FormatArg>,
    databases: Vec<String>,
    table: Option<String>,
    resume: bool,
) -> Result<Source> {
    let path = path.and_then(file);
    let format = FormatArg::of(format, path.as_deref());
    let [database] = match databases.len() {
        0 => [None],
        1 => [databases.into_iter().next()],
        _ => bail!("a file goes into one database, not into several"),
    };
    match (format, &database, &table) {
        (FormatArg::Csv, Some(_), Some(_)) | (FormatArg::Jsonl, _, None) => Ok(Source::File {
            path,
            format,
            database,
            table,
            resume,
        }),
        (FormatArg::Csv, ..) => Err(anyhow!(
            "CSV rows go into a table that exists; name it with --database and --table"
        )),
        (FormatArg::Jsonl, ..) => Err(anyhow!(
            "--table is for CSV; an export of one table names it itself"
        )),
    }
}
