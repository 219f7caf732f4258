//! What the owner of a table decides about its past, and about the age of its lists.

use std::sync::Arc;

use model::options::{HISTORY_DAYS_MAX, PINNED_MAX_AGE_S_MAX, TTL_S_MAX};
use model::{Past, Retention, Scope, Table, TableOptions};
use store::CatalogueOp;

use crate::Engine;
use crate::error::EngineError;
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};

/// A change of a table's options; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct OptionsChange {
    /// For how many seconds clients may keep answers at fixed coordinates.
    pub pinned_max_age_s: Option<i64>,
    /// How much of its past it keeps, in the words of [`Retention::parse`].
    pub history: Option<String>,
    /// Who may look at it, in the words of [`Past::parse`].
    pub past: Option<String>,
    /// Greatest age in seconds of its lists.
    pub ttl_max_s: Option<i64>,
}

impl Engine {
    /// The options of a table; for keys only.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`], [`crate::SchemaError::TableNotFound`].
    pub fn table_options(
        &self,
        caller: &Caller,
        place: Place<'_>,
    ) -> Result<TableOptions, EngineError> {
        authorize::need_key(caller, &[Scope::TablesRead])?;
        let catalogue = self.catalogue();
        Ok(authorize::table(&catalogue, caller, place)?.options)
    }

    /// Changes the options of a table; for keys only. From the answer on nothing below its line is
    /// read, and what lies there goes bit by bit.
    ///
    /// # Errors
    /// [`EngineError::Argument`] for values out of bounds.
    pub async fn set_table_options(
        &self,
        caller: &Caller,
        place: Place<'_>,
        change: &OptionsChange,
    ) -> Result<TableOptions, EngineError> {
        authorize::need_key(caller, &[Scope::TablesWrite])?;
        let age = |name, age_s: Option<i64>, age_s_max| {
            let check = |age_s| check_age(name, age_s, age_s_max);
            age_s.map(check).transpose()
        };
        let pinned_max_age_s = age(
            "pinnedMaxAge",
            change.pinned_max_age_s,
            PINNED_MAX_AGE_S_MAX,
        )?;
        let ttl_max_s = age("ttlMax", change.ttl_max_s, TTL_S_MAX)?;
        let history = change.history.as_deref().map(check_history).transpose()?;
        let past = change.past.as_deref().map(check_past).transpose()?;
        let table: Arc<Table> = authorize::table(&self.catalogue(), caller, place)?.clone();
        let op = CatalogueOp::SetOptions {
            number: table.number,
            pinned_max_age_s,
            history,
            past,
            ttl_max_s,
        };
        self.change_catalogue(Some(caller), op).await?;
        let catalogue = self.catalogue();
        Ok(authorize::table(&catalogue, caller, place)?.options)
    }
}

fn check_age(name: &'static str, age_s: i64, age_s_max: u32) -> Result<u32, EngineError> {
    let age_s = u32::try_from(age_s).ok();
    let age_s = age_s.filter(|age_s| *age_s <= age_s_max);
    age_s.ok_or_else(|| EngineError::Argument {
        name,
        why: format!("Value must be an integer from 0 to {age_s_max}."),
    })
}

fn check_past(text: &str) -> Result<Past, EngineError> {
    Past::parse(text).ok_or_else(|| EngineError::Argument {
        name: "past",
        why: "Value must be `keys`, `both` or `now`.".to_owned(),
    })
}

fn check_history(text: &str) -> Result<Retention, EngineError> {
    Retention::parse(text).ok_or_else(|| EngineError::Argument {
        name: "history",
        why: format!(
            "Value must be `keep`, `days(n)` with n from 1 to {HISTORY_DAYS_MAX}, or `none`."
        ),
    })
}
