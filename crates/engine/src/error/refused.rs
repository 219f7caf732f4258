//! What the store refuses, as the error that its caller sees.

use model::{RowId, counted};
use store::{
    Applied, Container, DeploymentRefusal, ExecutionRefusal, Full, Outcome, Refusal, StoreError,
    TransactionRefusal, Violations,
};

use crate::error::{
    AccessError, ColumnFault, EngineError, FunctionError, ReadError, SchemaError, TransactionError,
    Unavailable, WriteError,
};

/// The refusal of a batch as the error its caller sees.
pub(crate) fn refused(refusal: Refusal) -> EngineError {
    match refusal {
        Refusal::RowExists(id) => WriteError::RowExists(id).into(),
        Refusal::RowNotFound(id) => ReadError::RowNotFound(id).into(),
        Refusal::RowForbidden(_) => AccessError::Unauthorized.into(),
        Refusal::RowMoved(id) => WriteError::RowMoved(id).into(),
        Refusal::Unique { index, clash } => WriteError::UniqueViolation { index, clash }.into(),
        Refusal::Invalid(error) => WriteError::Structure(error).into(),
        Refusal::AssertFailed(id) => WriteError::AssertFailed(id).into(),
        Refusal::UniqueOverTime {
            columns,
            other,
            shared,
        } => EngineError::Write(WriteError::UniqueOverTime {
            columns,
            other,
            shared,
        }),
        Refusal::ReferenceOverTime {
            column,
            related,
            target,
            missing,
        } => EngineError::Write(WriteError::ReferenceOverTime {
            column,
            related: related.to_string(),
            target,
            missing,
        }),
        Refusal::NotKept { first, violations } => not_kept(*first, violations),
        Refusal::ConstraintExists => SchemaError::ConstraintExists.into(),
        Refusal::ConstraintNotFound => SchemaError::ConstraintNotFound.into(),
        Refusal::TooManyConstraints { constraints_max } => too_many_constraints(constraints_max),
        Refusal::TableReferenced { table, by } => SchemaError::TableReferenced { table, by }.into(),
        Refusal::TooManyRows { rows_max } => WriteError::TooManyRows { rows_max }.into(),
        Refusal::TooManyPieces { pieces_max } => WriteError::TooManyPieces { pieces_max }.into(),
        Refusal::TooManySteps { pieces_max } => WriteError::TooManySteps { pieces_max }.into(),
        Refusal::TooManyBytes { bytes_max } => WriteError::TooManyBytes { bytes_max }.into(),
        Refusal::PiecesTooLarge { bytes_max } => too_large(bytes_max),
        Refusal::HistoryGone(gone) => ReadError::HistoryGone(gone).into(),
        Refusal::CursorNotFound(id) => ReadError::CursorNotFound(id).into(),
        Refusal::CursorNull(id) => ReadError::CursorNull(id).into(),
        Refusal::ValuesTooLong { column, chars_max } => values_too_long(&column, chars_max).into(),
        Refusal::ColumnsUsedUp { columns_max } => columns_used_up(columns_max).into(),
        Refusal::LinkMissing { column, id } => link_missing(&column, &id),
        Refusal::DeleteRestricted { id, related } => restricted(id, related.to_string()),
        Refusal::Of { nth, refusal } => EngineError::Transaction(TransactionError::OfOperation {
            nth,
            error: Box::new(refused(*refusal)),
        }),
        Refusal::CatalogueMoved => EngineError::Store(StoreError::CatalogueMoved),
        // The writer has it wait, and no caller sees it.
        Refusal::Behind(_) | Refusal::Deferred => Unavailable::Overloaded.into(),
        Refusal::TablesBusy => Unavailable::TablesBusy.into(),
        Refusal::Transaction(refusal) => refused_transaction(refusal),
        Refusal::Repeated(repeated) => has_run(repeated.is_same),
        Refusal::Full(Full { what, held, max }) => {
            WriteError::QuotaExceeded { what, held, max }.into()
        }
        Refusal::AnswerTooLarge { bytes_max } => answer_too_large(bytes_max),
        Refusal::Exists(container) => exists(container),
        Refusal::NotFound(container, id) => not_found(container, id),
        Refusal::TooMany { kind, max } => too_many(kind, max),
        Refusal::OfDeployment(refusal) => of_deployment(refusal),
        Refusal::OfExecution(refusal) => of_execution(refusal),
        Refusal::Failed(error) => error.into(),
    }
}

fn restricted(id: RowId, related: String) -> EngineError {
    WriteError::DeleteRestricted { id, related }.into()
}

fn values_too_long(column: &str, chars_max: u32) -> ColumnFault {
    let characters = counted(u64::from(chars_max), "character");
    ColumnFault::InvalidResize(format!(
        "Column `{column}`: a row holds more than {characters}."
    ))
}

fn columns_used_up(columns_max: u32) -> ColumnFault {
    ColumnFault::LimitExceeded(format!(
        "A table can have {columns_max} columns, deleted ones included, and this one has had them."
    ))
}

/// The refusal of a request under a key that is known, by whether it is the same one.
fn has_run(is_same: bool) -> EngineError {
    if is_same {
        WriteError::RequestRepeated.into()
    } else {
        WriteError::RequestKeyReused.into()
    }
}

fn not_kept(first: Refusal, violations: Violations) -> EngineError {
    let first = Box::new(refused(first));
    SchemaError::NotKept { first, violations }.into()
}

fn link_missing(column: &str, id: &RowId) -> EngineError {
    let why = format!("Column `{column}`: there is no row `{id}` to link to.");
    WriteError::Relationship(why).into()
}

fn too_many_constraints(constraints_max: usize) -> EngineError {
    EngineError::Argument {
        name: "constraints",
        why: format!("a table has at most {constraints_max} keys, and as many references"),
    }
}

fn too_large(bytes_max: usize) -> EngineError {
    let bytes_max = bytes_max >> 20;
    EngineError::Argument {
        name: "$validFrom",
        why: format!(
            "what the row was in the period holds more than {bytes_max} MiB. Take a shorter one."
        ),
    }
}

fn exists(container: Container) -> EngineError {
    match container {
        Container::Project => SchemaError::ProjectExists.into(),
        Container::Key => SchemaError::KeyExists.into(),
        Container::Database => SchemaError::DatabaseExists.into(),
        Container::Table => SchemaError::TableExists.into(),
        Container::Function => FunctionError::Exists.into(),
        Container::Variable => FunctionError::VariableExists.into(),
        Container::Deployment => FunctionError::DeploymentExists.into(),
    }
}

fn not_found(container: Container, id: String) -> EngineError {
    match container {
        Container::Project => SchemaError::ProjectNotFound(id).into(),
        Container::Key => SchemaError::KeyNotFound(id).into(),
        Container::Database => SchemaError::DatabaseNotFound(id).into(),
        Container::Table => SchemaError::TableNotFound(id).into(),
        Container::Function => FunctionError::NotFound(id).into(),
        Container::Variable => FunctionError::VariableNotFound(id).into(),
        Container::Deployment => FunctionError::DeploymentNotFound(id).into(),
    }
}

fn answer_too_large(bytes_max: usize) -> EngineError {
    WriteError::StoredAnswerTooLarge { bytes_max }.into()
}

fn of_deployment(refusal: DeploymentRefusal) -> EngineError {
    match refusal {
        DeploymentRefusal::BuildMoved(status) => FunctionError::BuildMoved(status.as_str()).into(),
        DeploymentRefusal::PieceInvalid(why) => FunctionError::RangeInvalid(why.to_owned()).into(),
    }
}

fn of_execution(refusal: ExecutionRefusal) -> EngineError {
    match refusal {
        ExecutionRefusal::InProgress => FunctionError::InProgress.into(),
        ExecutionRefusal::QueueFull(bounds) => FunctionError::QueueFull(bounds).into(),
    }
}

fn too_many(kind: Container, max: usize) -> EngineError {
    let (name, why) = match kind {
        Container::Function => (
            "functionId",
            format!("A project has at most {max} functions."),
        ),
        Container::Deployment => (
            "code",
            format!("A function has at most {max} deployments. Delete one."),
        ),
        _ => (
            "variableId",
            format!("A function has at most {max} variables."),
        ),
    };
    EngineError::Argument { name, why }
}

/// An id as a message shows it: what a client sent may be long.
pub(crate) fn shown(id: &str) -> String {
    id.chars().take(100).collect()
}

/// A refusal that concerns a transaction as the error its caller sees.
pub(crate) fn refused_transaction(refusal: TransactionRefusal) -> EngineError {
    use TransactionRefusal as R;
    match refusal {
        R::NotFound(id) => TransactionError::NotFound(shown(&id)).into(),
        R::Exists(id) => TransactionError::Exists(shown(&id)).into(),
        R::Ended(id) => TransactionError::Ended(shown(&id)).into(),
        R::Expired(id) => TransactionError::Expired(shown(&id)).into(),
        R::LimitExceeded(why) => TransactionError::TooLarge(why).into(),
        R::NoRoom(why) => TransactionError::LimitReached(why).into(),
        // The commit tries again before a caller sees this.
        R::Moved => Unavailable::Overloaded.into(),
        R::Conflict(id) => TransactionError::Conflict(id).into(),
    }
}

/// What a committed batch answers its caller.
pub(crate) fn answer(outcome: Outcome) -> Result<Applied, EngineError> {
    outcome.map_err(refused)
}
