//! Row content with links in it: what is to be written at the other ends of relationships.
//!
//! A link is sent as the id of a row, as an object that is written to the related table and linked
//! to, or as a list of these. Everything becomes one batch: related rows first, then the row itself
//! with the links it holds, then the links that others hold to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use model::history::Range;
use model::{Action, Catalogue, ColumnKey, Json, Relation, RowId, Table, Value};
use store::batch::BATCH_ROWS_MAX;
use store::{LinkOp, Op, RelatedOp, RowOp};

use crate::error::{EngineError, WriteError};
use crate::read::related_plan::beside;
use crate::request::authorize;
use crate::request::inputs::{Caller, Place, RowInput};
use crate::request::times;
use crate::write::row_ops::put;

/// How deep rows may be written inside rows (wire protocol, 2.4).
const DEPTH_MAX: usize = 3;

/// Who writes, where, under which catalogue.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) caller: &'a Caller,
    pub(crate) database: &'a str,
}

/// A row to write, with its links taken out of its content.
pub(crate) struct Linked<'r> {
    /// The row without the members that are links.
    pub(crate) row: Cow<'r, RowInput>,
    /// The values of the columns that hold links, by position.
    pub(crate) held: Vec<(usize, Value)>,
    /// What must stand before the row is written.
    before: Vec<Op>,
    /// What follows it.
    after: Vec<Op>,
}

impl Linked<'_> {
    /// All operations in their order, `op` being the row's own.
    pub(crate) fn into_ops(self, op: Op) -> Vec<Op> {
        let mut ops = self.before;
        ops.push(op);
        ops.extend(self.after);
        ops
    }
}

/// Takes the links out of a row's content.
///
/// # Errors
/// [`WriteError::Relationship`] for a value that is no link, and whatever keeps a related row from
/// being written.
pub(crate) fn take_apart<'r>(
    scene: Scene<'_>,
    table: &Arc<Table>,
    row: &'r RowInput,
) -> Result<Linked<'r>, EngineError> {
    let mut count = 0;
    let range = times::range(&row.members).map_err(WriteError::Structure)?;
    Writing {
        scene,
        depth: 0,
        count: &mut count,
        range,
    }
    .take_apart(table, row)
}

/// As [`take_apart`], over a period that the row's data does not name. That linked rows are there
/// is judged at the end of the batch alone, so that they may be written after the links to them.
pub(crate) fn take_apart_over<'r>(
    scene: Scene<'_>,
    table: &Arc<Table>,
    row: &'r RowInput,
    range: Range,
) -> Result<Linked<'r>, EngineError> {
    let mut count = 0;
    let mut writing = Writing {
        scene,
        depth: 0,
        count: &mut count,
        range: Some(range),
    };
    let mut linked = writing.take_apart(table, row)?;
    let is_needed_first =
        |op: &Op| matches!(op, Op::Related(op) if matches!(**op, RelatedOp::Need { .. }));
    linked.before.retain(|op| !is_needed_first(op));
    Ok(linked)
}

/// One row among those that are written together.
struct Writing<'a> {
    scene: Scene<'a>,
    depth: usize,
    /// Links seen so far, of all rows.
    count: &'a mut usize,
    /// Over which valid period it is written, if its data names one.
    range: Option<Range>,
}

/// One link as sent.
struct Link {
    id: RowId,
    /// The content of the row to write, if it is more than an id.
    members: Option<Vec<(String, Json)>>,
}

impl Writing<'_> {
    fn take_apart<'r>(
        &mut self,
        table: &Arc<Table>,
        row: &'r RowInput,
    ) -> Result<Linked<'r>, EngineError> {
        let mut linked = Linked {
            row: Cow::Borrowed(row),
            held: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        };
        if !table.has_relationships() {
            return Ok(linked);
        }
        let is_link = |(key, _): &(String, Json)| end(table, key).is_some();
        if !row.members.iter().any(is_link) {
            return Ok(linked);
        }
        let mut own = row.clone();
        own.members.retain(|member| !is_link(member));
        linked.row = Cow::Owned(own);
        let mut taken: Vec<usize> = Vec::new();
        // Of equal keys the last one counts.
        for (key, json) in row.members.iter().rev() {
            let Some((position, relation)) = end(table, key) else {
                continue;
            };
            if taken.contains(&position) {
                continue;
            }
            taken.push(position);
            let key = &table.columns[position].key;
            let links = self.links(key, relation, json)?;
            self.write(table, &row.id, (position, relation), links, &mut linked)?;
        }
        Ok(linked)
    }

    /// Adds what one column's links need.
    fn write(
        &mut self,
        table: &Arc<Table>,
        id: &RowId,
        (position, relation): (usize, &Relation),
        links: Vec<Link>,
        linked: &mut Linked<'_>,
    ) -> Result<(), EngineError> {
        let caller = self.scene.caller;
        let place = Place {
            database: self.scene.database,
            table: relation.related.as_str(),
        };
        let related = authorize::table(self.scene.catalogue, caller, place)?;
        let key = &table.columns[position].key;
        let mut ids = Vec::with_capacity(links.len());
        for Link { id, members } in links {
            match members {
                Some(members) => self.write_related(related, &id, members, linked)?,
                None => linked.before.push(Op::Related(Box::new(RelatedOp::Need {
                    table: Arc::clone(related),
                    id: id.clone(),
                    guard: authorize::guard(related, &caller.actor, &[Action::Read]),
                    column: key.to_string(),
                    at_any_time: self.range.is_some(),
                }))),
            }
            ids.push(id);
        }
        if relation.holds_links() {
            linked.held.push((position, held(ids, relation)));
            return Ok(());
        }
        let holder = related.numbered(relation.partner);
        linked
            .after
            .push(Op::Related(Box::new(RelatedOp::Link(LinkOp {
                table: Arc::clone(related),
                column: holder.expect("a relationship has two ends in one catalogue"),
                target: id.clone(),
                holders: ids,
                guard: authorize::guard(related, &caller.actor, &[Action::Update]),
                range: self.range,
            }))));
        Ok(())
    }

    /// A row written inside another one: with its own links, and judged like a row of its own. It
    /// is written over the same period, unless it names one itself.
    fn write_related(
        &mut self,
        table: &Arc<Table>,
        id: &RowId,
        members: Vec<(String, Json)>,
        linked: &mut Linked<'_>,
    ) -> Result<(), EngineError> {
        let row = RowInput {
            id: id.clone(),
            members,
            permissions: None,
        };
        let own = times::range(&row.members).map_err(WriteError::Structure)?;
        let range = own.or(self.range);
        let mut inner = Writing {
            scene: self.scene,
            depth: self.depth + 1,
            count: self.count,
            range,
        };
        let inner = inner.take_apart(table, &row)?;
        let op = put(table, &self.scene.caller.actor, &inner.row, &inner.held)?;
        linked.before.extend(inner.before);
        let op = RelatedOp::Write(RowOp { range, ..op });
        linked.before.push(Op::Related(Box::new(op)));
        linked.before.extend(inner.after);
        Ok(())
    }

    fn links(
        &mut self,
        key: &ColumnKey,
        relation: &Relation,
        json: &Json,
    ) -> Result<Vec<Link>, EngineError> {
        let links = match (json, relation.is_list()) {
            (Json::Null, _) => Vec::new(),
            (Json::List(elements), true) => elements.iter().collect(),
            (other, true) => {
                let got = other.kind();
                return Err(refuse(
                    key,
                    format!("expected an array of links, got {got}"),
                ));
            }
            (single, false) => vec![single],
        };
        *self.count += links.len();
        if *self.count > BATCH_ROWS_MAX {
            let why = format!("more than {BATCH_ROWS_MAX} links in one request");
            return Err(refuse(key, why));
        }
        let mut found: Vec<Link> = Vec::with_capacity(links.len());
        let mut places: HashMap<RowId, usize> = HashMap::with_capacity(links.len());
        for json in links {
            let link = self.link(key, json)?;
            // One row is linked to once, however often it is named.
            if let Some(place) = places.get(&link.id) {
                let known = &mut found[*place];
                known.members = link.members.or(known.members.take());
            } else {
                places.insert(link.id.clone(), found.len());
                found.push(link);
            }
        }
        Ok(found)
    }

    fn link(&self, key: &ColumnKey, json: &Json) -> Result<Link, EngineError> {
        let wanted = "expected the id of a row, or an object with its `$id`";
        let id = |text: &str| RowId::new(text).map_err(|error| refuse(key, error.to_string()));
        match json {
            Json::Text(text) => Ok(Link {
                id: id(text)?,
                members: None,
            }),
            Json::Object(members) => {
                let Some(Json::Text(text)) = json.get("$id") else {
                    return Err(refuse(key, wanted.to_owned()));
                };
                let id = id(text)?;
                if members.iter().all(|(name, _)| name == "$id") {
                    return Ok(Link { id, members: None });
                }
                if self.depth >= DEPTH_MAX {
                    let why = format!("rows can be written {DEPTH_MAX} levels deep");
                    return Err(refuse(key, why));
                }
                let members = Some(members.clone());
                Ok(Link { id, members })
            }
            other => Err(refuse(key, format!("{wanted}, got {}", other.kind()))),
        }
    }
}

/// The end of a relationship that content calls `key`.
fn end<'t>(table: &'t Table, key: &str) -> Option<(usize, &'t Relation)> {
    let position = table.position(key)?;
    Some((position, table.columns[position].relation()?))
}

/// What the column holds; no links are no value.
fn held(ids: Vec<RowId>, relation: &Relation) -> Value {
    let mut links = ids.iter().map(|id| Value::Text(id.to_string()));
    if !relation.is_list() {
        return links.next().unwrap_or(Value::Null);
    }
    let links: Vec<Value> = links.collect();
    if links.is_empty() {
        Value::Null
    } else {
        Value::List(links)
    }
}

fn refuse(key: &ColumnKey, why: String) -> EngineError {
    EngineError::Write(WriteError::Relationship(format!("Column `{key}`: {why}.")))
}

/// The selection that shows what the links in `members` lead to, as deep as they were written.
pub(crate) fn shown(
    catalogue: &Catalogue,
    table: &Table,
    members: &[(String, Json)],
) -> Vec<query::RelatedNames> {
    let mut shown: Vec<query::RelatedNames> = Vec::new();
    for (key, json) in members {
        let Some((column, relation)) = end(table, key) else {
            continue;
        };
        let related = beside(catalogue, table, relation);
        let mut names = vec!["*".to_owned()];
        if let Some(related) = related {
            write_names(catalogue, related, json, "", DEPTH_MAX - 1, &mut names);
        }
        shown.retain(|known| known.column != column);
        shown.push(query::RelatedNames { column, names });
    }
    shown
}

fn write_names(
    catalogue: &Catalogue,
    table: &Table,
    json: &Json,
    path: &str,
    depth: usize,
    names: &mut Vec<String>,
) {
    match json {
        Json::List(elements) => {
            for element in elements {
                write_names(catalogue, table, element, path, depth, names);
            }
        }
        Json::Object(members) if depth > 0 => {
            for (key, json) in members {
                let Some((_, relation)) = end(table, key) else {
                    continue;
                };
                let name = format!("{path}{key}.*");
                if !names.contains(&name) {
                    names.push(name);
                }
                if let Some(related) = beside(catalogue, table, relation) {
                    let path = format!("{path}{key}.");
                    write_names(catalogue, related, json, &path, depth - 1, names);
                }
            }
        }
        _ => {}
    }
}
