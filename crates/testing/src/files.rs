//! The files of a data directory, as an observer or a failing disk meets them.

use std::fs;
use std::path::Path;

/// Behind a text: the head of a sealed value, and some of the value.
const BYTES_BEHIND: usize = 20;

/// The files below `folder` that hold these words. One that goes away meanwhile holds none.
pub fn traces(folder: &Path, words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(traces(&path, words));
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let mut parts = bytes.windows(words.len());
        if parts.any(|part| part == words.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Alters, as a failing disk does, the encrypted value of 8 bytes or more that is stored right
/// behind the plain text `near`, wherever there is one, in the directory of a server that has
/// stopped.
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
