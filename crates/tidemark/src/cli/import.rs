//! `tidemark import`: from a file, or from another server.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use model::counted;
use server::http::state::generated_ids::unique_id;
use server::offline::offline_engine;
use transfer::copy::{self, Copied};
use transfer::history;
use transfer::import::{self, How, Imported};
use transfer::port_request::RowsPut;
use transfer::remote::Remote;
use transfer::state::State;
use transfer::target::Target;

use super::{Outside, runtime, say, table};
use crate::admin::client::Administration;
use crate::config::{FormatArg, ImportSetup, Source, StoreSite};

/// Bytes of a file read at once.
const READ_BYTES: usize = 1 << 20;

/// # Errors
/// With the line at fault, what was done before it, and how to go on.
pub fn run(setup: ImportSetup, outside: Outside) -> Result<ExitCode> {
    if let Source::History { path } = setup.source {
        return read_history(&setup.site, path);
    }
    runtime()?.block_on(async {
        let Outside { clock, rng, .. } = outside.clone();
        let store = Administration::open(&setup.site, clock, rng, false).await?;
        let mut target = Target::new(store.into(), setup.into.to_string());
        let directory = &setup.site.directory;
        let done = read(&mut target, setup.source, directory, &outside).await;
        target.close()?;
        done
    })
}

async fn read(
    target: &mut Target,
    source: Source,
    directory: &Path,
    outside: &Outside,
) -> Result<ExitCode> {
    match source {
        Source::File {
            path,
            format,
            database,
            table,
            resume,
        } => {
            let (from, bar) = open(path)?;
            let how = How {
                database,
                resume,
                bar: bar.clone(),
                directory: directory.to_owned(),
            };
            let done = if let (FormatArg::Csv, Some(table)) = (format, table) {
                let draw = || unique_id(outside.clock.now(), outside.rng);
                import::from_csv(target, from, &table, how, draw).await
            } else {
                let mut from = BufReader::with_capacity(READ_BYTES, from);
                import::from_lines(target, &mut from, how).await
            };
            bar.finish_and_clear();
            say(&imported(&done?))?;
            Ok(ExitCode::SUCCESS)
        }
        Source::History { .. } => unreachable!("read before a store is opened"),
        Source::Server {
            access,
            databases,
            state,
            name,
        } => {
            let mut state = State::open(&state, &name)?;
            if state.is_resumed() {
                eprintln!("Going on with a copy that was broken off.");
            }
            let mut source = Remote::connect(access).await?;
            let copied = copy::run(&mut source, target, &databases, &mut state)
                .await
                .context("the copy broke off; run the same command again to go on with it")?;
            // Also when it differs: the next run reads the source from the start.
            state.forget()?;
            say(&summary(&copied))?;
            Ok(if copied.is_equal() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}

/// A history becomes a store in a data directory, which can then be moved.
fn read_history(site: &StoreSite, path: Option<PathBuf>) -> Result<ExitCode> {
    let directory = site.directory.as_path();
    if let Some(database) = &site.database {
        bail!(
            "a history is imported into a data directory, and {} is that of a store in the {}. \
             Import it into another one, and `tidemark move` takes it from there into a schema \
             that holds no store, with all of its history",
            directory.display(),
            database.url
        );
    }
    let (from, bar) = open(path)?;
    let mut from = BufReader::with_capacity(READ_BYTES, from);
    let made = offline_engine(directory.into()).begin_history()?;
    let read = history::import(made, &mut from, &bar);
    bar.finish_and_clear();
    let done = read.context("nothing was imported")?;
    say(&format!(
        "Imported {} in {} and {}, up to mark {}.\n",
        counted(done.versions, "version"),
        counted(done.tables, "table"),
        counted(done.commits, "commit"),
        done.mark.0
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The file, and a bar that counts its bytes; silent where there is no terminal.
fn open(path: Option<PathBuf>) -> Result<(Box<dyn Read>, ProgressBar)> {
    let style =
        |template| ProgressStyle::with_template(template).expect("the template is constant");
    let Some(path) = path else {
        let bar = ProgressBar::new_spinner();
        let bar = bar.with_style(style("{spinner} {bytes}, {bytes_per_sec}"));
        return Ok((Box::new(io::stdin().lock()), bar));
    };
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(&path).with_context(cannot)?;
    let known = file.metadata().with_context(cannot)?;
    if known.is_dir() {
        bail!("{} is a directory, not an export", path.display());
    }
    let length = known.len();
    let bar = ProgressBar::new(length).with_style(style(
        "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left",
    ));
    Ok((Box::new(file), bar))
}

fn left_out(parts: &[String]) -> String {
    let lines = parts.iter().map(|part| format!("Not copied: {part}\n"));
    lines.collect()
}

fn imported(done: &Imported) -> String {
    let (rows, left_out) = (done.rows, left_out(&done.left_out));
    let known = match rows.changed + rows.same {
        0 => String::new(),
        known => format!(
            "{} {} there already{}.\n",
            counted(known, "row"),
            if known == 1 { "was" } else { "were" },
            match rows.changed {
                0 => String::new(),
                changed => format!("; {changed} had other content, which was replaced"),
            }
        ),
    };
    format!(
        "Imported {} into {} of database {}.\n{known}{left_out}",
        counted(rows.created, "row"),
        counted(done.tables, "table"),
        done.database
    )
}

fn summary(copied: &Copied) -> String {
    let rows: Vec<Vec<String>> = copied
        .compared
        .iter()
        .map(|one| {
            vec![
                format!("{}/{}", one.database, one.what),
                one.source.rows.to_string(),
                one.target.rows.to_string(),
                one.source.shown(),
                one.target.shown(),
                if one.source == one.target {
                    "equal"
                } else {
                    "DIFFERENT"
                }
                .to_owned(),
            ]
        })
        .collect();
    let head = [
        "TABLE",
        "ROWS THERE",
        "ROWS HERE",
        "SUM THERE",
        "SUM HERE",
        "",
    ];
    let table = table::render(&head, &rows);
    let left_out = left_out(&copied.left_out);
    let differ = if copied.is_equal() {
        ""
    } else {
        "The two sides differ. If the source was written to meanwhile, run the command again. Rows \
         that are only here are never deleted.\n"
    };
    let RowsPut {
        created,
        changed,
        same,
    } = copied.rows;
    let refused = match copied.links_refused {
        0 => String::new(),
        refused => format!(
            "{} with links to rows that are not here: the source has changed meanwhile.\n",
            counted(refused, "row")
        ),
    };
    let taken = match copied.links_taken {
        0 => String::new(),
        taken => format!(
            "{} without their links: rows that are only here have them, and only one can.\n",
            counted(taken, "row")
        ),
    };
    format!(
        "{table}Copied {}; here already: {same}, brought up to date: {changed}.\n\
         {refused}{taken}{left_out}{differ}",
        counted(created, "row")
    )
}
