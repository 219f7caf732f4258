//! The key of a store, and what is sealed by it: values of encrypted columns wherever they rest,
//! and what else may hold such values, which is operations that wait for their commit, kept answers
//! and what commits say of themselves (docs/decisions/0015-encrypted-columns.md). The key is in a
//! file of this machine, whichever database has the store.
//!
//! Each value is sealed by AES-256-GCM under a nonce drawn for it alone, and bound to the place
//! where it is stored: elsewhere it cannot be opened. Keys are derived from the one in the file,
//! one for each column, so that no key seals so many values that drawn nonces would meet
//! (NIST SP 800-38D, 8.3: 2^32).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use model::{Column, ColumnNumber, RowId, Storage, TableNumber, Value};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hkdf};

use crate::StoreError;
use crate::error::corrupt;
use crate::json_list;
use crate::stored::row::{StoredCell, StoredRow, other};

/// The file's name in the data directory.
pub(crate) const KEY_FILE: &str = "tidemark.key";
/// The name of the file with the key of variables of functions.
pub(crate) const VARIABLES_KEY_FILE: &str = "secret.key";
/// Bytes of the key; the file holds them as hexadecimal digits.
const KEY_BYTES: usize = 32;
/// What is sealed begins with this byte: a later way to seal has another one.
const VERSION: u8 = 1;
/// So many bytes more than what is sealed.
pub(crate) const SEAL_BYTES: usize = 1 + NONCE_LEN + MAX_TAG_LEN;
/// A column of texts that keeps no bytes holds what is sealed behind this sign, in hexadecimal
/// digits. No text begins with it that may be sealed: those are JSON, or digits.
const SEAL_SIGN: char = '\u{1}';

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

/// The key of a store, once there is one.
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

/// The keys of a store in a database, of which it has a file each.
#[derive(Clone)]
pub(crate) struct StoreKeys {
    /// That of encrypted columns, and of what may hold their values.
    pub(crate) values: Arc<Vault>,
    /// That of variables of functions.
    pub(crate) variables: Arc<Vault>,
}

impl StoreKeys {
    /// Those in a data directory, each read when it is needed.
    pub(crate) fn of(directory: &Path) -> StoreKeys {
        StoreKeys {
            values: Arc::new(Vault::of_values(directory)),
            variables: Arc::new(Vault::of_variables(directory)),
        }
    }
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

    /// The key that a store was written with, by the id that it knows of it; none where that is
    /// empty.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
    pub(crate) fn of_store(directory: &Path, known_id: &str) -> Result<Vault, StoreError> {
        let vault = Vault::at(directory.join(KEY_FILE));
        vault.need(known_id)?;
        Ok(vault)
    }

    /// Sees to it that this is the key that a store was written with, by the id that it knows of
    /// it; any will do where that is empty.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
    pub(crate) fn need(&self, known_id: &str) -> Result<(), StoreError> {
        if known_id.is_empty() {
            return Ok(());
        }
        let file = || self.file().to_owned();
        let wrong = || StoreError::KeyWrong { file: file() };
        let is_known = |secret: &Secret| secret.id == known_id;
        if let Some(secret) = self.secret.get() {
            return is_known(secret).then_some(()).ok_or_else(wrong);
        }
        let found = Secret::read(self.file())?;
        let found = found.ok_or_else(|| StoreError::KeyMissing { file: file() })?;
        if !is_known(&found) {
            return Err(wrong());
        }
        drop(self.secret.set(found));
        Ok(())
    }

    /// Whether it has read a key, or made one.
    pub(crate) fn has_key(&self) -> bool {
        self.secret.get().is_some()
    }

    /// The key of encrypted columns of a store in a database: it is read when it is needed.
    pub(crate) fn of_values(directory: &Path) -> Vault {
        Vault {
            is_late: true,
            ..Vault::at(directory.join(KEY_FILE))
        }
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

    /// Whether the key was found to have sealed what there is: it is the same as long as this
    /// lives.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Finds whether any of these was sealed at its place by the key; `false` where there are none.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`]; [`StoreError::KeyWrong`] when none was.
    pub(crate) fn prove<'a>(
        &self,
        sealed: impl Iterator<Item = (Place<'a>, &'a [u8])>,
    ) -> Result<bool, StoreError> {
        let mut sealed = sealed.peekable();
        if sealed.peek().is_none() {
            return Ok(false);
        }
        self.secret()?;
        for (place, bytes) in sealed {
            if self.opened(place, bytes)?.is_some() {
                self.is_proven.store(true, Ordering::Relaxed);
                return Ok(true);
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

    /// What stands in a column of texts for `plain`.
    pub(crate) fn seal_text(&self, place: Place<'_>, plain: &str) -> Result<String, StoreError> {
        let sealed = self.seal(place, plain.as_bytes())?;
        Ok(sealed_text(&sealed))
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

    /// What stands at this place was not sealed there; counted.
    pub(crate) fn broken(&self, place: Place<'_>) -> StoreError {
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

    /// What a row has in an encrypted column: a text, or texts, since nothing else is sealed.
    ///
    /// # Errors
    /// As [`Vault::open_sealed`]; [`StoreError::Corrupt`] when it is something else.
    pub(crate) fn open_value(
        &self,
        sealed: &[u8],
        (table, column, row): (TableNumber, &Column, &str),
    ) -> Result<Value, StoreError> {
        let place = Place::Value {
            table,
            column: column.number,
            row,
        };
        let plain = self.open_sealed(place, sealed)?;
        let value = match (column.array, column.kind.storage()) {
            (true, storage) => json_list::read(&plain, storage),
            (false, Storage::Text) => String::from_utf8(plain).ok().map(Value::Text),
            (false, _) => None,
        };
        let what = || format!("the encrypted column `{}` holds something else", column.key);
        value.ok_or_else(|| corrupt(what()))
    }

    /// The text that was sealed at this place.
    ///
    /// # Errors
    /// As [`Vault::open_sealed`].
    pub(crate) fn open_text(&self, place: Place<'_>, sealed: &[u8]) -> Result<String, StoreError> {
        let text = String::from_utf8(self.open_sealed(place, sealed)?);
        text.map_err(|_| self.broken(place))
    }
}

/// A text as it is stored: as it is, or sealed since there is a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredText {
    Plain(String),
    Sealed(Vec<u8>),
}

impl StoredText {
    /// What a row has in a column; `None` where it has nothing.
    pub(crate) fn of(row: &dyn StoredRow, position: usize) -> Result<Option<Self>, StoreError> {
        Ok(Some(match row.cell(position)? {
            StoredCell::Null => return Ok(None),
            StoredCell::Bytes(sealed) => StoredText::Sealed(sealed.to_vec()),
            StoredCell::Text(text) => StoredText::of_column_text(text),
            cell => return Err(other(cell)),
        }))
    }

    /// What a column of texts holds.
    pub(crate) fn of_column_text(text: &str) -> StoredText {
        match text.strip_prefix(SEAL_SIGN) {
            // Digits that are none open nothing.
            Some(digits) => StoredText::Sealed(unhex(digits).unwrap_or_default()),
            None => StoredText::Plain(text.to_owned()),
        }
    }

    /// As a column of texts holds it; `None` where that would be taken for something else.
    pub(crate) fn column_text(&self) -> Option<String> {
        match self {
            StoredText::Plain(text) => (!text.starts_with(SEAL_SIGN)).then(|| text.clone()),
            StoredText::Sealed(sealed) => Some(sealed_text(sealed)),
        }
    }

    /// The text, which belongs to this place.
    ///
    /// # Errors
    /// As [`Vault::open_sealed`].
    pub(crate) fn open(self, vault: &Vault, place: Place<'_>) -> Result<String, StoreError> {
        match self {
            StoredText::Plain(text) => Ok(text),
            StoredText::Sealed(sealed) => vault.open_text(place, &sealed),
        }
    }
}

/// As a column of texts holds what is sealed.
fn sealed_text(sealed: &[u8]) -> String {
    format!("{SEAL_SIGN}{}", hex(sealed))
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
        let key = unhex(text.trim_end()).and_then(|key| key.try_into().ok());
        let key = key.ok_or_else(wrong)?;
        Ok(Some(Secret::of(&key)))
    }
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

pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let is_hex = digits.len().is_multiple_of(2) && digits.bytes().all(|c| c.is_ascii_hexdigit());
    let pairs = digits.as_bytes().chunks(2).filter(|_| is_hex);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().filter(|_| is_hex)
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
            assert_eq!(sealed.len(), plain.len() + SEAL_BYTES);
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
    fn a_sealed_text_stands_in_a_column_of_texts() {
        struct One(String);
        impl StoredRow for One {
            fn cell(&self, _: usize) -> Result<StoredCell<'_>, StoreError> {
                Ok(StoredCell::Text(&self.0))
            }
        }
        let read = |text: &str| StoredText::of(&One(text.to_owned()), 0).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path());
        vault.ready().unwrap();
        let sealed = vault.seal(Place::Note(3), b"{}").unwrap();
        for stored in [StoredText::Sealed(sealed), StoredText::Plain("{}".into())] {
            let text = stored.column_text().unwrap();
            assert_eq!(read(&text), stored);
            assert_eq!(stored.open(&vault, Place::Note(3)).unwrap(), "{}");
        }
        assert_eq!(StoredText::Plain("\u{1}00".into()).column_text(), None);
        for damaged in ["\u{1}", "\u{1}0", "\u{1}g0", "\u{1}é", "\u{1}+1"] {
            let opened = read(damaged).open(&vault, Place::Note(3));
            assert!(
                matches!(opened, Err(StoreError::SealBroken { .. })),
                "{damaged:?}"
            );
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
