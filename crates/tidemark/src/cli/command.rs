//! The whole command line: which commands there are, and their arguments with the settings of the
//! configuration file below them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    bench, explain, function, key, maintain, moving, options, past, project, schema, seed, top,
};
use crate::config::{
    self, DirectoryArgs, DoctorArgs, ExportArgs, ImportArgs, PASSWORD_FILE, STORE_URL, ServeArgs,
    file,
};

/// A backend database with exact cached lists and the history of every row, for the official
/// Appwrite SDKs.
#[derive(Parser)]
#[command(
    name = "tidemark",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "A first session:
  tidemark serve                       serves ./tidemark-data at http://127.0.0.1:8280/v1
                                       and prints a project id and an API key, once
  tidemark key create --name ci        one more key, while the server runs or not
  tidemark seed catalog --rows 10000   example data to try queries on
  tidemark <command> --help            what a command does, with an example

APPWRITE_ENDPOINT, APPWRITE_PROJECT_ID and APPWRITE_API_KEY are read where the variables of the
same names with TIDEMARK_ are not set.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Serve a data directory until stopped
    ///
    /// The first start creates project `default` and an API key with every scope, and prints
    /// endpoint, project id and key, once: only a hash of the key is kept. Later starts print
    /// endpoint and projects. If TIDEMARK_PROJECT_ID and TIDEMARK_API_KEY are set, the server
    /// creates that project and key instead, on every start, if they do not exist.
    ///
    /// SIGINT or SIGTERM stops the server in order: running requests are finished. A second signal
    /// stops it at once. Acknowledged writes are kept in both cases.
    Serve(Box<ServeArgs>),
    /// Create, list and delete projects
    ///
    /// Talks to the server that runs on the data directory, or opens the store itself if none does:
    /// the one in the directory, or in the database that --database names.
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Create, list and revoke API keys
    ///
    /// Talks to the server that runs on the data directory, or opens the store itself if none does:
    /// the one in the directory, or in the database that --database names.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Write a database to a file: schema, rows, permissions
    ///
    /// Every row is read at one mark, whatever is written meanwhile. Talks to the server that runs
    /// on the data directory, or opens the store itself if none does. The exit code is 3 where
    /// rows were left out because an encrypted value of theirs is damaged: each is named.
    Export(Box<ExportArgs>),
    /// Read a database from a file, or copy databases from another server
    ///
    /// Talks to the server that runs on the data directory, or opens the store itself if none does.
    /// Ids, times and permissions of rows are kept. An imported database is closed to callers
    /// without a key until it is complete.
    Import(Box<ImportArgs>),
    /// Move a store from a data directory into a PostgreSQL database, or back
    ///
    /// All of it is moved: rows with their whole history and marks, schemas, grants, what is
    /// scheduled, open transactions, kept idempotency keys, functions and their executions. No
    /// server may run meanwhile. Each table is read again and compared, by the number and the hash
    /// of its rows. The source is sealed last: it then names the place of the store, and no server
    /// serves it any more. Until then it can be served as before: if a move is cut off, run the
    /// same command again.
    Move(moving::MoveArgs),
    /// Clear the bytes of erased rows away from the files of a PostgreSQL database
    ///
    /// No answer shows an erased row, but the files of its tables may hold its bytes until they are
    /// rewritten (VACUUM FULL). A server may run meanwhile; each table is locked until it is
    /// rewritten, and needs room for a second copy. Says so where nothing is to be done: a store in
    /// a data directory does it by itself. The exit code is 1 where a table could not be rewritten.
    Maintain(maintain::MaintainArgs),
    /// Keep the schema of databases in a file: pull, diff, push, types
    ///
    /// The file is JSON with one line for each column and index, to be kept in version control. It
    /// works on every server that has the TablesDB routes.
    #[command(
        subcommand,
        after_help = "Example:
  tidemark schema pull                  write tidemark-schema.json, then edit it
  tidemark schema diff                  see what would change
  tidemark schema push                  change the server
  tidemark schema types go > rows.go    types for a program"
    )]
    Schema(schema::SchemaCommand),
    /// Write, deploy, run and watch functions: code that runs on the server that has the data
    ///
    /// Works over the wire: with --endpoint, --project and --key or their variables, or on the
    /// server that runs on --data.
    #[command(
        subcommand,
        after_help = "Example:
  tidemark function init hello && cd hello        a handler and function.toml
  tidemark function dev                           serve it here, and take up each save
  tidemark function deploy                        send it and wait until it is built
  tidemark function run --body '{\"n\":1}'        run it once
  tidemark function logs --follow                 what was run, as it ends"
    )]
    Function(function::FunctionCommand),
    /// Show or set the options of a table: its history, who sees it, the age of its lists
    ///
    /// Without an option of the table it prints them all. Those that are not given stay.
    Options(options::OptionsArgs),
    /// Show how the rows of a list are found, and which index would help
    ///
    /// Prints the index that is used, the plan of the database, and the columns of an index that
    /// would lead to these rows. No row is read. Shows what happens for an API key; without one,
    /// the grants of each row are looked at, too.
    Explain(explain::ExplainArgs),
    /// Show every version of a row: when it was valid, and when that was known
    ///
    /// Talks to the server that runs on the data directory, or opens the store itself if none does.
    /// Changes nothing.
    History(past::HistoryArgs),
    /// Erase a row with its past: every version, at every time
    ///
    /// No answer shows the row any more, and its bytes leave the data directory as soon as no read
    /// that began before is left; those of a PostgreSQL database, with `tidemark maintain`. Exports
    /// and copies made before keep it. Rows that belong to it
    /// by a relationship are deleted as the relationship says. Prints the number of versions and
    /// asks first; without a terminal nothing is erased unless --yes is given. The exit code is 1
    /// if nothing was erased. Talks to the server that runs on the data directory, or opens the
    /// store itself if none does.
    Erase(past::EraseArgs),
    /// Show the activity of a running server: rates, times, hits, the busiest functions, the most
    /// frequent and slowest queries
    ///
    /// Asks the server that runs on the data directory in regular intervals, and shows what
    /// happened in between. Changes nothing.
    Top(top::TopArgs),
    /// Check the data directory, the settings and the machine, and print what to do
    ///
    /// Changes nothing, and works while a server runs. The exit code is 1 if something is bad.
    Doctor(DoctorArgs),
    /// Print the licence of Tidemark and of the libraries in it
    Licenses,
    /// Fill a table with example data
    #[command(subcommand)]
    Seed(seed::SeedCommand),
    /// Measure a server
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

/// The command line with the variables that are set.
fn definition() -> clap::Command {
    config::with_aliases(Cli::command())
}

/// Reads the command line, the environment and the configuration file. Ends the process with 2
/// where the command line cannot be understood, and with 0 after --help and --version.
///
/// # Errors
/// When the configuration file cannot be understood.
pub fn read() -> Result<Cli> {
    let matches = definition().get_matches();
    let cli = Cli::from_arg_matches(&matches)?;
    let Command::Serve(args) = &cli.command else {
        let Some(path) = unplaced(&matches).and_then(|data| file::path(None, data)) else {
            return Ok(cli);
        };
        let settings = file::Settings::read(&definition(), &path, true)?;
        let placed = settings.place(definition());
        let matches = placed.try_get_matches_from(config::words())?;
        return Ok(Cli::from_arg_matches(&matches)?);
    };
    let (config, data) = (args.config.as_deref(), &args.data.data);
    let (matches, _) = file::with_file(definition(), config::words(), config, data)?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// The data directory of a command that opens a store, where its file may say what nothing else
/// says: which database has the store, or where the password of that is.
fn unplaced(matches: &ArgMatches) -> Option<&Path> {
    let mut leaf = matches;
    while let Some((_, next)) = leaf.subcommand() {
        leaf = next;
    }
    let url = leaf.try_get_one::<String>(STORE_URL).ok()?;
    let password_file = leaf.try_get_one::<PathBuf>(PASSWORD_FILE).ok()?;
    let data = leaf.try_get_one::<PathBuf>("data").ok()??;
    (url.is_none() || password_file.is_none()).then_some(data)
}

/// What `tidemark serve` would be given now, on this directory and with this file: each setting,
/// and all of them checked.
///
/// # Errors
/// When the file or the environment cannot be understood.
pub fn serve_settings(
    directory: &DirectoryArgs,
    config: Option<&Path>,
) -> Result<(file::Settings, Vec<file::InForce>, Box<ServeArgs>)> {
    let mut words: Vec<OsString> = vec!["tidemark".into(), "serve".into(), "--data".into()];
    words.push(directory.data.clone().into());
    let (matches, settings) = file::with_file(definition(), words, config, &directory.data)?;
    let serve = matches.subcommand_matches("serve");
    let in_force = settings.in_force(&Cli::command(), serve.expect("the words say serve"));
    match Cli::from_arg_matches(&matches)?.command {
        Command::Serve(args) => Ok((settings, in_force, args)),
        _ => unreachable!("the words say serve"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_on_the_page_are_those_of_the_help() {
        let page = include_str!("../../../../docs/reference/cli.md");
        let row = |command: &clap::Command| {
            let about = command.get_about().map(ToString::to_string);
            format!(
                "| `tidemark {}` | {} |",
                command.get_name(),
                about.unwrap_or_default()
            )
        };
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let wanted: Vec<String> = shown.map(row).collect();
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `tidemark "))
            .collect();
        testing::assert_rows("docs/reference/cli.md", &rows, &wanted);
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
