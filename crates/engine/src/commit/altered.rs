//! What a group alters, as the cached lists are told.

use list_cache::Batch;
use model::{Catalogue, CatalogueChange, DatabaseId, ProjectId};
use store::{Changes, Pending};

use crate::commit::change_limit;

/// What becomes due, for the cached lists.
pub(super) fn due(pending: &dyn Pending) -> Batch {
    let mut batch = Batch {
        next: pending.boundaries(),
        ..Batch::default()
    };
    for changes in pending.due() {
        match changes {
            Changes::Images(changes) if changes.is_empty() => {}
            Changes::Images(changes) => batch.due.push(changes.clone()),
            Changes::Tables(numbers) => batch.due_tables.extend(numbers),
        }
    }
    batch
}

/// What the group alters, for the cached lists; `catalogue` as it was before.
pub(super) fn altered(pending: &dyn Pending, catalogue: &Catalogue) -> Batch {
    let mut batch = due(pending);
    for applied in pending.outcomes().iter().flatten() {
        match &applied.changes {
            Changes::Images(changes) if changes.is_empty() => {}
            Changes::Images(changes) => batch.images.push(changes.clone()),
            Changes::Tables(numbers) => batch.unseen.extend(numbers),
        }
        batch.past_changed.extend(&applied.past_changed);
        for change in &applied.catalogue {
            extend_with_tables(&mut batch, change, catalogue);
        }
    }
    change_limit::bounded(&mut batch);
    for numbers in [&mut batch.tables, &mut batch.unseen] {
        numbers.sort_unstable();
        numbers.dedup();
    }
    batch
}

/// Appends the tables that a change of the catalogue redefines or takes away.
fn extend_with_tables(batch: &mut Batch, change: &CatalogueChange, catalogue: &Catalogue) {
    let database = |project: &ProjectId, id: &DatabaseId| {
        let project = catalogue.project(project.as_str())?;
        project.databases.get(id)
    };
    let Batch { tables, unseen, .. } = batch;
    match change {
        CatalogueChange::TablePut(table) => tables.push(table.number),
        CatalogueChange::TableGone(project, id, table) => {
            let table = database(project, id).and_then(|database| database.tables.get(table));
            unseen.extend(table.map(|table| table.number));
        }
        CatalogueChange::DatabaseGone(project, id) => {
            let tables = database(project, id)
                .into_iter()
                .flat_map(|d| d.tables.values());
            unseen.extend(tables.map(|table| table.number));
        }
        CatalogueChange::ProjectGone(id) => {
            let project = catalogue.project(id.as_str());
            let databases = project.into_iter().flat_map(|p| p.databases.values());
            let tables = databases.flat_map(|database| database.tables.values());
            unseen.extend(tables.map(|table| table.number));
        }
        CatalogueChange::ProjectPut(_)
        | CatalogueChange::KeyPut(_)
        | CatalogueChange::KeyGone(_)
        | CatalogueChange::DatabasePut(_)
        | CatalogueChange::FunctionPut(_)
        | CatalogueChange::FunctionGone(..) => {}
    }
}
