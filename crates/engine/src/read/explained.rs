//! How a list of now is found, without reading it.

use model::Scope;
use query::index_choice::choose_index;
use query::{advise, shape};

use crate::Engine;
use crate::error::EngineError;
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};
use crate::request::named_times::timed;
use crate::state::observed::index_text;

/// How a list is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What is asked, without values.
    pub query: String,
    /// The steps of the store, one each; none where the statement is too long to be planned here.
    pub plan: Vec<String>,
    /// The key of the index that the statement names; without one the store chooses by itself.
    pub index: Option<String>,
    /// Whether rows come out of that index in the order asked for, so that at most ties are
    /// sorted.
    pub in_order: bool,
    /// The columns of an index that would lead to these rows, such as `genre, year DESC`; none
    /// where one does already, or none would.
    pub wanted: Option<String>,
}

impl Engine {
    /// How a list of now would be read, for keys alone; no row is.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered;
    /// [`EngineError::Argument`] for a list at another time.
    pub async fn explain_list(
        &self,
        caller: &Caller,
        place: Place<'_>,
        texts: &[String],
    ) -> Result<Explained, EngineError> {
        authorize::need_key(caller, &[Scope::TablesRead])?;
        if timed(texts)?.is_some() {
            return Err(EngineError::Argument {
                name: "queries",
                why: "only lists of now can be explained, without asOf, validAt and the like."
                    .to_owned(),
            });
        }
        let mut attempt = 1;
        loop {
            let catalogue = self.catalogue();
            let query = self.resolve(&catalogue, caller, place, texts)?;
            let plan = match self.shared.store.explain(&query).await {
                Ok(plan) => plan,
                // The table was changed in between.
                Err(_) if self.catalogue().epoch != catalogue.epoch && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let choice = choose_index(&query);
            let chosen = |number| query.table.indexes.iter().find(|one| one.number == number);
            let index = choice.and_then(|choice| chosen(choice.number));
            return Ok(Explained {
                query: shape(&query),
                plan,
                index: index.map(|index| index.key.to_string()),
                in_order: choice.is_some_and(|choice| choice.in_order),
                wanted: advise(&query).map(|columns| index_text(&query.table, &columns)),
            });
        }
    }
}
