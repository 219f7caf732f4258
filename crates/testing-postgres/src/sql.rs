//! Statements that psql runs.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::programs::Programs;

/// Runs statements in the database that a URL names, of any server. What they return comes without
/// headings, a line for each row.
///
/// # Errors
/// When psql is not installed, and what the server says of the first one that fails.
pub fn run_sql(url: &str, statements: &[&str]) -> Result<String> {
    let (url, password) = without_password(url);
    psql(&Programs::find()?, (&url, password.as_deref()), statements)
}

/// The same by these programs.
pub(crate) fn psql(
    programs: &Programs,
    (url, password): (&str, Option<&str>),
    statements: &[&str],
) -> Result<String> {
    let mut psql = Command::new(programs.path("psql"));
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
    psql.args(["--set", "ON_ERROR_STOP=1", "--dbname", url]);
    // Anyone on the machine may read the command line.
    psql.envs(password.map(|password| ("PGPASSWORD", password)));
    for statement in statements {
        psql.args(["--command", statement]);
    }
    let output = psql
        .stdin(Stdio::null())
        .output()
        .context("psql does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The URL without its password, and that.
fn without_password(url: &str) -> (String, Option<String>) {
    let parts = || {
        let (scheme, rest) = url.split_once("://")?;
        let (who, rest) = rest.split_once('@')?;
        let (user, password) = who.split_once(':')?;
        let url = format!("{scheme}://{user}@{rest}");
        Some((url, Some(decoded(password)?)))
    };
    parts().unwrap_or_else(|| (url.to_owned(), None))
}

/// A part of a URL in its own letters; `None` where it is none.
fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut out = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        out.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        out.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_taken_out_of_a_url() {
        let cases = [
            (
                "postgres://u:a%40b%3A@h/d?x=1",
                "postgres://u@h/d?x=1",
                Some("a@b:"),
            ),
            ("postgres://u@h/d", "postgres://u@h/d", None),
            ("postgres://h:5432/d", "postgres://h:5432/d", None),
        ];
        for (url, wanted, password) in cases {
            let found = without_password(url);
            assert_eq!(found, (wanted.to_owned(), password.map(str::to_owned)));
        }
    }
}
