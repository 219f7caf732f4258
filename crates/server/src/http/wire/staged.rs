//! Transactions of clients, and rows that are only staged, as answers show them.

use engine::{RowInput, Transaction, status_text};
use model::{Json, Table, Timestamp};

use super::object::Object;
use super::{Words, json, list, list_envelope};

/// One transaction.
pub fn transaction(transaction: &Transaction) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_transaction(transaction, &mut out);
    out
}

/// A page of transactions.
pub fn transactions(total: u64, transactions: &[Transaction]) -> Vec<u8> {
    list("transactions", total, transactions, write_transaction)
}

fn write_transaction(transaction: &Transaction, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.text("$id", &transaction.id);
    object.instant("$createdAt", transaction.created);
    object.instant("$updatedAt", transaction.updated);
    object.text("status", status_text(transaction.status));
    object.number("operations", transaction.operation_count as i64);
    object.instant("expiresAt", transaction.expires);
    object.close();
}

/// A list of rows that many staged changes answer: how many there are, and none of them.
pub fn staged_rows(total: u64, words: &Words) -> Vec<u8> {
    let (mut out, close) = list_envelope(words.rows, total);
    out.extend_from_slice(close);
    out
}

/// A row as it was sent, which could not be written as it is: with what every row has, so that
/// typed clients can read it. It has no place in the order of rows yet.
pub fn sent_row(table: &Table, row: &RowInput, now: Timestamp, words: &Words) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut object = Object::open(&mut out);
    object.plain("$id", row.id.as_str());
    object.plain("$sequence", "0");
    object.instant("$createdAt", now);
    object.instant("$updatedAt", now);
    let permissions = row.permissions.as_deref().unwrap_or_default();
    object.array("$permissions", permissions, |text, out| json(out, text));
    object.plain("$databaseId", table.database.as_str());
    object.plain(words.table_of_row, table.id.as_str());
    object.close_with(|out| {
        let mut is_first = true;
        for (key, value) in shown(table, row) {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            json(out, &key);
            out.push(b':');
            out.extend_from_slice(value.to_string().as_bytes());
        }
    });
    out
}

/// The members sent, each once, and the columns that were not.
fn shown<'a>(table: &'a Table, row: &'a RowInput) -> Vec<(&'a str, Json)> {
    let mut shown: Vec<(&str, Json)> = Vec::new();
    for (key, value) in row.members.iter().filter(|(key, _)| !key.starts_with('$')) {
        shown.retain(|(known, _)| known != key);
        shown.push((key, value.clone()));
    }
    for column in &table.columns {
        let key = column.key.as_str();
        if column.relation().is_none() && shown.iter().all(|(known, _)| *known != key) {
            let empty = if column.array {
                Json::List(Vec::new())
            } else {
                Json::Null
            };
            shown.push((key, empty));
        }
    }
    shown
}
