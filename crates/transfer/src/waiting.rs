//! Links that wait in a file until all rows are there.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result};

use super::lines::read_line;
use super::port_request::BATCH_ROWS;

/// A batch of links is closed at so many bytes of them, each of some 25: the row it leads to is
/// looked for, while other writers wait.
const BATCH_BYTES: usize = 256 << 10;

/// Links that wait in a file until all rows are there.
pub struct Waiting {
    file: BufWriter<File>,
    /// How many.
    pub count: u64,
    /// The numbers of the tables in the file.
    tables: HashMap<String, usize>,
    names: Vec<String>,
}

/// Links of one row that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The row's table.
    pub table: String,
    /// The line of the row where it came from.
    pub line: u64,
    /// As [`super::links::Split::links`].
    pub links: Vec<u8>,
}

/// Links of rows of one table that are set together.
pub struct Batch {
    /// The table.
    pub table: String,
    /// Never none.
    pub rows: Vec<Waited>,
}

impl Batch {
    /// The links of each row.
    pub fn lines(&self) -> Vec<&[u8]> {
        self.rows.iter().map(|row| &*row.links).collect()
    }
}

impl Waiting {
    /// In a file without a name in `directory`, which goes with the process.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(directory: &Path) -> Result<Waiting> {
        let file = tempfile::tempfile_in(directory).with_context(|| {
            let directory = directory.display();
            format!("cannot write a file in {directory} for links that wait for their rows")
        })?;
        Ok(Waiting {
            file: BufWriter::new(file),
            count: 0,
            tables: HashMap::new(),
            names: Vec::new(),
        })
    }

    /// Keeps the links of a row.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&mut self, table: &str, line: u64, links: &[u8]) -> Result<()> {
        let known = self.tables.get(table).copied();
        let number = known.unwrap_or_else(|| {
            self.names.push(table.to_owned());
            self.tables.insert(table.to_owned(), self.names.len() - 1);
            self.names.len() - 1
        });
        self.count += 1;
        write!(self.file, "{number} {line} ")
            .and_then(|()| self.file.write_all(links))
            .and_then(|()| self.file.write_all(b"\n"))
            .context("cannot keep links until their rows are there")
    }

    /// All of them in batches, in the order in which they came; as often as they are wanted. None
    /// is kept after it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn batches(&mut self) -> Result<impl Iterator<Item = Result<Batch>>> {
        let mut waited = self.read()?.peekable();
        Ok(std::iter::from_fn(move || {
            let first = match waited.next()? {
                Ok(first) => first,
                Err(error) => return Some(Err(error)),
            };
            let (table, mut bytes) = (first.table.clone(), first.links.len());
            let mut rows = vec![first];
            let is_next = |next: &Result<Waited>| next.as_ref().is_ok_and(|n| n.table == table);
            while bytes < BATCH_BYTES && rows.len() < BATCH_ROWS {
                let Some(Ok(next)) = waited.next_if(is_next) else {
                    break;
                };
                bytes += next.links.len();
                rows.push(next);
            }
            Some(Ok(Batch { table, rows }))
        }))
    }

    fn read(&mut self) -> Result<impl Iterator<Item = Result<Waited>>> {
        self.file.flush().context("cannot keep links")?;
        let mut file = self.file.get_ref();
        file.rewind().context("cannot read links that waited")?;
        let mut from = BufReader::new(file);
        let names = &self.names;
        Ok(std::iter::from_fn(move || {
            let mut text = Vec::new();
            match read_line(&mut from, &mut text) {
                Ok(true) => Some(Ok(waited(names, &text))),
                Ok(false) => None,
                Err(error) => Some(Err(error).context("cannot read links that waited")),
            }
        }))
    }
}

fn waited(names: &[String], text: &[u8]) -> Waited {
    let mut parts = text.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = parts.next().and_then(|part| std::str::from_utf8(part).ok());
        let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
        number.expect("this process wrote the line")
    };
    let (table, line) = (number() as usize, number());
    Waited {
        table: names[table].clone(),
        line,
        links: parts.next().expect("this process wrote the line").to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_with_its_table_its_rows_and_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut waiting = Waiting::new(folder.path()).unwrap();
        for line in 0..=BATCH_ROWS {
            waiting.keep("a", line as u64, b"{}").unwrap();
        }
        let long = vec![b'x'; BATCH_BYTES];
        for line in 0..2 {
            waiting.keep("b", line, &long).unwrap();
        }
        for _ in 0..2 {
            let batches = waiting.batches().unwrap().map(Result::unwrap);
            let sizes = batches.map(|batch| batch.lines().len());
            assert_eq!(sizes.collect::<Vec<_>>(), [BATCH_ROWS, 1, 1, 1]);
        }
    }

    #[test]
    fn links_come_back_as_they_went() {
        let folder = tempfile::tempdir().unwrap();
        let mut waiting = Waiting::new(folder.path()).unwrap();
        waiting.keep("b", 7, b"{\"$id\":\"b 1\"}").unwrap();
        waiting.keep("a", 8, b"{}").unwrap();
        waiting.keep("b", 9, b"{}").unwrap();
        assert_eq!(waiting.count, 3);
        let mut read = || -> Vec<Waited> {
            let waited = waiting.read().unwrap();
            waited.map(Result::unwrap).collect()
        };
        assert_eq!(read(), read(), "as often as they are wanted");
        let read = read();
        let seen = |one: &Waited| (one.table.clone(), one.line, one.links.len());
        assert_eq!(
            read.iter().map(seen).collect::<Vec<_>>(),
            [
                ("b".to_owned(), 7, 13),
                ("a".to_owned(), 8, 2),
                ("b".to_owned(), 9, 2)
            ]
        );
        let batches: Vec<Batch> = waiting.batches().unwrap().map(Result::unwrap).collect();
        let sizes = |batch: &Batch| (batch.table.clone(), batch.rows.len());
        assert_eq!(
            batches.iter().map(sizes).collect::<Vec<_>>(),
            ["b", "a", "b"].map(|table| (table.to_owned(), 1))
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
