//! The key of a data directory, and what is sealed by it: values of encrypted columns wherever
//! they rest, and what else may hold such values, which is operations that wait for their commit,
//! kept answers and what commits say of themselves (docs/decisions/0015-encrypted-columns.md).
//!
//! Each value is sealed by AES-256-GCM under a nonce drawn for it alone, and bound to the place
//! where it is stored: elsewhere it cannot be opened. Keys are derived from the one in the file,
//! one for each column, so that no key seals so many values that drawn nonces would meet
//! (NIST SP 800-38D, 8.3: 2^32).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{ColumnNumber, RowId, TableNumber};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hkdf};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::file_format;
use crate::StoreError;

/// The file's name in the data directory.
pub(crate) const KEY_FILE: &str = "tidemark.key";
/// The name of the file with the key of variables of functions.
pub(crate) const VARIABLES_KEY_FILE: &str = "secret.key";
/// Bytes of the key; the file holds them as hexadecimal digits.
const KEY_BYTES: usize = 32;
/// What is sealed begins with this byte: a later way to seal has another one.
const VERSION: u8 = 1;
/// The first format whose `meta` names the key.
const FIRST_FORMAT: i64 = 8;
/// The first format with variables of functions.
const FIRST_FORMAT_WITH_VARIABLES: i64 = 16;
/// Executions that wait came with this one.
const FIRST_FORMAT_WITH_CALLS: i64 = 18;

/// Where something sealed is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// A value, now or in any version: numbers of tables and columns are never given twice.
    Value {
        /// Of which table.
        table: TableNumber,
        /// In which column.
        column: ColumnNumber,
        /// Of which row, by its id.
        row: &'a str,
    },
    /// An operation of a transaction, by its place in it.
    Operation(i64, i64),
    /// What stands for a request that was sent under a key, and the answer to it.
    Request(&'a str, &'a str, u32),
    Answer(&'a str, &'a str, u32),
    /// What the commit of this mark says of itself.
    Note(i64),
    /// The value of a variable, by the number of its function and its id.
    Variable(i64, &'a str),
    /// What the handler of an execution is given, by the number of its function and its id.
    Call(i64, &'a str),
}

impl Place<'_> {
    /// What tells its key from others, and it from other places of that key.
    fn names(self) -> (Vec<u8>, Vec<u8>) {
        let request = |project: &str, key: &str, part: u32| {
            // No id holds a line's end.
            [project, key, &part.to_string()].join("\n").into_bytes()
        };
        match self {
            Place::Value { table, column, row } => {
                let key = format!("value {} {}", table.0, column.0);
                (key.into_bytes(), row.as_bytes().to_vec())
            }
            Place::Operation(transaction, nth) => {
                let place = format!("{transaction} {nth}").into_bytes();
                (b"operation".to_vec(), place)
            }
            Place::Request(project, key, part) => {
                (b"request".to_vec(), request(project, key, part))
            }
            Place::Answer(project, key, part) => (b"answer".to_vec(), request(project, key, part)),
            Place::Note(mark) => (b"note".to_vec(), mark.to_string().into_bytes()),
            Place::Variable(function, id) => {
                let place = format!("{function} {id}").into_bytes();
                (b"variable".to_vec(), place)
            }
            Place::Call(function, id) => {
                let place = format!("{function} {id}").into_bytes();
                (b"call".to_vec(), place)
            }
        }
    }

    /// What is named where it cannot be opened.
    fn shown(self) -> String {
        match self {
            Place::Value { table, column, row } => {
                let (table, column) = (table.0, column.0);
                format!("column {column} of table {table}, row `{row}`")
            }
            Place::Operation(transaction, nth) => {
                format!("operation {nth} of transaction {transaction}")
            }
            Place::Request(_, key, _) | Place::Answer(_, key, _) => {
                format!("the request under the key `{key}`")
            }
            Place::Note(mark) => format!("the note of the commit at {mark}"),
            Place::Variable(function, id) => {
                format!("variable `{id}` of the function of number {function}")
            }
            Place::Call(function, id) => {
                format!("what execution `{id}` of the function of number {function} is given")
            }
        }
    }
}

/// The key of a data directory, once there is one.
pub(crate) struct Vault {
    file: PathBuf,
    /// Another file, that an operator names.
    named: OnceLock<PathBuf>,
    /// Whether the file is read when it is first needed, and again as long as it is not there.
    is_late: bool,
    secret: OnceLock<Secret>,
    random: SystemRandom,
    /// How often something could not be opened.
    broken: AtomicU64,
    /// Whether the secret has opened what is sealed: it is the same as long as this lives.
    is_proven: AtomicBool,
}

/// What the file holds.
struct Secret {
    /// Tells this key from others, and nothing more of it.
    id: String,
    root: hkdf::Prk,
}

impl Vault {
    fn at(file: PathBuf) -> Vault {
        Vault {
            file,
            named: OnceLock::new(),
            is_late: false,
            secret: OnceLock::new(),
            random: SystemRandom::new(),
            broken: AtomicU64::new(0),
            is_proven: AtomicBool::new(false),
        }
    }

    /// The key that the database at `connection` was written with; none where it has used none.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
    pub(crate) fn open(directory: &Path, connection: &Connection) -> Result<Vault, StoreError> {
        let vault = Vault::at(directory.join(KEY_FILE));
        let known = known_id(connection)?;
        if !known.is_empty() {
            let file = || vault.file.clone();
            let found = Secret::read(&vault.file)?;
            let found = found.ok_or_else(|| StoreError::KeyMissing { file: file() })?;
            if found.id != known {
                return Err(StoreError::KeyWrong { file: file() });
            }
            drop(vault.secret.set(found));
        }
        Ok(vault)
    }

    /// The key of variables of functions. It is read when it is needed, and a store does without
    /// it: then it cannot show or change them.
    pub(crate) fn of_variables(directory: &Path) -> Vault {
        Vault {
            is_late: true,
            ..Vault::at(directory.join(VARIABLES_KEY_FILE))
        }
    }

    /// Lets the key be in this file, unless it was read already.
    pub(crate) fn name(&self, file: PathBuf) {
        drop(self.named.set(file));
    }

    /// Where the key is, or would be.
    fn file(&self) -> &Path {
        self.named.get().unwrap_or(&self.file)
    }

    /// Sees to it that there is a key, which is durable before anything is sealed by it; its id.
    ///
    /// # Errors
    /// When the file cannot be written, or holds no key.
    pub(crate) fn ready(&self) -> Result<&str, StoreError> {
        if self.secret.get().is_none() {
            let secret = match Secret::read(self.file())? {
                // One that no commit has come to use: it can be used as well as another. Who made
                // it may have ended before it was durable.
                Some(secret) => {
                    sync(self.file()).map_err(|error| self.not_written(&error))?;
                    secret
                }
                None => self.make()?,
            };
            drop(self.secret.set(secret));
        }
        Ok(&self.secret()?.id)
    }

    fn make(&self) -> Result<Secret, StoreError> {
        let mut key = [0; KEY_BYTES];
        self.draw(&mut key)?;
        write_key(self.file(), &hex(&key)).map_err(|error| self.not_written(&error))?;
        Ok(Secret::of(&key))
    }

    fn not_written(&self, error: &io::Error) -> StoreError {
        StoreError::Io {
            detail: format!("{} cannot be written: {error}", self.file().display()),
        }
    }

    fn draw(&self, bytes: &mut [u8]) -> Result<(), StoreError> {
        let drawn = self.random.fill(bytes);
        drawn.map_err(|_| StoreError::Io {
            detail: "the system gives no random bytes".to_owned(),
        })
    }

    fn secret(&self) -> Result<&Secret, StoreError> {
        if self.is_late
            && self.secret.get().is_none()
            && let Some(found) = Secret::read(self.file())?
        {
            drop(self.secret.set(found));
        }
        let secret = self.secret.get();
        secret.ok_or_else(|| StoreError::KeyMissing {
            file: self.file().to_owned(),
        })
    }

    /// Whether any of these was sealed at its place by the key, where there are any.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`]; [`StoreError::KeyWrong`] when none was.
    pub(crate) fn need_key_of<'a>(
        &self,
        sealed: impl Iterator<Item = (Place<'a>, &'a [u8])>,
    ) -> Result<(), StoreError> {
        let mut sealed = sealed.peekable();
        if sealed.peek().is_none() {
            return Ok(());
        }
        self.secret()?;
        for (place, bytes) in sealed {
            if self.opened(place, bytes)?.is_some() {
                return Ok(());
            }
        }
        Err(StoreError::KeyWrong {
            file: self.file().to_owned(),
        })
    }

    fn key(&self, name: &[u8]) -> Result<LessSafeKey, StoreError> {
        let info = [name];
        let derived = self.secret()?.root.expand(&info, &AES_256_GCM);
        let key = derived.expect("the length is that of the algorithm");
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }

    /// What stands on the disk for `plain`.
    pub(crate) fn seal(&self, place: Place<'_>, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (name, place) = place.names();
        let key = self.key(&name)?;
        let mut nonce = [0; NONCE_LEN];
        self.draw(&mut nonce)?;
        let head = 1 + NONCE_LEN;
        let mut sealed = Vec::with_capacity(head + plain.len() + AES_256_GCM.tag_len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(place), &mut sealed[head..]);
        let tag = tag.map_err(|_| StoreError::Memory)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// What was sealed at this place.
    ///
    /// # Errors
    /// [`StoreError::SealBroken`] when something else stands there.
    pub(crate) fn open_sealed(
        &self,
        place: Place<'_>,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let opened = self.opened(place, sealed)?;
        opened.ok_or_else(|| self.broken(place))
    }

    fn opened(&self, place: Place<'_>, sealed: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let (name, bound) = place.names();
        let key = self.key(&name)?;
        let opened = || {
            let (version, rest) = sealed.split_first()?;
            let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>()?;
            let mut plain = rest.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let length = key.open_in_place(nonce, Aad::from(bound), &mut plain);
            let length = length.ok().filter(|_| *version == VERSION)?.len();
            plain.truncate(length);
            Some(plain)
        };
        Ok(opened())
    }

    fn broken(&self, place: Place<'_>) -> StoreError {
        self.broken.fetch_add(1, Ordering::Relaxed);
        let row = match place {
            Place::Value { row, .. } => RowId::new(row).ok(),
            _ => None,
        };
        let what = place.shown();
        StoreError::SealBroken { what, row }
    }

    /// How often something could not be opened.
    pub(crate) fn broken_count(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    /// A text that is stored as it is, or sealed since there is a key.
    pub(crate) fn text(
        &self,
        stored: ValueRef<'_>,
        place: Place<'_>,
    ) -> Result<Option<String>, StoreError> {
        let plain = match stored {
            ValueRef::Null => return Ok(None),
            ValueRef::Text(text) => text.to_vec(),
            ValueRef::Blob(sealed) => self.open_sealed(place, sealed)?,
            _ => Vec::new(),
        };
        let text = String::from_utf8(plain);
        text.map(Some).map_err(|_| self.broken(place))
    }
}

impl Secret {
    fn of(key: &[u8; KEY_BYTES]) -> Secret {
        let named = [b"tidemark key".as_slice(), key].concat();
        let id = digest::digest(&digest::SHA256, &named);
        Secret {
            id: hex(&id.as_ref()[..8]),
            root: hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidemark").extract(key),
        }
    }

    /// What the file holds; `None` where it is absent.
    fn read(file: &Path) -> Result<Option<Secret>, StoreError> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link that leads nowhere: its disk may not be mounted. A key made in its place
                // would lie beside the data.
                return match fs::symlink_metadata(file) {
                    Ok(_) => Err(StoreError::KeyMissing {
                        file: file.to_owned(),
                    }),
                    Err(_) => Ok(None),
                };
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => {
                let detail = format!("{} cannot be read: {error}", file.display());
                return Err(StoreError::Io { detail });
            }
            Ok(text) => text,
        };
        let wrong = || StoreError::KeyWrong {
            file: file.to_owned(),
        };
        let key = unhex(text.trim_end()).ok_or_else(wrong)?;
        Ok(Some(Secret::of(&key)))
    }
}

/// The id of the key that the database was written with; empty where it was with none.
fn known_id(connection: &Connection) -> Result<String, StoreError> {
    if file_format::format(connection)? < FIRST_FORMAT {
        return Ok(String::new());
    }
    Ok(connection.query_row("SELECT key_id FROM meta", (), |row| row.get(0))?)
}

/// Writes the file so that a crash leaves it whole or leaves none.
fn write_key(file: &Path, key: &str) -> io::Result<()> {
    let new = file.with_extension("key.new");
    // What others may have put there must not become the key's file.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.create_new(true).write(true).mode(0o600);
    let mut written = options.open(&new)?;
    writeln!(written, "{key}")?;
    written.sync_all()?;
    drop(written);
    fs::rename(&new, file)?;
    sync(file)
}

/// Makes a file and its name durable.
fn sync(file: &Path) -> io::Result<()> {
    File::open(file)?.sync_all()?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let both = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    both.collect()
}

fn unhex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    let is_hex = digits.len() == 2 * KEY_BYTES && digits.iter().all(u8::is_ascii_hexdigit);
    let mut key = [0; KEY_BYTES];
    for (nth, byte) in key.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&text[2 * nth..2 * nth + 2], 16).ok()?;
    }
    is_hex.then_some(key)
}

/// Whether the key beside a database is the one that it was written with; `None` where none was.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn holds_key(
    directory: &Path,
    connection: &Connection,
) -> Result<Option<()>, StoreError> {
    let vault = Vault::open(directory, connection)?;
    Ok(vault.secret.get().map(|_| ()))
}

/// Whether the key of variables opens what it has sealed; `None` where that is nothing. The key is
/// looked for in `named`, or in the data directory.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn holds_variables_key(
    directory: &Path,
    named: Option<&Path>,
    connection: &Connection,
) -> Result<Option<()>, StoreError> {
    if file_format::format(connection)? < FIRST_FORMAT_WITH_VARIABLES {
        return Ok(None);
    }
    let vault = Vault::of_variables(directory);
    if let Some(named) = named {
        vault.name(named.to_owned());
    }
    let any = need_functions_key(connection, &vault)?;
    Ok(any.then_some(()))
}

/// Whether there are variables, or executions that wait; then the key must have sealed them. Looks
/// at the newest: one alone could be damaged.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn need_functions_key(
    connection: &Connection,
    vault: &Vault,
) -> Result<bool, StoreError> {
    if vault.is_proven.load(Ordering::Relaxed) {
        return Ok(true);
    }
    let read = |sql: &str| -> Result<Vec<(i64, String, Vec<u8>)>, StoreError> {
        let mut newest = connection.prepare_cached(sql)?;
        let newest = newest.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(newest.collect::<Result<_, _>>()?)
    };
    let variables = read("SELECT function, id, value FROM variable ORDER BY seq DESC LIMIT 3")?;
    let calls = match file_format::format(connection)? {
        FIRST_FORMAT_WITH_CALLS.. => read(
            "SELECT function, id, call FROM queued JOIN queued_call USING (seq) \
             ORDER BY seq DESC LIMIT 3",
        )?,
        _ => Vec::new(),
    };
    let variables = variables
        .iter()
        .map(|(function, id, value)| (Place::Variable(*function, id), value.as_slice()));
    let calls = calls
        .iter()
        .map(|(function, id, call)| (Place::Call(*function, id), call.as_slice()));
    let mut sealed = variables.chain(calls).peekable();
    if sealed.peek().is_none() {
        return Ok(false);
    }
    vault.need_key_of(sealed)?;
    vault.is_proven.store(true, Ordering::Relaxed);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(directory: &Path) -> Vault {
        Vault::at(directory.join(KEY_FILE))
    }

    fn value(table: i64, column: u32, row: &str) -> Place<'_> {
        Place::Value {
            table: TableNumber(table),
            column: ColumnNumber(column),
            row,
        }
    }

    #[test]
    fn a_sealed_value_is_opened_at_its_place_alone() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path());
        assert!(matches!(
            vault.seal(value(1, 2, "r"), b"x"),
            Err(StoreError::KeyMissing { .. })
        ));
        vault.ready().unwrap();
        let place = value(1, 2, "r");
        for plain in [b"".as_slice(), b"a secret", &[0xff; 5_000]] {
            let sealed = vault.seal(place, plain).unwrap();
            assert_eq!(sealed.len(), plain.len() + 29);
            assert_ne!(sealed, vault.seal(place, plain).unwrap(), "a nonce each");
            assert_eq!(vault.open_sealed(place, &sealed).unwrap(), plain);
            for other in [
                value(2, 2, "r"),
                value(1, 3, "r"),
                value(1, 2, "s"),
                value(12, 2, "r"),
                Place::Operation(1, 2),
                Place::Note(1),
                Place::Answer("p", "r", 0),
            ] {
                let opened = vault.open_sealed(other, &sealed);
                assert!(matches!(opened, Err(StoreError::SealBroken { .. })));
            }
        }
    }

    #[test]
    fn no_bit_of_a_sealed_value_can_be_turned_and_no_byte_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path());
        vault.ready().unwrap();
        let place = value(1, 2, "r");
        let sealed = vault.seal(place, b"a secret").unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut turned = sealed.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(vault.open_sealed(place, &turned).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(vault.open_sealed(place, &sealed[..length]).is_err());
        }
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_read_again() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let first = vault(folder.path());
        let id = first.ready().unwrap().to_owned();
        let file = folder.path().join(KEY_FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = vault(folder.path());
        assert_eq!(again.ready().unwrap(), id);
        let place = Place::Note(7);
        let sealed = first.seal(place, b"x").unwrap();
        assert_eq!(again.open_sealed(place, &sealed).unwrap(), b"x");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &file).unwrap();
        let dangling = vault(folder.path()).ready().map(str::to_owned);
        assert!(matches!(dangling, Err(StoreError::KeyMissing { .. })));
        fs::remove_file(&file).unwrap();
        for damaged in ["", "17", &"g".repeat(64), &"a".repeat(63), "\u{e9}"] {
            fs::write(&file, damaged).unwrap();
            let wrong = vault(folder.path()).ready().map(str::to_owned);
            assert!(
                matches!(wrong, Err(StoreError::KeyWrong { .. })),
                "{damaged}"
            );
        }
    }
}
