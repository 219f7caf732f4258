//! What is selected of related rows, settled before any row is read: which tables as of when, by
//! which columns, and what the caller may see of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use model::{Catalogue, Coordinates, Relation, Selection, Table};
use query::{NamedTimes, QueryError, RelatedNames, Then, Visibility, select_names};

use crate::Engine;
use crate::error::{AccessError, EngineError};
use crate::request::inputs::{Caller, GrantsAsOf};
use crate::request::past;

/// How deep relationships can be selected (wire protocol, 2.4).
const DEPTH_MAX: usize = 3;
/// Most relationships that one request may select, each of which is a query of its own.
const RELATIONSHIPS_MAX: usize = 50;

/// What is read of the rows related through one column.
#[derive(Clone)]
pub(crate) struct RelatedPlan {
    /// The position of the column in the table that it leads from.
    pub(crate) column: usize,
    pub(crate) relation: Relation,
    /// The related table.
    pub(crate) table: Arc<Table>,
    /// The position of the column at its end.
    pub(crate) partner: usize,
    /// What is shown of its rows.
    pub(crate) selection: Selection,
    /// What the caller sees of them; `None` is nothing.
    pub(crate) sight: Option<Sight>,
    /// Whether they show where they stand in time, as all rows at other times do.
    pub(crate) shows_span: bool,
    /// What is read of the rows that they are related to.
    pub(crate) further: Vec<RelatedPlan>,
}

/// Which rows of a table a caller sees.
#[derive(Clone)]
pub(crate) struct Sight {
    pub(crate) visibility: Visibility,
    pub(crate) then: Option<Then>,
}

/// As of when tables are looked at.
#[derive(Clone, Copy)]
pub(crate) enum RelatedAsOf<'a> {
    /// Now.
    Now,
    /// At the times that a request names.
    At(&'a Engine, TimesOfRelated),
}

/// The times that a request names.
#[derive(Clone, Copy)]
pub(crate) struct TimesOfRelated {
    pub(crate) at: Coordinates,
    pub(crate) times: NamedTimes,
    pub(crate) grants: GrantsAsOf,
}

struct Planner<'a> {
    catalogue: &'a Catalogue,
    caller: &'a Caller,
    looking: RelatedAsOf<'a>,
    relationships_left: usize,
}

type Looked = (Arc<Table>, Option<Sight>);
type Planning<'r> = Pin<Box<dyn Future<Output = Result<Vec<RelatedPlan>, EngineError>> + 'r>>;

/// What `names` select of the rows that those of `table` are related to.
///
/// # Errors
/// [`QueryError::Invalid`] for what cannot be selected; [`AccessError::PastClosed`] where the
/// caller may not look at a related table at these times.
pub(crate) async fn related_plan(
    catalogue: &Catalogue,
    caller: &Caller,
    looking: RelatedAsOf<'_>,
    (table, names): (&Table, &[RelatedNames]),
) -> Result<Vec<RelatedPlan>, EngineError> {
    let mut planner = Planner {
        catalogue,
        caller,
        looking,
        relationships_left: RELATIONSHIPS_MAX,
    };
    planner.plan(table, names, 1).await
}

impl Planner<'_> {
    fn plan<'r>(
        &'r mut self,
        table: &'r Table,
        names: &'r [RelatedNames],
        depth: usize,
    ) -> Planning<'r> {
        Box::pin(async move {
            if depth > DEPTH_MAX && !names.is_empty() {
                let why = format!("Relationships can be selected {DEPTH_MAX} levels deep");
                return Err(QueryError::Invalid(why).into());
            }
            let mut plans = Vec::with_capacity(names.len());
            for names in names {
                let left = self.relationships_left.checked_sub(1);
                self.relationships_left = left.ok_or_else(|| {
                    QueryError::Invalid(format!(
                        "One request may select at most {RELATIONSHIPS_MAX} relationships"
                    ))
                })?;
                plans.push(self.through(table, names, depth).await?);
            }
            Ok(plans)
        })
    }

    async fn through(
        &mut self,
        from: &Table,
        names: &RelatedNames,
        depth: usize,
    ) -> Result<RelatedPlan, EngineError> {
        let column = &from.columns[names.column];
        let relation = column.relation().expect("names are of relationships");
        let ended = || {
            let (key, related) = (&column.key, &relation.related);
            EngineError::from(QueryError::Invalid(format!(
                "Relationship `{key}` led to table `{related}`, and has no end there any more"
            )))
        };
        let today = beside(self.catalogue, from, relation).ok_or_else(ended)?;
        let (table, sight) = self.look_at(today).await?;
        // A table that was made later may have the id of the one that it led to.
        let is_partner = |position: &usize| {
            let partner = table.columns[*position].relation();
            partner.is_some_and(|end| end.related == from.id && end.partner == column.number)
        };
        let partner = table.numbered(relation.partner).filter(is_partner);
        let partner = partner.ok_or_else(ended)?;
        let (selection, further) = select_names(&table, &names.names)?;
        Ok(RelatedPlan {
            column: names.column,
            relation: relation.clone(),
            partner,
            selection,
            sight,
            shows_span: matches!(self.looking, RelatedAsOf::At(..)),
            further: self.plan(&table, &further, depth + 1).await?,
            table,
        })
    }

    /// The table as it is looked at, and what the caller sees of it.
    async fn look_at(&self, today: &Arc<Table>) -> Result<Looked, EngineError> {
        let actor = &self.caller.actor;
        let is_seen = today.enabled || actor.bypasses_grants();
        let visibility = query::visibility(today, actor).filter(|_| is_seen);
        match (self.looking, visibility) {
            (RelatedAsOf::Now, visibility) => {
                let sight = |visibility| Sight {
                    visibility,
                    then: None,
                };
                Ok((today.clone(), visibility.map(sight)))
            }
            (RelatedAsOf::At(engine, request), None) => {
                Ok((engine.table_as_of(today, request.at.system).await?, None))
            }
            (RelatedAsOf::At(engine, request), Some(visibility)) => {
                self.look_back(today, visibility, engine, request).await
            }
        }
    }

    /// By the rules of the table itself, whichever table leads to it.
    async fn look_back(
        &self,
        today: &Arc<Table>,
        visibility: Visibility,
        engine: &Engine,
        request: TimesOfRelated,
    ) -> Result<Looked, EngineError> {
        let judges_then = past::judges_then(today, &self.caller.actor, request.times)?;
        let mut table = engine.table_as_of(today, request.at.system).await?;
        let then = if judges_then {
            table = past::without_gone(&table, today);
            let seen_at = past::seen_at(request.at);
            let known = engine.table_as_of(today, seen_at).await?;
            let then = past::might_see(&known, self.caller, seen_at);
            then.map(|then| {
                Some(Then {
                    is_there_now: true,
                    ..then
                })
            })
        } else if request.grants == GrantsAsOf::Mark {
            past::might_see(&table, self.caller, request.at.system).map(Some)
        } else {
            Ok(None)
        };
        match then {
            Ok(then) => Ok((table, Some(Sight { visibility, then }))),
            // What the caller might not see then is not shown, as what cannot be seen now.
            Err(EngineError::Access(AccessError::Unauthorized)) => Ok((table, None)),
            Err(error) => Err(error),
        }
    }
}

/// The table at the other end of a relationship of `table`.
pub(crate) fn beside<'c>(
    catalogue: &'c Catalogue,
    table: &Table,
    relation: &Relation,
) -> Option<&'c Arc<Table>> {
    let project = catalogue.project(table.project.as_str())?;
    let database = project.databases.get(&table.database)?;
    database.tables.get(&relation.related)
}
