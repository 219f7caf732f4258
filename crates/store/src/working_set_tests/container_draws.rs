//! Random operations on containers, of which there are few enough to meet.

use std::sync::Arc;

use model::{
    ApiKey, Catalogue, Column, ColumnKey, ColumnKind, ColumnNumber, DatabaseId, DatabaseKind,
    Direction, Field, Grantee, Index, IndexColumn, IndexKey, IndexKind, IndexStatus, KeyId,
    OnDelete, Past, ProjectId, Relation, RelationKind, Retention, RowId, Scope, Side, Storage,
    Table, TableId, TableNumber, Timestamp, Value,
};
use testing::{plain_column, plain_table};

use super::draws::{BatchDraws, NEVER_DUE};
use crate::batch::{CatalogueOp, Op, SchemaChange, SpaceLimit, WriteBatch};
use crate::row_op::{Guard, RowAct, RowOp, Stamps};

const PROJECTS: [&str; 2] = ["p", "q"];
const DATABASES: [&str; 2] = ["d", "e"];
const TABLES: [&str; 3] = ["t", "u", "w"];
const ROWS: u64 = 6;

pub(super) struct ContainerDraws {
    draws: BatchDraws,
    /// Of the next column or index.
    next_key: u32,
}

impl ContainerDraws {
    /// Those of one sequence.
    pub(super) fn of(sequence: u8) -> ContainerDraws {
        ContainerDraws {
            draws: BatchDraws::of(sequence, NEVER_DUE),
            next_key: 0,
        }
    }

    /// Some batches: of rows, or of containers, which may meet.
    pub(super) fn group(&mut self, catalogue: &Catalogue) -> Vec<WriteBatch> {
        let is_of_rows = self.draws.is_one_in(2);
        let count = 1 + self.draws.below(3);
        let batches = (0..count).map(|_| {
            let count = 1 + self.draws.below(2);
            let one = |_| {
                if is_of_rows {
                    self.row_op(catalogue)
                } else {
                    Op::Catalogue(self.op(catalogue))
                }
            };
            batch(catalogue, (0..count).map(one).collect())
        });
        batches.collect()
    }

    /// The table that tests of rows begin with goes.
    pub(super) fn without_first_table(catalogue: &Catalogue) -> WriteBatch {
        let table = catalogue.table_by_number(TableNumber(1)).unwrap();
        let (project, database) = (table.project.clone(), table.database.clone());
        let gone = CatalogueOp::DeleteTable(project, database, table.id.clone());
        batch(catalogue, vec![Op::Catalogue(gone)])
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.draws.below(all.len() as u64) as usize]
    }

    /// The first one more often.
    fn project(&mut self) -> ProjectId {
        let id = if self.draws.is_one_in(5) {
            self.one_of(&PROJECTS)
        } else {
            PROJECTS[0]
        };
        ProjectId::new(id).unwrap()
    }

    fn database(&mut self) -> DatabaseId {
        let id = if self.draws.is_one_in(5) {
            self.one_of(&DATABASES)
        } else {
            DATABASES[0]
        };
        DatabaseId::new(id).unwrap()
    }

    fn table_id(&mut self) -> TableId {
        TableId::new(self.one_of(&TABLES)).unwrap()
    }

    fn key(&mut self) -> String {
        self.next_key += 1;
        format!("k{}", self.next_key)
    }

    fn table(&mut self, catalogue: &Catalogue) -> Option<Arc<Table>> {
        let mut tables: Vec<&Arc<Table>> = catalogue.tables().collect();
        tables.sort_by_key(|table| table.number);
        let count = tables.len() as u64;
        (count > 0).then(|| Arc::clone(tables[self.draws.below(count) as usize]))
    }

    fn op(&mut self, catalogue: &Catalogue) -> CatalogueOp {
        let project = self.project();
        let database = self.database();
        let id = self.table_id();
        match self.draws.below(24) {
            0 if self.draws.is_one_in(4) => CatalogueOp::DeleteProject(project),
            0 | 1 => CatalogueOp::CreateProject {
                id: project,
                name: "ü'\"".to_owned(),
            },
            2 => CatalogueOp::CreateKey(self.api_key(project)),
            3 => CatalogueOp::RevokeKey(project, KeyId::new("key1").unwrap()),
            4 if self.draws.is_one_in(3) => CatalogueOp::DeleteDatabase(project, database),
            4 | 5 => CatalogueOp::CreateDatabase {
                project,
                id: database,
                name: self.key(),
                enabled: self.draws.is_one_in(2),
                kind: DatabaseKind::Legacy,
            },
            6 => CatalogueOp::UpdateDatabase {
                project,
                id: database,
                name: self.draws.is_one_in(2).then(|| "name".to_owned()),
                enabled: Some(self.draws.is_one_in(2)),
            },
            7 if self.draws.is_one_in(2) => CatalogueOp::DeleteTable(project, database, id),
            7..=9 => CatalogueOp::CreateTable(Box::new(new_table(project, database, id))),
            10 => CatalogueOp::UpdateTable {
                project,
                database,
                id,
                name: self.draws.is_one_in(2).then(|| "name".to_owned()),
                permissions: Some(Grantee::Table.parse(["read(\"any\")"]).unwrap()),
                row_security: Some(self.draws.is_one_in(2)),
                enabled: None,
            },
            11 => CatalogueOp::SetOptions {
                number: TableNumber(1 + self.draws.below(3) as i64),
                pinned_max_age_s: Some(self.draws.below(3) as u32),
                history: self.draws.is_one_in(3).then_some(Retention::Days(1)),
                past: self.draws.is_one_in(2).then_some(Past::Both),
                ttl_max_s: None,
            },
            _ => match self.table(catalogue) {
                Some(table) => CatalogueOp::ChangeSchema {
                    change: self.change(catalogue, &table),
                    table,
                },
                None => CatalogueOp::DeleteTable(project, database, id),
            },
        }
    }

    fn api_key(&mut self, project: ProjectId) -> ApiKey {
        let nth = self.draws.below(3) as u8;
        ApiKey {
            id: KeyId::new(&format!("key{nth}")).unwrap(),
            project,
            name: String::new(),
            scopes: Arc::from([Scope::RowsRead]),
            expires: self.draws.is_one_in(2).then_some(Timestamp(1)),
            secret_hash: [nth; 32],
            created: Timestamp(0),
        }
    }

    fn kind(&mut self) -> ColumnKind {
        match self.draws.below(6) {
            0 => ColumnKind::Varchar { chars_max: 20 },
            1 => ColumnKind::Text,
            2 => ColumnKind::Float {
                min: -0.5,
                max: 1.5,
            },
            3 => ColumnKind::Boolean,
            4 => ColumnKind::Enum {
                elements: ["a".to_owned(), "b\"".to_owned()].into(),
            },
            _ => ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
        }
    }

    fn change(&mut self, catalogue: &Catalogue, table: &Table) -> SchemaChange {
        let count = table.columns.len() as u64;
        let position = self.draws.below(count.max(1)) as usize;
        let Some(column) = table.columns.get(position).cloned() else {
            return self.new_column();
        };
        let is_end = column.relation().is_some();
        let is_indexed = table.indexes.iter().any(|index| {
            let mut parts = index.columns.iter();
            parts.any(|part| part.field == Field::Column(position))
        });
        match self.draws.below(10) {
            0 | 1 => self.relationship(catalogue, table),
            2 if is_end => SchemaChange::UpdateRelationship {
                number: column.number,
                key: ColumnKey::new(&self.key()).unwrap(),
                on_delete: OnDelete::Cascade,
            },
            2 | 3 if !is_end => SchemaChange::UpdateColumn(self.changed(column)),
            4 if is_end || !is_indexed => SchemaChange::DropColumn(column.number),
            5..=7 if !is_end && !column.array => {
                let kind = match (self.draws.below(3), column.kind.storage()) {
                    (0, _) => IndexKind::Unique,
                    (1, Storage::Text) => IndexKind::Fulltext,
                    _ => IndexKind::Key,
                };
                SchemaChange::AddIndex(index(&self.key(), kind, position))
            }
            8 if !table.indexes.is_empty() => {
                let nth = self.draws.below(table.indexes.len() as u64) as usize;
                SchemaChange::DropIndex(table.indexes[nth].number)
            }
            _ => self.new_column(),
        }
    }

    fn new_column(&mut self) -> SchemaChange {
        let (key, kind) = (self.key(), self.kind());
        let mut column = plain_column(0, &key, kind);
        column.array = self.draws.is_one_in(4);
        if !column.array && self.draws.is_one_in(3) {
            column.default = match column.kind.storage() {
                Storage::Text => Some(Value::Text("b\"".to_owned())),
                Storage::Float => Some(Value::Float(0.5)),
                _ => None,
            };
        }
        SchemaChange::AddColumn(column)
    }

    /// The column under another key, or with other limits.
    fn changed(&mut self, column: Column) -> Column {
        let kind = match &column.kind {
            ColumnKind::Varchar { .. } => ColumnKind::Varchar {
                chars_max: 1 + self.draws.below(4) as u32,
            },
            ColumnKind::Float { .. } => ColumnKind::Float {
                min: -2.5,
                max: 2.5,
            },
            other => other.clone(),
        };
        if kind != column.kind {
            return Column { kind, ..column };
        }
        let key = ColumnKey::new(&self.key()).unwrap();
        Column { key, ..column }
    }

    fn relationship(&mut self, catalogue: &Catalogue, table: &Table) -> SchemaChange {
        let project = catalogue.project(table.project.as_str()).unwrap();
        let tables = &project.databases[&table.database].tables;
        let mut tables: Vec<&Arc<Table>> = tables.values().collect();
        tables.sort_by_key(|table| table.number);
        let related = tables[self.draws.below(tables.len() as u64) as usize];
        let kinds = [
            RelationKind::OneToOne,
            RelationKind::ManyToOne,
            RelationKind::OneToMany,
            RelationKind::ManyToMany,
        ];
        let kind = kinds[self.draws.below(4) as usize];
        let keys = [self.key(), self.key()];
        let end = |side, [own, other]: [&str; 2], related: &TableId| {
            let relation = Relation {
                related: related.clone(),
                partner: ColumnNumber(0),
                partner_key: ColumnKey::new(other).unwrap(),
                kind,
                two_way: true,
                on_delete: OnDelete::SetNull,
                side,
                has_ended: false,
            };
            let array = relation.holds_links() && relation.is_list();
            let column = plain_column(0, own, ColumnKind::Relationship(relation));
            Column { array, ..column }
        };
        SchemaChange::AddRelationship {
            related: Arc::clone(related),
            column: end(Side::Parent, [&keys[0], &keys[1]], &related.id),
            partner: end(Side::Child, [&keys[1], &keys[0]], &table.id),
        }
    }

    fn row_op(&mut self, catalogue: &Catalogue) -> Op {
        let Some(table) = self.table(catalogue) else {
            return Op::Catalogue(self.op(catalogue));
        };
        let id = RowId::new(&format!("r{}", self.draws.below(ROWS))).unwrap();
        let value = |column: &Column| {
            if column.array || column.relation().is_some() || self.draws.is_one_in(4) {
                return Value::Null;
            }
            let small = self.draws.below(4);
            match column.kind.storage() {
                Storage::Text => Value::Text("ä".repeat(small as usize)),
                Storage::Int => Value::Int(small as i64),
                Storage::Float => Value::Float(small as f64 + 0.5),
                Storage::Bool => Value::Bool(small > 1),
                Storage::Instant => Value::Instant(Timestamp(small as i64)),
            }
        };
        let values: Vec<Value> = table.columns.iter().map(value).collect();
        let act = if self.draws.is_one_in(6) {
            RowAct::Delete { guard: Guard::Open }
        } else {
            RowAct::Put {
                patch: values
                    .iter()
                    .cloned()
                    .enumerate()
                    .collect::<Vec<_>>()
                    .into(),
                insert: Ok(values),
                permissions: None,
                insert_permissions: vec![],
                stamps: Stamps::default(),
                guard: Guard::Open,
            }
        };
        Op::Row(RowOp::now(table, id, act))
    }
}

fn batch(catalogue: &Catalogue, ops: Vec<Op>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops,
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: SpaceLimit::Any,
    }
}

fn index(key: &str, kind: IndexKind, position: usize) -> Index {
    Index {
        number: 0,
        key: IndexKey::new(key).unwrap(),
        kind,
        columns: vec![IndexColumn {
            field: Field::Column(position),
            direction: Direction::Desc,
            length: None,
            held: None,
        }],
        status: IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

fn new_table(project: ProjectId, database: DatabaseId, id: TableId) -> Table {
    let columns = vec![
        plain_column(1, "x", ColumnKind::Varchar { chars_max: 100 }),
        plain_column(2, "y", ColumnKind::Integer { min: -9, max: 9 }),
    ];
    let mut table = plain_table(id.as_str(), columns);
    (table.project, table.database) = (project, database);
    table.indexes.push(Index {
        number: 1,
        ..index("by_x", IndexKind::Unique, 0)
    });
    table
}
