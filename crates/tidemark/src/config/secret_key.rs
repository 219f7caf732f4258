//! A file that an operator names for the key of variables of functions.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The key as the file holds it: 32 bytes in hexadecimal digits.
const DIGITS: usize = 64;
/// And the end of its line, however it is written.
const FILE_BYTES_MAX: u64 = 66;

/// Whether the file is there; if it is, it holds a key and its owner alone may read it.
///
/// # Errors
/// What is wrong with it and what to do, as a clause.
pub fn look(file: &Path) -> Result<bool, String> {
    let shown = file.display();
    let known = match fs::metadata(file) {
        Ok(known) => known,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(file).is_ok() {
                return Err(format!("{shown} is a link that leads nowhere"));
            }
            return Ok(false);
        }
        Err(error) => return Err(format!("{shown} cannot be looked at: {error}")),
    };
    check(&known).map_err(|why| format!("{shown} {why}"))?;
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let digits = text.trim_end();
    if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("{shown} {NO_KEY}"));
    }
    Ok(true)
}

const NO_KEY: &str = "holds no key: 64 hexadecimal digits are needed, as `openssl rand -hex 32` \
                      writes them";

fn check(known: &Metadata) -> Result<(), String> {
    if !known.is_file() {
        return Err("is no file".to_owned());
    }
    let mode = known.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "may be read or written by other users (mode {mode:o}): `chmod 600` it"
        ));
    }
    if known.len() > FILE_BYTES_MAX {
        let bytes = known.len();
        return Err(format!("has {bytes} bytes and {NO_KEY}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_there_absent_or_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        assert_eq!(look(&file), Ok(false));
        let write = |content: &[u8], mode: u32| {
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            look(&file)
        };
        let key = "0123456789abcdef".repeat(4);
        for good in [key.clone(), format!("{key}\n"), format!("{key}\r\n")] {
            assert_eq!(write(good.as_bytes(), 0o600), Ok(true));
            assert_eq!(write(good.as_bytes(), 0o400), Ok(true));
        }
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let refused = write(key.as_bytes(), mode).unwrap_err();
            assert!(refused.contains(&format!("(mode {mode:o})")), "{refused}");
        }
        for (content, part) in [
            (b"".to_vec(), "64 hexadecimal digits"),
            (key.as_bytes()[1..].to_vec(), "64 hexadecimal digits"),
            (format!("{key}0").into_bytes(), "64 hexadecimal digits"),
            (format!("{key}\n\n\n\n").into_bytes(), "has 68 bytes"),
            ("é".repeat(32).into_bytes(), "64 hexadecimal digits"),
            (vec![0xff; 64], "cannot be read"),
            (vec![b'0'; 1_000_000], "has 1000000 bytes"),
        ] {
            let refused = write(&content, 0o600).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
        assert!(look(folder.path()).unwrap_err().contains("is no file"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(look(&link).unwrap_err().contains("leads nowhere"));
    }
}
