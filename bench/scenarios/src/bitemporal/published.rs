//! What others have published of the same workload, or was measured elsewhere. Quoted, never
//! measured here.

use serde::Deserialize;

use super::objects::Op;

const TEXT: &str = include_str!("published.toml");
/// The operations that the columns stand for.
pub const COLUMNS: [Op; 6] = [
    Op::WriteOne,
    Op::WriteBatch,
    Op::ReadAll,
    Op::ReadBatch,
    Op::ByKey,
    Op::ById,
];

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Who says so.
    pub source: String,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// Rows.
    #[serde(rename = "system")]
    pub systems: Vec<System>,
}

/// A row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The system.
    pub name: String,
    /// Clients at once.
    pub clients: u32,
    /// By column: objects a second of each client, the 99th percentile in milliseconds in
    /// parentheses; empty where nothing was published.
    pub cells: Vec<String>,
}

/// All of it.
pub fn published() -> Published {
    toml::from_str(TEXT).expect("the file is part of the program, and a test reads it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_cell_for_each_column() {
        let published = published();
        assert_eq!(published.heads.len(), COLUMNS.len());
        for system in &published.systems {
            assert_eq!(system.cells.len(), COLUMNS.len(), "{}", system.name);
        }
        for clients in [1, 8] {
            let rows = published
                .systems
                .iter()
                .filter(|row| row.clients == clients);
            assert_eq!(rows.count(), 4);
        }
    }
}
