//! Passwords from a file, as libpq reads them (PostgreSQL manual, "The Password File").

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio_postgres::config::Host;

use super::address::{DatabaseHost, DatabaseUrl};

/// Most bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Where libpq itself looks for a socket: then the file says `localhost`.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The password for one host; `None` where the file has no line for it.
///
/// # Errors
/// When the file cannot be read, or others may read it, too. Unlike libpq, which looks at a place
/// that no setting names, this says when the file is absent.
pub(super) fn password_for(
    path: &Path,
    url: &DatabaseUrl,
    host: &DatabaseHost,
) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    need_private(&file.metadata()?)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let name = match &host.host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path)
            if SOCKET_FOLDERS
                .iter()
                .any(|folder| path == Path::new(folder)) =>
        {
            "localhost".to_owned()
        }
        Host::Unix(path) => path.display().to_string(),
    };
    let (database, user) = (url.database().unwrap_or(""), url.user().unwrap_or(""));
    let wanted = [&*name, &*host.port.to_string(), database, user];
    Ok(text.lines().find_map(|line| password_in(line, wanted)))
}

fn need_private(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("others may read it: chmod 600"));
    }
    Ok(())
}

/// The password of a line, if it is for that place.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = PasswordFields(line.chars());
    for wanted in wanted {
        let (field, is_any) = fields.next_field()?;
        if !is_any && field != wanted {
            return None;
        }
    }
    let (password, _) = fields.next_field()?;
    (!password.is_empty()).then_some(password)
}

/// The fields of a line, which end at `:`; a backslash takes the next character as it is.
struct PasswordFields<'l>(std::str::Chars<'l>);

impl PasswordFields<'_> {
    /// The next one, and whether it stands for any. `None` behind the last.
    fn next_field(&mut self) -> Option<(String, bool)> {
        if self.0.as_str().is_empty() {
            return None;
        }
        let start = self.0.as_str();
        let mut field = String::new();
        while let Some(letter) = self.0.next() {
            match letter {
                ':' => break,
                '\\' => field.extend(self.0.next()),
                letter => field.push(letter),
            }
        }
        let is_any = start == "*" || start.starts_with("*:");
        Some((field, is_any))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(text: &str, url: &str, expected: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pgpass");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let url = DatabaseUrl::parse(url).unwrap();
        let found = password_for(&path, &url, &url.hosts[0]).unwrap();
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let url = "postgres://u@a:7/d";
        check("a:7:d:u:one\n*:*:*:*:two", url, Some("one"));
        check("b:7:d:u:one\n*:*:*:*:two", url, Some("two"));
        check("# a:7:d:u:one\na:8:d:u:one\na:7:d:u", url, None);
        check("a:7:d:u:", url, None);
        check("a:7:d:u:with\\:colon\\\\", url, Some("with:colon\\"));
        check("\\*:7:d:u:one", url, None);
        check("a:7:d:u:end:more", url, Some("end"));
        check("", url, None);
    }

    #[test]
    fn a_socket_where_it_always_is_counts_as_this_machine() {
        check("localhost:5432:d:u:one", "postgres://u@/d", Some("one"));
        check("/x:5432:d:u:one", "postgres://u@%2Fx/d", Some("one"));
        check("localhost:5432:d:u:one", "postgres://u@%2Fx/d", None);
        check("a:5432:u:u:one", "postgres://u@a", Some("one"));
    }

    #[test]
    fn a_file_that_is_absent_or_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pgpass");
        let url = DatabaseUrl::parse("postgres://u@a/d").unwrap();
        let error = password_for(&path, &url, &url.hosts[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        fs::write(&path, "*:*:*:*:p").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = password_for(&path, &url, &url.hosts[0]).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
}
