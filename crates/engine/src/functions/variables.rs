//! Variables in the environment of a function's executions.

use model::{Timestamp, Value, VariableId};
use store::{FunctionOp, Variable};

use super::{READ, WRITE, named};
use crate::Engine;
use crate::error::refused::shown;
use crate::error::{EngineError, FunctionError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, Listable, VARIABLES, no_such_attribute};

/// Longest key of a variable, in characters (wire protocol, variables).
pub const KEY_CHARS_MAX: usize = 255;
/// Longest value.
pub const VALUE_CHARS_MAX: usize = 8_192;

/// What a caller says of a variable.
#[derive(Clone, Debug, Default)]
pub struct VariableInput {
    /// Its name in the environment.
    pub key: Option<String>,
    /// What it holds.
    pub value: Option<String>,
    /// Whether that is never shown.
    pub secret: Option<bool>,
}

impl VariableInput {
    fn check(&self) -> Result<(), EngineError> {
        if let Some(key) = &self.key {
            check_text("key", key, KEY_CHARS_MAX)?;
            if key.is_empty() || key.contains('=') {
                let why = "the name of a variable is not empty and holds no `=`.".to_owned();
                return Err(EngineError::Argument { name: "key", why });
            }
        }
        match &self.value {
            Some(value) => check_text("value", value, VALUE_CHARS_MAX),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Creates a variable of a function. It is secret unless it is said to be none.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::VariableExists`]; [`EngineError::Argument`]
    /// for what breaks a rule, or one variable too many.
    pub async fn create_variable(
        &self,
        caller: &Caller,
        function: &str,
        id: VariableId,
        input: VariableInput,
    ) -> Result<Variable, EngineError> {
        authorize::need_key(caller, WRITE)?;
        input.check()?;
        let function = self.find_function(caller, function)?;
        let op = FunctionOp::CreateVariable {
            function: named(caller, function.id.clone()),
            id: id.clone(),
            key: input.key.unwrap_or_default(),
            value: input.value.unwrap_or_default(),
            secret: input.secret.unwrap_or(true),
        };
        self.change_function(Some(caller), op).await?;
        self.find_variable(function.seq, id.as_str()).await
    }

    /// A variable of a function.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::VariableNotFound`].
    pub async fn get_variable(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<Variable, EngineError> {
        authorize::need_key(caller, READ)?;
        let function = self.find_function(caller, function)?;
        self.find_variable(function.seq, id).await
    }

    /// The variables of a function in the order of their creation.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`]; [`crate::ReadError::Query`] for a query that is not understood
    /// here.
    pub async fn list_variables(
        &self,
        caller: &Caller,
        function: &str,
        request: ListContainers<'_>,
    ) -> Result<Listed<Variable>, EngineError> {
        authorize::need_key(caller, READ)?;
        let function = self.find_function(caller, function)?;
        let all = self.shared.store.variables(function.seq).await?;
        let of_function = |variable| OwnedVariable {
            variable,
            function: function.id.to_string(),
        };
        let all = all.into_iter().map(of_function).collect();
        let page = listing::page(all, &VARIABLES, request, self.limits)?;
        Ok(Listed {
            total: page.total,
            items: page.items.into_iter().map(|item| item.variable).collect(),
        })
    }

    /// Changes a variable; what is not given stays.
    ///
    /// # Errors
    /// As for [`Engine::create_variable`]; [`FunctionError::VariableNotFound`],
    /// [`FunctionError::SecretStays`].
    pub async fn update_variable(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
        input: VariableInput,
    ) -> Result<Variable, EngineError> {
        authorize::need_key(caller, WRITE)?;
        input.check()?;
        let function = self.find_function(caller, function)?;
        let known = self.find_variable(function.seq, id).await?;
        if known.secret && input.secret == Some(false) {
            return Err(FunctionError::SecretStays.into());
        }
        let op = FunctionOp::UpdateVariable {
            function: named(caller, function.id.clone()),
            id: known.id,
            key: input.key,
            value: input.value,
            secret: input.secret.unwrap_or(false),
        };
        self.change_function(Some(caller), op).await?;
        self.find_variable(function.seq, id).await
    }

    /// Deletes a variable.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::VariableNotFound`].
    pub async fn delete_variable(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, function)?;
        let no_such = || EngineError::from(FunctionError::VariableNotFound(shown(id)));
        let op = FunctionOp::DeleteVariable {
            function: named(caller, function.id.clone()),
            id: VariableId::new(id).map_err(|_| no_such())?,
        };
        self.change_function(Some(caller), op).await
    }

    async fn find_variable(&self, function: i64, id: &str) -> Result<Variable, EngineError> {
        let all = self.shared.store.variables(function).await?;
        let found = all.into_iter().find(|variable| variable.id.as_str() == id);
        found.ok_or_else(|| FunctionError::VariableNotFound(shown(id)).into())
    }
}

/// # Errors
/// [`EngineError::Argument`] for an overlong text, or one with U+0000.
pub(super) fn check_text(
    name: &'static str,
    text: &str,
    chars_max: usize,
) -> Result<(), EngineError> {
    let length = text.chars().count();
    let why = if length > chars_max {
        format!("expected at most {chars_max} characters, got {length}.")
    } else if text.contains('\0') {
        "it may not hold the character U+0000.".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::Argument { name, why })
}

/// A variable and the function whose it is.
struct OwnedVariable {
    variable: Variable,
    function: String,
}

impl Listable for OwnedVariable {
    fn id(&self) -> &str {
        self.variable.id.as_str()
    }

    fn name(&self) -> &str {
        &self.variable.key
    }

    fn sequence(&self) -> i64 {
        self.variable.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.variable.created, self.variable.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        match position {
            0 => Value::Text(self.variable.key.clone()),
            1 => Value::Text("functions".to_owned()),
            2 => Value::Text(self.function.clone()),
            3 => Value::Bool(self.variable.secret),
            other => no_such_attribute(other),
        }
    }
}
