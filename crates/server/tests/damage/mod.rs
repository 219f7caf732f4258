//! Damage to what is encrypted, as a failing disk does it: other bytes in the database file of a
//! server that has stopped.

use std::fs;
use std::path::Path;

/// Behind a text: the head of a sealed value, and some of the value.
const BYTES_BEHIND: usize = 20;

/// Alters the encrypted value of 8 bytes or more that is stored right behind the plain text
/// `near`, wherever there is one.
pub fn damage_behind(directory: &Path, near: &str) {
    let file = directory.join("tidemark.db");
    let mut bytes = fs::read(&file).unwrap();
    let places = bytes.windows(near.len()).enumerate();
    let places = places.filter(|(_, part)| *part == near.as_bytes());
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "`{near}` is stored nowhere");
    for at in places {
        bytes[at + near.len() + BYTES_BEHIND] ^= 1;
    }
    fs::write(file, bytes).unwrap();
}
