//! Writes one JSON object member by member, so that no writer keeps count of commas.

use model::Timestamp;

use super::{array, instant, json};

/// An object that has been opened and not yet closed.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    /// Appends the opening brace.
    pub fn open(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object {
            out,
            is_empty: true,
        }
    }

    /// Appends the closing brace.
    pub fn close(self) {
        self.out.push(b'}');
    }

    /// Appends members that `write` writes with their own commas, if any, and the closing brace.
    pub fn close_with(self, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_empty {
            self.out.push(b',');
        }
        let before = self.out.len();
        write(self.out);
        if self.out.len() == before && !self.is_empty {
            self.out.pop();
        }
        self.out.push(b'}');
    }

    /// Keys are words of ours, or column keys: nothing in them needs escaping.
    fn key(&mut self, key: &str) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json(self.out, text);
    }

    /// A text in which nothing needs escaping, such as an id.
    pub fn plain(&mut self, key: &str, text: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    /// A number.
    pub fn number(&mut self, key: &str, number: i64) {
        self.key(key);
        json(self.out, &number);
    }

    /// A number that travels as a text.
    pub fn quoted_number(&mut self, key: &str, number: i64) {
        self.key(key);
        self.out.push(b'"');
        json(self.out, &number);
        self.out.push(b'"');
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &str, truth: bool) {
        self.key(key);
        json(self.out, &truth);
    }

    /// An instant.
    pub fn instant(&mut self, key: &str, at: Timestamp) {
        self.key(key);
        instant(self.out, at);
    }

    /// JSON that was written before.
    pub fn raw(&mut self, key: &str, written: &[u8]) {
        self.key(key);
        self.out.extend_from_slice(written);
    }

    /// Whatever `write` writes.
    pub fn with(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        write(self.out);
    }

    /// An array, each element written by `write`.
    pub fn array<T>(
        &mut self,
        key: &str,
        elements: impl IntoIterator<Item = T>,
        write: impl FnMut(T, &mut Vec<u8>),
    ) {
        self.key(key);
        array(self.out, elements, write);
    }
}
