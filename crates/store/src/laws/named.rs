//! What batches name: the rows that are read before the laws run on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Edit, Field, Index, IndexKind, Mark, Patch, RowId, Table, TableNumber, Value};

use super::bulk_rows::RowsWanted;
use crate::batch::{Op, RelatedOp, WriteBatch};
use crate::row_op::{RowAct, RowOp};

/// The rows that the batches name, and the values that they give to unique indexes.
pub(crate) fn named(batches: &[WriteBatch]) -> Vec<RowsWanted<'_>> {
    let ops = || batches.iter().flat_map(|batch| &batch.ops);
    let mut named = NamedRows {
        of_tables: BTreeMap::new(),
        asks_changes: ops().any(|op| matches!(op, Op::Since(since) if since.mark.is_some())),
    };
    for op in ops() {
        match op {
            Op::Row(op) => named.add_op(op),
            Op::Related(op) => match &**op {
                RelatedOp::Need { table, id, .. } | RelatedOp::NeedUnlinked { table, id, .. } => {
                    named.add(table, id);
                }
                RelatedOp::Write(op) | RelatedOp::Alone(op) => named.add_op(op),
                RelatedOp::Link(op) => op.holders.iter().for_each(|id| named.add(&op.table, id)),
                RelatedOp::Free(op) | RelatedOp::Hold(op) => {
                    named.add(&op.table, &op.id);
                    op.links.iter().for_each(|id| named.add(&op.related, id));
                }
            },
            Op::Matching(_)
            | Op::Catalogue(_)
            | Op::Transaction(_)
            | Op::Function(_)
            | Op::Since(_)
            | Op::Once(_) => {}
        }
    }
    named.of_tables.into_values().collect()
}

struct NamedRows<'a> {
    of_tables: BTreeMap<TableNumber, RowsWanted<'a>>,
    asks_changes: bool,
}

impl<'a> NamedRows<'a> {
    fn of(&mut self, table: &'a Arc<Table>) -> &mut RowsWanted<'a> {
        let wanted = || RowsWanted {
            table,
            ids: Vec::new(),
            holders: Vec::new(),
            since: Mark::ZERO,
            asks_changes: self.asks_changes,
        };
        self.of_tables.entry(table.number).or_insert_with(wanted)
    }

    fn add(&mut self, table: &'a Arc<Table>, id: &'a RowId) {
        self.of(table).ids.push(id.as_str());
    }

    fn add_op(&mut self, op: &'a RowOp) {
        self.add(&op.table, &op.id);
        let unique = |index: &&Index| index.kind == IndexKind::Unique && index.is_available();
        for index in op.table.indexes.iter().filter(unique) {
            let fields = index.columns.iter().map(|part| part.field);
            let values: Option<Vec<Value>> = fields.map(|field| given(&op.act, field)).collect();
            let values = values.filter(|values| !values.contains(&Value::Null));
            let holders = &mut self.of(&op.table).holders;
            holders.extend(values.map(|values| (index, values)));
        }
    }
}

/// What the operation gives to a column, if it can be told before it runs.
fn given(act: &RowAct, field: Field) -> Option<Value> {
    let Field::Column(position) = field else {
        return None;
    };
    let set = |patch: &Patch| {
        let mut edits = patch.edits().iter();
        edits.find_map(|(at, edit)| match edit {
            Edit::Set(value) if *at == position => Some(value.clone()),
            _ => None,
        })
    };
    match act {
        RowAct::Insert { values, .. } | RowAct::Replace { values, .. } => {
            values.get(position).cloned()
        }
        RowAct::Update { patch, .. } => set(patch),
        RowAct::Put { patch, insert, .. } => {
            let inserted = insert.as_ref().ok();
            set(patch).or_else(|| inserted?.get(position).cloned())
        }
        RowAct::Resize { .. } | RowAct::Delete { .. } | RowAct::Erase | RowAct::Assert(_) => None,
    }
}
