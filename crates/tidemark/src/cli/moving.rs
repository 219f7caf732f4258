//! `tidemark move`: a store from a data directory into a database, or back.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use engine::{
    DatabaseUrl, MoveStep, Moved, StoreError, StorePlace, move_to_database, move_to_directory,
};
use indicatif::{ProgressBar, ProgressStyle};
use model::counted;

use super::say;
use super::serve::{mark_real_data, shell_word};
use crate::config::{database_url, file_given};
use crate::doctor::holder;

/// The options of `tidemark move`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark move --from /srv/tidemark --to \"$DATABASE_URL\"
  tidemark move --from \"$DATABASE_URL\" --to /srv/tidemark-2 --password-file ~/.pgpass

After the first one, serve the store with the same directory, which has the keys:
  TIDEMARK_DATABASE=\"$DATABASE_URL\" tidemark serve --data /srv/tidemark")]
pub struct MoveArgs {
    /// Where the store is: a data directory, or the URL of a PostgreSQL database
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Where it is to be, the other one of both: a directory that holds no store, or a schema that
    /// is not there or empty
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// A file with the password of the database, in the form of libpq's password files; it hides
    /// the password from other users of the machine
    #[arg(long, env = "TIDEMARK_PASSWORD_FILE", value_name = "PATH")]
    password_file: Option<PathBuf>,
}

/// Which way.
#[derive(Debug)]
enum MoveWay {
    IntoDatabase(PathBuf, DatabaseUrl),
    IntoDirectory(DatabaseUrl, PathBuf),
}

impl MoveArgs {
    fn way(&self) -> Result<MoveWay> {
        let (from, to) = (self.from.as_str(), self.to.as_str());
        if from.is_empty() || to.is_empty() {
            bail!("--from and --to each name a data directory or the URL of a database");
        }
        match (DatabaseUrl::is_meant_by(from), DatabaseUrl::is_meant_by(to)) {
            (false, true) => Ok(MoveWay::IntoDatabase(from.into(), database_url(to)?)),
            (true, false) => Ok(MoveWay::IntoDirectory(database_url(from)?, to.into())),
            (false, false) => Err(anyhow!(
                "a move is between a data directory and a database, and both of these are \
                 directories. To move a data directory, stop its server and move the directory"
            )),
            (true, true) => Err(anyhow!(
                "a move is between a data directory and a database, and both of these are \
                 databases. Use pg_dump and pg_restore, then `tidemark doctor --accept-restore`"
            )),
        }
    }
}

/// # Errors
/// When a place is in use, cannot be read or written, or is not what it must be; the text says
/// which one has the store.
pub fn run(args: &MoveArgs) -> Result<()> {
    let way = args.way()?;
    if let MoveWay::IntoDatabase(directory, _) = &way
        && !directory.is_dir()
    {
        bail!("there is no data directory {}", directory.display());
    }
    let password_file = file_given(args.password_file.as_deref());
    let bar = bar();
    let mut tell = |step| show(&bar, step);
    let moved = match &way {
        MoveWay::IntoDatabase(directory, url) => {
            move_to_database(directory, (url, password_file), &mut tell)
        }
        MoveWay::IntoDirectory(url, directory) => {
            move_to_directory((url, password_file), directory, &mut tell)
        }
    };
    bar.finish_and_clear();
    let moved = moved.map_err(explain)?;
    match &way {
        MoveWay::IntoDatabase(directory, url) => say(&in_database(directory, url, &moved)),
        MoveWay::IntoDirectory(url, directory) => {
            // No store in a database was ever served by the clock of a test.
            mark_real_data(directory)?;
            if let Some(error) = &moved.variables_key {
                eprintln!("warning: {error}");
            }
            say(&in_directory(directory, url, &moved))
        }
    }
}

/// Silent where there is no terminal.
pub(super) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} rows, {eta} left")
        .expect("the template is constant");
    ProgressBar::new(0).with_style(style)
}

/// Shows how far a copy is.
pub(super) fn show(bar: &ProgressBar, step: MoveStep) {
    let at = |message: &'static str, (rows, of): (u64, u64)| {
        bar.set_message(message);
        bar.set_length(of);
        bar.set_position(rows);
    };
    match step {
        MoveStep::Copied { rows, of } => at("copied  ", (rows, of)),
        MoveStep::Compared { rows, of } => at("compared", (rows, of)),
        MoveStep::Whole => bar.set_message("sealing "),
        MoveStep::Sealed => bar.set_message("sealed  "),
    }
}

fn explain(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Locked {
            place: StorePlace::Directory(directory),
            ..
        } => {
            let who = holder::of_lock(&directory);
            let who = who.map_or("another process".to_owned(), |who| who.to_string());
            anyhow!(
                "the data directory {} is in use by {who}. Stop it first; nothing was moved",
                directory.display()
            )
        }
        error => error.into(),
    }
}

fn done(moved: &Moved) -> String {
    moved.rows.map_or_else(
        || "An earlier run had moved all but for the last step, which is done now.\n".to_owned(),
        |rows| format!("Moved {}, and compared each.\n", counted(rows, "row")),
    )
}

fn in_database(directory: &Path, url: &DatabaseUrl, moved: &Moved) -> String {
    let shown = directory.display();
    let word = shell_word(&shown.to_string());
    format!(
        "{}The store is in the {url}.\n\
         The data directory {shown} is sealed, and keeps the keys. Its old database, \
         tidemark.db, is not opened any more.\n\nNext:\n  \
         tidemark serve --data {word} --database <the same URL>\n",
        done(moved)
    )
}

fn in_directory(directory: &Path, url: &DatabaseUrl, moved: &Moved) -> String {
    let shown = directory.display();
    let word = shell_word(&shown.to_string());
    format!(
        "{}The store is in the data directory {shown}, and the one in the {url} is sealed.\n\
         DROP SCHEMA removes it there.\n\nNext:\n  tidemark serve --data {word}\n",
        done(moved)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(from: &str, to: &str) -> Result<MoveWay> {
        let args = MoveArgs {
            from: from.to_owned(),
            to: to.to_owned(),
            password_file: None,
        };
        args.way()
    }

    #[test]
    fn a_move_has_a_directory_at_one_end_and_a_database_at_the_other() {
        let url = format!("{}u:secret@db.example/app", DatabaseUrl::SCHEME);
        let there = way("/srv/tidemark", &url).unwrap();
        assert!(matches!(there, MoveWay::IntoDatabase(..)), "{there:?}");
        let back = way(&url, "data").unwrap();
        assert!(matches!(back, MoveWay::IntoDirectory(..)), "{back:?}");
        for (from, to, part) in [
            ("a", "b", "both of these are directories"),
            (&*url, &*url, "pg_dump"),
            ("", &*url, "--from and --to"),
            (&*format!("{url}?nothing=1"), "b", "cannot be used"),
        ] {
            let error = way(from, to).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
        let text = in_database(
            Path::new("/srv/my data"),
            &DatabaseUrl::parse(&url).unwrap(),
            &Moved {
                rows: Some(3),
                variables_key: None,
            },
        );
        assert!(
            text.contains("Moved 3 rows") && text.contains("--data '/srv/my data'"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}
