//! Writes of every kind: rows one by one and many at once, operators, schemas, grants, containers.

use std::pin::Pin;
use std::sync::Arc;

use engine::{
    Bulk, Caller, ColumnChange, Engine, EngineError, Increment, NewRelationship, OptionsChange,
    Place, RowInput, TableChange,
};
use model::{
    Catalogue, DatabaseId, DatabaseKind, Json, ProjectId, RowId, Table, TableNumber, Timestamp,
};

use super::chance::Chance;
use super::domain::{
    self, Attribute, COLUMNS, DATABASES, IDS, Kind, LINK, PARTNERS, PROJECT, TABLES,
};
use super::fixture;
use super::question::{filter, table_at};
use super::temporal_transaction::{Claim, Ledger, transaction};
use super::timed::timed;

pub type Writing = Pin<Box<dyn Future<Output = Result<(), EngineError>>>>;

/// A write on its way.
pub struct Write {
    /// For the trace.
    pub what: String,
    pub writing: Writing,
    /// The table whose cached lists it drops.
    pub purges: Option<TableNumber>,
    /// What must be true once it has ended.
    pub claim: Option<Claim>,
}

/// More rows than a new read is checked against, and more than the images of a batch may
/// hold.
const MANY: [usize; 2] = [300, store::batch::IMAGES_MAX + 1];

/// Where writes are drawn, and for what.
pub struct Scene<'a> {
    pub chance: &'a mut Chance,
    pub engine: &'a Arc<Engine>,
    /// As of the state that stands.
    pub catalogue: &'a Catalogue,
    /// The instant it is.
    pub now: Timestamp,
    /// Whether many rows may be written at once.
    pub is_large: bool,
    /// Whether writes are staged in transactions, the next of which has this number.
    pub stages: Option<u64>,
    /// Whether rows are written at other times than now, and erased.
    pub travels: bool,
    pub ledger: &'a Ledger,
}

#[derive(Clone, Copy, Debug)]
enum Kinds {
    Create,
    Update,
    Upsert,
    Delete,
    Increment,
    CreateMany,
    UpsertMany,
    UpdateMatching,
    DeleteMatching,
    Column,
    Index,
    Table,
    Purge,
    Container,
}

impl Kinds {
    fn is_of_rows(self) -> bool {
        !matches!(
            self,
            Kinds::Column | Kinds::Index | Kinds::Table | Kinds::Purge | Kinds::Container
        )
    }
}

const WEIGHTS: [(usize, Kinds); 14] = [
    (10, Kinds::Create),
    (22, Kinds::Update),
    (10, Kinds::Upsert),
    (10, Kinds::Delete),
    (5, Kinds::Increment),
    (4, Kinds::CreateMany),
    (4, Kinds::UpsertMany),
    (5, Kinds::UpdateMatching),
    (2, Kinds::DeleteMatching),
    (3, Kinds::Column),
    (2, Kinds::Index),
    (4, Kinds::Table),
    (2, Kinds::Purge),
    (2, Kinds::Container),
];

/// A table that is there, and who writes.
pub struct Target {
    pub engine: Arc<Engine>,
    pub caller: Caller,
    pub database: &'static str,
    pub table: &'static str,
    pub columns: Vec<&'static Attribute>,
    has_link: bool,
    is_related: bool,
}

impl Target {
    pub fn place(&self) -> Place<'static> {
        Place {
            database: self.database,
            table: self.table,
        }
    }
}

pub fn draw(scene: &mut Scene<'_>) -> Write {
    if let Some(heals) = missing(scene) {
        return heals;
    }
    let (mut database, mut table) = place(scene.chance);
    if table_at(scene.catalogue, database, table).is_none() {
        if scene.chance.one_in(4) {
            return container(scene);
        }
        (database, table) = (DATABASES[0], TABLES[0]);
    }
    let known = table_at(scene.catalogue, database, table).expect("what is missing was put back");
    let kind = scene.chance.weighed(&WEIGHTS);
    let target = Target {
        engine: scene.engine.clone(),
        caller: match kind {
            Kinds::Create | Kinds::Update | Kinds::Upsert | Kinds::Delete
                if scene.chance.one_in(4) =>
            {
                scene.chance.pick(&domain::callers()).clone()
            }
            _ => fixture::key(),
        },
        database,
        table,
        columns: domain::columns_of(known),
        has_link: known.position(LINK).is_some(),
        is_related: known.has_relationships(),
    };
    if scene.travels && scene.chance.one_in(20) {
        return change_options(scene.chance, target);
    }
    if kind.is_of_rows() {
        if scene.travels && !target.is_related && scene.chance.one_in(4) {
            return timed(scene.chance, target, scene.now);
        }
        let stages = !scene.travels || scene.chance.one_in(3);
        if let Some(number) = scene.stages.filter(|_| stages) {
            return transaction(scene, target, number);
        }
    }
    match kind {
        Kinds::Create | Kinds::Update | Kinds::Upsert | Kinds::Delete | Kinds::Increment => {
            one_row(scene, target, kind)
        }
        Kinds::CreateMany | Kinds::UpsertMany => many_rows(scene, target, kind),
        Kinds::UpdateMatching | Kinds::DeleteMatching => matching_rows(scene, target, kind),
        Kinds::Column => column(scene, target, known),
        Kinds::Index => index(scene, target, known),
        Kinds::Table => change_table(scene, target),
        Kinds::Purge => purge(target, known.number),
        Kinds::Container => container(scene),
    }
}

pub fn write(
    what: String,
    writing: impl Future<Output = Result<(), EngineError>> + 'static,
) -> Write {
    Write {
        what,
        writing: Box::pin(writing),
        purges: None,
        claim: None,
    }
}

/// Mostly the one table, so that much happens to it.
fn place(chance: &mut Chance) -> (&'static str, &'static str) {
    let database = chance.weighed(&[(9, DATABASES[0]), (1, DATABASES[1])]);
    (database, chance.weighed(&[(4, TABLES[0]), (1, TABLES[1])]))
}

fn row_id(chance: &mut Chance) -> RowId {
    RowId::new(chance.pick::<&str>(&IDS)).expect("a legal id")
}

/// An instruction that computes a column from its value.
fn operator(chance: &mut Chance, of: &Attribute) -> Option<String> {
    let element = *chance.pick(of.values);
    let (method, values) = match (of.array, of.kind) {
        (true, _) => {
            let method = *chance.pick(&["arrayAppend", "arrayPrepend", "arrayRemove", "arrayDiff"]);
            (method, element)
        }
        (_, Kind::Number) => (*chance.pick(&["increment", "decrement", "multiply"]), "1,3"),
        (_, Kind::Text) => ("stringReplace", "\"a\",\"b\""),
        (_, Kind::Truth) => ("toggle", ""),
        (_, Kind::Instant) => (*chance.pick(&["dateSetNow", "dateAddDays"]), ""),
    };
    let values = if method == "dateAddDays" { "1" } else { values };
    let fits = of.word != "enum";
    fits.then(|| format!(r#"{{"method":"{method}","values":[{values}]}}"#))
}

type Members = Vec<(String, Json)>;

pub fn members(chance: &mut Chance, columns: &[&'static Attribute], may_operate: bool) -> Members {
    let mut members = Members::new();
    for of in columns {
        if chance.one_in(2) {
            continue;
        }
        let operator = operator(chance, of).filter(|_| may_operate && chance.one_in(5));
        let json = match operator {
            Some(operator) => Json::Text(operator),
            None => domain::json(&domain::value(chance, of)),
        };
        members.push((of.key.to_owned(), json));
    }
    if chance.one_in(8) {
        let of = &domain::SYSTEM[2 + chance.below(2)];
        let instant = domain::json(chance.pick::<&str>(of.values));
        members.push((of.key.to_owned(), instant));
    }
    members
}

pub fn input(chance: &mut Chance, target: &Target, id: RowId, may_operate: bool) -> RowInput {
    RowInput {
        id,
        members: members(chance, &target.columns, may_operate),
        permissions: chance.one_in(2).then(|| domain::row_grants(chance)),
    }
}

/// From when to when a row is to be valid: often soon, so that boundaries pass while others read.
fn period(chance: &mut Chance, now: Timestamp, members: &mut Members) {
    let at = |by_ms: i64| Json::Int(now.0 + by_ms * 1_000);
    let from = chance.weighed(&[(4, 1), (2, 2), (2, 300), (1, 0), (1, -2_000)]);
    let length = chance.weighed(&[(4, 1), (3, 299), (1, 2_000)]);
    if !chance.one_in(4) {
        members.push(("$validFrom".to_owned(), at(from)));
    }
    match chance.below(4) {
        0 => members.push(("$validTo".to_owned(), Json::Text("next".to_owned()))),
        1 => members.push(("$validTo".to_owned(), Json::Null)),
        _ => members.push(("$validTo".to_owned(), at(from.max(0) + length))),
    }
}

fn one_row(scene: &mut Scene<'_>, target: Target, kind: Kinds) -> Write {
    let now = scene.now;
    let chance = &mut *scene.chance;
    let id = row_id(chance);
    let mut row = input(chance, &target, id.clone(), !matches!(kind, Kinds::Create));
    if target.has_link && chance.one_in(2) {
        row.members.push((LINK.to_owned(), link(chance)));
    }
    let is_timed = !target.is_related && chance.one_in(3);
    if is_timed && matches!(kind, Kinds::Create | Kinds::Update | Kinds::Upsert) {
        period(chance, now, &mut row.members);
    }
    let number = *chance.pick(&["n", "m", "f"]);
    let is_down = chance.one_in(2);
    let what = match kind {
        Kinds::Increment => format!(
            "{kind:?} {}.{} {id} {number}",
            target.database, target.table
        ),
        Kinds::Delete => format!("{kind:?} {}.{} {id}", target.database, target.table),
        _ => format!("{kind:?} {}.{} {row:?}", target.database, target.table),
    };
    write(what, async move {
        let (engine, caller, place) = (&target.engine, &target.caller, target.place());
        match kind {
            Kinds::Create => engine.create_row(caller, place, row).await.map(drop),
            Kinds::Update => engine.update_row(caller, place, row, None).await.map(drop),
            Kinds::Upsert => engine.upsert_row(caller, place, row, None).await.map(drop),
            Kinds::Delete => engine.delete_row(caller, place, id, None).await.map(drop),
            _ => {
                let asked = Increment {
                    id,
                    column: number,
                    is_down,
                    by: Json::Int(1),
                    bound: None,
                    unchanged_since: None,
                };
                engine.increment_row(caller, place, &asked).await.map(drop)
            }
        }
    })
}

fn many_rows(scene: &mut Scene<'_>, target: Target, kind: Kinds) -> Write {
    let chance = &mut *scene.chance;
    let is_large = scene.is_large && chance.one_in(4);
    let mut ids: Vec<String> = if is_large {
        (0..*chance.pick(&MANY))
            .map(|number| format!("x{number}"))
            .collect()
    } else {
        (0..2 + chance.below(3))
            .map(|_| (*chance.pick(&IDS)).to_owned())
            .collect()
    };
    ids.sort();
    ids.dedup();
    put_rows(
        chance,
        target,
        ids,
        if is_large { Kinds::UpsertMany } else { kind },
    )
}

/// A row of the other table, or none.
fn link(chance: &mut Chance) -> Json {
    if chance.one_in(4) {
        return Json::Null;
    }
    Json::Text((*chance.pick(&IDS)).to_owned())
}

fn put_rows(chance: &mut Chance, target: Target, ids: Vec<String>, kind: Kinds) -> Write {
    let mut rows: Vec<RowInput> = Vec::new();
    for id in ids {
        let mut row = input(chance, &target, RowId::new(&id).expect("a legal id"), false);
        let grants = row.permissions.take().unwrap_or_default();
        let grants = grants.into_iter().map(Json::Text).collect();
        row.members
            .push(("$permissions".to_owned(), Json::List(grants)));
        rows.push(row);
    }
    let shown = &rows[..rows.len().min(IDS.len())];
    let count = rows.len();
    let what = format!(
        "{kind:?} {}.{} {count} rows {shown:?}",
        target.database, target.table
    );
    write(what, async move {
        let (engine, caller, place) = (&target.engine, &target.caller, target.place());
        match kind {
            Kinds::CreateMany => engine.create_rows(caller, place, rows).await.map(drop),
            _ => engine
                .upsert_rows(caller, place, rows, None)
                .await
                .map(drop),
        }
    })
}

fn matching_rows(scene: &mut Scene<'_>, target: Target, kind: Kinds) -> Write {
    let chance = &mut *scene.chance;
    let mut columns = target.columns.clone();
    columns.extend(&domain::SYSTEM);
    let mut texts = vec![filter(chance, &columns, 1)];
    if scene.is_large && chance.one_in(3) {
        texts.clear();
    }
    let members = members(chance, &target.columns, true);
    let what = format!(
        "{kind:?} {}.{} {texts:?} {members:?}",
        target.database, target.table
    );
    write(what, async move {
        let asked = Bulk {
            place: target.place(),
            texts: &texts,
            unchanged_since: None,
        };
        let (engine, caller) = (&target.engine, &target.caller);
        match kind {
            Kinds::UpdateMatching => engine.update_rows(caller, &asked, &members).await.map(drop),
            _ => engine.delete_rows(caller, &asked, &[]).await.map(drop),
        }
    })
}

fn column(scene: &mut Scene<'_>, target: Target, known: &Table) -> Write {
    let chance = &mut *scene.chance;
    let absent: Vec<&Attribute> = COLUMNS
        .iter()
        .filter(|one| known.position(one.key).is_none())
        .collect();
    let renames: Vec<(&str, &str)> = PARTNERS
        .iter()
        .flat_map(|(one, other)| [(*one, *other), (*other, *one)])
        .filter(|(from, to)| known.position(from).is_some() && known.position(to).is_none())
        .collect();
    let at = |act: &str| format!("{act} {}.{}", target.database, target.table);
    match chance.below(3) {
        0 if !absent.is_empty() => {
            let new = domain::new_column(chance.pick::<&Attribute>(&absent));
            write(format!("{} {}", at("CreateColumn"), new.key), async move {
                let (engine, caller) = (&target.engine, &target.caller);
                engine
                    .create_column(caller, target.place(), &new)
                    .await
                    .map(drop)
            })
        }
        1 if !renames.is_empty() => {
            let (from, to) = *chance.pick(&renames);
            let of = COLUMNS
                .iter()
                .find(|one| one.key == from)
                .expect("a column");
            let elements = domain::new_column(of).elements;
            let wanted = ColumnChange {
                kind: of.word,
                new_key: Some(to.to_owned()),
                elements,
                ..ColumnChange::default()
            };
            write(
                format!("{} {from} to {to}", at("RenameColumn")),
                async move {
                    let (engine, caller) = (&target.engine, &target.caller);
                    let changed = engine.update_column(caller, target.place(), from, &wanted);
                    changed.await.map(drop)
                },
            )
        }
        _ => {
            let key = chance.pick(&COLUMNS).key;
            write(format!("{} {key}", at("DeleteColumn")), async move {
                let (engine, caller) = (&target.engine, &target.caller);
                engine.delete_column(caller, target.place(), key).await
            })
        }
    }
}

fn index(scene: &mut Scene<'_>, target: Target, known: &Table) -> Write {
    let chance = &mut *scene.chance;
    let at = |act: &str| format!("{act} {}.{}", target.database, target.table);
    if !known.indexes.is_empty() && chance.one_in(2) {
        let key = chance.pick(&known.indexes).key.as_str().to_owned();
        return write(format!("{} {key}", at("DeleteIndex")), async move {
            let (engine, caller) = (&target.engine, &target.caller);
            engine.delete_index(caller, target.place(), &key).await
        });
    }
    let new = domain::new_index(chance, &target.columns);
    write(format!("{} {new:?}", at("CreateIndex")), async move {
        let (engine, caller) = (&target.engine, &target.caller);
        engine
            .create_index(caller, target.place(), &new)
            .await
            .map(drop)
    })
}

fn change_table(scene: &mut Scene<'_>, target: Target) -> Write {
    let chance = &mut *scene.chance;
    let mut wanted = TableChange::default();
    match chance.below(8) {
        0..=3 => wanted.permissions = Some(domain::table_grants(chance)),
        4..=5 => wanted.row_security = Some(chance.one_in(2)),
        6 => wanted.enabled = Some(!chance.one_in(3)),
        _ => wanted.name = Some(format!("T{}", chance.below(3))),
    }
    let what = format!(
        "UpdateTable {}.{} {wanted:?}",
        target.database, target.table
    );
    write(what, async move {
        let (engine, caller) = (&target.engine, &target.caller);
        engine
            .update_table(caller, target.place(), wanted)
            .await
            .map(drop)
    })
}

/// How much of its past a table keeps.
fn change_options(chance: &mut Chance, target: Target) -> Write {
    let history = chance.weighed(&[(4, "keep"), (2, "days(1)"), (1, "none")]);
    let what = format!("SetOptions {}.{} {history}", target.database, target.table);
    write(what, async move {
        let wanted = OptionsChange {
            history: Some(history.to_owned()),
            ..OptionsChange::default()
        };
        let (engine, caller) = (&target.engine, &target.caller);
        let set = engine.set_table_options(caller, target.place(), &wanted);
        set.await.map(drop)
    })
}

fn purge(target: Target, number: TableNumber) -> Write {
    let what = format!("Purge {}.{}", target.database, target.table);
    let change = TableChange {
        purge: true,
        ..TableChange::default()
    };
    let writing = async move {
        let (engine, caller) = (&target.engine, &target.caller);
        engine
            .update_table(caller, target.place(), change)
            .await
            .map(drop)
    };
    Write {
        purges: Some(number),
        ..write(what, writing)
    }
}

/// Purges of every table there is.
pub fn purges(scene: &mut Scene<'_>) -> Vec<Write> {
    let places = DATABASES
        .iter()
        .flat_map(|database| TABLES.iter().map(move |table| (*database, *table)));
    let known = places.filter_map(|(database, table)| {
        let number = table_at(scene.catalogue, database, table)?.number;
        let target = Target {
            engine: scene.engine.clone(),
            caller: fixture::key(),
            database,
            table,
            columns: Vec::new(),
            has_link: false,
            is_related: false,
        };
        Some(purge(target, number))
    });
    known.collect()
}

/// Puts back a container without which most questions are refused.
fn missing(scene: &mut Scene<'_>) -> Option<Write> {
    let Some(project) = scene.catalogue.project(PROJECT) else {
        return Some(create_project(scene));
    };
    let Some(database) = project.databases.get(DATABASES[0]) else {
        return Some(create_database(scene, DATABASES[0]));
    };
    let is_there = |table: &&str| database.tables.contains_key(*table);
    if !is_there(&TABLES[0]) {
        return Some(create_table(scene, DATABASES[0], TABLES[0]));
    }
    if !is_there(&TABLES[1]) && scene.chance.one_in(3) {
        return Some(create_table(scene, DATABASES[0], TABLES[1]));
    }
    if !database.enabled && scene.chance.one_in(2) {
        return Some(enable_database(scene, DATABASES[0], true));
    }
    let is_shown = database.tables[TABLES[0]].enabled || !scene.chance.one_in(2);
    (!is_shown).then(|| enable_table(scene))
}

fn create_project(scene: &Scene<'_>) -> Write {
    let engine = scene.engine.clone();
    write("CreateProject".to_owned(), async move {
        let id = ProjectId::new(PROJECT).expect("a legal id");
        engine.create_project(id, "P".to_owned()).await.map(drop)
    })
}

fn create_database(scene: &Scene<'_>, id: &'static str) -> Write {
    let engine = scene.engine.clone();
    write(format!("CreateDatabase {id}"), async move {
        let kind = DatabaseKind::Tablesdb;
        let id = DatabaseId::new(id).expect("a legal id");
        let key = fixture::key();
        let created = engine.create_database(&key, id, "D".to_owned(), true, kind);
        created.await.map(drop)
    })
}

fn create_table(scene: &mut Scene<'_>, database: &'static str, id: &str) -> Write {
    let engine = scene.engine.clone();
    let new = domain::new_table(scene.chance, id);
    write(format!("CreateTable {database} {new:?}"), async move {
        engine
            .create_table(&fixture::key(), database, new)
            .await
            .map(drop)
    })
}

fn enable_database(scene: &Scene<'_>, id: &'static str, enabled: bool) -> Write {
    let engine = scene.engine.clone();
    write(format!("UpdateDatabase {id} {enabled}"), async move {
        let key = fixture::key();
        let changed = engine.update_database(&key, id, None, Some(enabled));
        changed.await.map(drop)
    })
}

fn enable_table(scene: &Scene<'_>) -> Write {
    let engine = scene.engine.clone();
    let place = Place {
        database: DATABASES[0],
        table: TABLES[0],
    };
    let change = TableChange {
        enabled: Some(true),
        ..TableChange::default()
    };
    write("UpdateTable enabled".to_owned(), async move {
        let key = fixture::key();
        engine.update_table(&key, place, change).await.map(drop)
    })
}

/// Makes or removes a project, a database or a table, or hides a database.
fn container(scene: &mut Scene<'_>) -> Write {
    let engine = scene.engine.clone();
    let (database, table) = (*scene.chance.pick(&DATABASES), *scene.chance.pick(&TABLES));
    let known = scene.catalogue.project(PROJECT);
    let known = known.and_then(|project| project.databases.get(database));
    let Some(known) = known else {
        return create_database(scene, database);
    };
    let place = Place { database, table };
    let is_enabled = known.enabled;
    if !known.tables.contains_key(table) {
        return create_table(scene, database, table);
    }
    match scene.chance.below(16) {
        0 => write("DeleteProject".to_owned(), async move {
            engine.delete_project(PROJECT).await
        }),
        1..=2 => write(format!("DeleteDatabase {database}"), async move {
            engine.delete_database(&fixture::key(), database).await
        }),
        3..=5 => enable_database(scene, database, !is_enabled),
        _ => write(format!("DeleteTable {database}.{table}"), async move {
            engine.delete_table(&fixture::key(), place).await
        }),
    }
}

/// Rows for the tables that most questions are about.
pub fn population(scene: &mut Scene<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for table in TABLES {
        let Some(known) = table_at(scene.catalogue, DATABASES[0], table) else {
            continue;
        };
        let engine = scene.engine.clone();
        let target = || Target {
            engine: engine.clone(),
            caller: fixture::key(),
            database: DATABASES[0],
            table,
            columns: domain::columns_of(known),
            has_link: known.position(LINK).is_some(),
            is_related: known.has_relationships(),
        };
        if known.has_relationships() {
            // Many rows at once may have no links.
            for _ in IDS {
                writes.push(one_row(scene, target(), Kinds::Upsert));
            }
        } else {
            let ids = IDS.iter().filter(|_| !scene.chance.one_in(5));
            let ids: Vec<String> = ids.map(|id| (*id).to_owned()).collect();
            writes.push(put_rows(scene.chance, target(), ids, Kinds::UpsertMany));
        }
    }
    writes
}

/// Links the first table to the second.
pub fn relate(scene: &mut Scene<'_>) -> Write {
    let engine = scene.engine.clone();
    let new = NewRelationship {
        related: TABLES[1].to_owned(),
        kind: "manyToOne".to_owned(),
        two_way: scene.chance.one_in(2),
        key: Some(LINK.to_owned()),
        partner_key: Some("back".to_owned()),
        on_delete: Some((*scene.chance.pick(&["cascade", "setNull", "restrict"])).to_owned()),
    };
    let place = Place {
        database: DATABASES[0],
        table: TABLES[0],
    };
    write(format!("CreateRelationship {new:?}"), async move {
        let key = fixture::key();
        engine
            .create_relationship(&key, place, &new)
            .await
            .map(drop)
    })
}

/// The containers that stand when a simulation begins.
pub fn furniture(scene: &mut Scene<'_>) -> Vec<Write> {
    let mut all = vec![create_project(scene), create_database(scene, DATABASES[0])];
    all.push(create_table(scene, DATABASES[0], TABLES[0]));
    all.push(create_table(scene, DATABASES[0], TABLES[1]));
    all
}
