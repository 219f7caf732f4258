//! The one table from failures of the engine to their kinds on the wire.
//!
//! No match has an arm `_`: a new variant must answer before it compiles.

use engine::{
    AccessError, ColumnFault, EngineError, FunctionError, IndexFault, QueryError, ReadError,
    SchemaError, StoreError, TransactionError, Unavailable, WriteError,
};
use model::{Mark, ModelError};

use super::{ApiError, Kind, Parts};

/// What an operator does about [`Unavailable::ClockImplausible`].
pub const CLOCK_ADVICE: &str = "Check the clock; if it is right, restart with --accept-clock.";

const KEYS_BY_COMMAND: &str = "API keys are made on the server's command line, by `tidemark key \
     create`, and are not changed; they can be revoked.";

/// What a client reads of [`StoreError::Full`] and [`StoreError::OutcomeUnknown`], and the rest of
/// what it reads of [`StoreError::SealBroken`], whose row it may see: rows are read by rights.
const DISK_FULL: &str =
    "The server's disk is full. Nothing was changed; writes go on when there is room again.";
const OUTCOME_UNKNOWN: &str = "Whether this write is stored is not known: the server failed \
     while it made it durable, and ends. It is stored whole or not at all. Read it before you \
     send it again.";

const SEAL_BROKEN: &str = "is damaged, or was not stored where it stands. The server's log says \
     which. A list without that row, or without its encrypted columns, is not concerned.";

impl From<EngineError> for ApiError {
    /// Status and `type` are the wire contract. Inner detail goes to the log only.
    fn from(error: EngineError) -> ApiError {
        match error {
            EngineError::Access(error) => ApiError::new(kind_of_access(&error), error.to_string()),
            EngineError::Schema(error) => of_schema(&error),
            EngineError::Read(error) => of_read(error),
            EngineError::Write(error) => of_write(error),
            EngineError::Transaction(error) => of_transaction(error),
            EngineError::Function(error) => {
                ApiError::new(kind_of_function(&error), error.to_string())
            }
            EngineError::Unavailable(error) => of_unavailable(&error),
            EngineError::Argument { name, why } => ApiError::invalid(name, why),
            EngineError::Unsupported(_) => {
                ApiError::new(Kind::FeatureUnsupported, error.to_string())
            }
            EngineError::Store(error) => of_store(&error),
        }
    }
}

fn kind_of_access(error: &AccessError) -> Kind {
    use AccessError as E;
    match error {
        E::ProjectMissing => Kind::AccessForbidden,
        E::KeyExpired => Kind::KeyExpired,
        E::ScopeMissing(_) | E::KeyUnknown => Kind::UnauthorizedScope,
        E::Unauthorized | E::RoleNotHeld(_) | E::PastClosed(_) => Kind::Unauthorized,
    }
}

fn kind_of_function(error: &FunctionError) -> Kind {
    use FunctionError as E;
    match error {
        E::NotFound(_) => Kind::FunctionNotFound,
        E::Exists => Kind::FunctionExists,
        E::VariableNotFound(_) => Kind::VariableNotFound,
        E::VariableExists => Kind::VariableExists,
        E::SecretStays => Kind::VariableSecretStays,
        E::DeploymentNotFound(_) | E::NoActiveDeployment => Kind::DeploymentNotFound,
        E::RuntimeUnsupported { .. } => Kind::RuntimeUnsupported,
        E::ExecutionNotFound(_) => Kind::ExecutionNotFound,
        E::DeploymentExists => Kind::DeploymentExists,
        E::SourceTooLarge { .. } => Kind::SourceTooLarge,
        E::SourceEmpty => Kind::SourceEmpty,
        E::SourceNotGzip => Kind::SourceNotGzip,
        E::RangeInvalid(_) => Kind::RangeInvalid,
        E::EntrypointMissing => Kind::EntrypointMissing,
        E::BuildMoved(_) => Kind::BuildNotReady,
        E::InProgress => Kind::ExecutionInProgress,
        E::QueueFull(_) => Kind::ServiceUnavailable,
    }
}

fn of_schema(error: &SchemaError) -> ApiError {
    use SchemaError as E;
    let kind = match error {
        E::ProjectNotFound(_) => Kind::ProjectNotFound,
        E::KeyNotFound(_) => Kind::KeyNotFound,
        E::DatabaseNotFound(_) => Kind::DatabaseNotFound,
        E::TableNotFound(_) => Kind::TableNotFound,
        E::ProjectExists => Kind::ProjectExists,
        E::KeyExists => Kind::KeyExists,
        E::DatabaseExists => Kind::DatabaseExists,
        E::TableExists => Kind::TableExists,
        E::TableReferenced { .. } => Kind::TableReferenced,
        E::NotKept { first, violations } => {
            return ApiError::from(EngineError::clone(first)).with_violations(violations.clone());
        }
        E::ConstraintExists => Kind::ConstraintExists,
        E::ConstraintNotFound => Kind::ConstraintNotFound,
        E::KeyCreationDenied => return ApiError::new(Kind::KeyCreationDenied, KEYS_BY_COMMAND),
        E::Column(fault) => return of_column(fault),
        E::Index(fault) => kind_of_index(fault),
    };
    ApiError::new(kind, error.to_string())
}

fn of_read(error: ReadError) -> ApiError {
    use ReadError as E;
    let kind = match error {
        E::Query(QueryError::TooLarge(why)) => return ApiError::invalid("queries", why),
        E::Query(ref why) => {
            let detail = why.detail().map(str::to_owned);
            return ApiError::new(Kind::QueryInvalid, error.to_string()).with_detail(detail);
        }
        E::RowNotFound(_) => Kind::RowNotFound,
        E::RowNotFoundSinceErasure(_) => {
            return ApiError::new(Kind::RowNotFound, error.to_string()).after_erasure();
        }
        E::CursorNotFound(_) => Kind::CursorNotFound,
        E::CursorNull(_) => Kind::OrderNull,
        E::Timeout { .. } => Kind::DatabaseTimeout,
        E::AnswerTooLarge { .. } => Kind::AnswerTooLarge,
        E::SortTooLarge(_) => Kind::SortTooLarge,
        E::ReadersBusy { .. } => Kind::ServiceUnavailable,
        E::TooManyPieces => Kind::BadRequest,
        E::FutureMark { .. } => Kind::FutureMark,
        E::HistoryGone(_) => Kind::HistoryGone,
    };
    ApiError::new(kind, error.to_string())
}

fn of_write(error: WriteError) -> ApiError {
    use WriteError as E;
    let kind = match error {
        E::Structure(error) => return error.into(),
        E::Partly { rows, error } => return ApiError::from(*error).after(rows),
        E::UndoRefused { row, error } => return ApiError::from(*error).of_row(&row),
        E::StoredAnswerTooLarge { .. } => {
            return ApiError::invalid("Idempotency-Key", error.to_string());
        }
        E::CommitUnknown { mark } => {
            return ApiError::new(Kind::CommitUnknown, commit_unknown(mark)).with_mark(mark);
        }
        E::RowExists(_) => Kind::RowExists,
        E::RowMoved(_) | E::RowsMoved(_) => Kind::RowUpdateConflict,
        E::ColumnNotFound(_) => Kind::ColumnNotFound,
        E::NotNumeric(_) => Kind::AttributeTypeInvalid,
        E::UniqueViolation { ref clash, .. } => {
            let named = clash.as_ref();
            let named = named.map(|(row, shared)| format!("It is row `{row}`, {shared}."));
            let refusal = ApiError::new(Kind::RowUniqueViolation, error.to_string());
            return refusal.for_keys(named);
        }
        E::Relationship(_) => Kind::RelationshipValueInvalid,
        E::DeleteRestricted { .. } => Kind::RowDeleteRestricted,
        E::AssertFailed(_) => Kind::AssertFailed,
        E::UniqueOverTime { .. } => Kind::UniqueOverTime,
        E::ReferenceOverTime { .. } => Kind::ReferenceOverTime,
        E::RowDataMissing => Kind::RowMissingData,
        E::PayloadMissing => Kind::RowMissingPayload,
        E::BulkOfRelationships(_)
        | E::TooMuchToUndo { .. }
        | E::TooManyRows { .. }
        | E::TooManyPieces { .. }
        | E::TooManySteps { .. }
        | E::TooManyBytes { .. }
        | E::RowTooLarge(_) => Kind::BadRequest,
        E::QuotaExceeded { .. } => Kind::QuotaExceeded,
        E::RequestKeyReused | E::RequestRepeated => Kind::RequestKeyReused,
    };
    ApiError::new(kind, error.to_string())
}

/// What a client reads of [`WriteError::CommitUnknown`].
fn commit_unknown(mark: Option<Mark>) -> String {
    let later = match mark {
        Some(mark) => format!(
            " If it is, its mark is {mark}, which no other write gets: reads as of that mark say \
             so once it is known.",
            mark = mark.0
        ),
        None => String::new(),
    };
    format!(
        "The database has not said whether this write is stored. It is stored whole or not at \
         all.{later} Send it again only with the `Idempotency-Key` that it came with, or when you \
         have read that it is not stored."
    )
}

fn of_transaction(error: TransactionError) -> ApiError {
    use TransactionError as E;
    let kind = match error {
        E::OfOperation { nth, error } => {
            return ApiError::from(*error).of_part(Parts::Operations, nth);
        }
        E::NotFound(_) => Kind::TransactionNotFound,
        E::Exists(_) => Kind::TransactionExists,
        E::Ended(_) => Kind::TransactionNotReady,
        E::Expired(_) => Kind::TransactionExpired,
        E::Conflict(_) => Kind::TransactionConflict,
        E::TooLarge(_) => Kind::TransactionLimitExceeded,
        E::LimitReached(_) => Kind::RateLimitExceeded,
    };
    ApiError::new(kind, error.to_string())
}

fn of_unavailable(error: &Unavailable) -> ApiError {
    let message = match error {
        Unavailable::ClockImplausible { .. } => format!("{error} {CLOCK_ADVICE}"),
        Unavailable::Overloaded
        | Unavailable::DryRunsBusy { .. }
        | Unavailable::TablesBusy
        | Unavailable::AwaitsCommit
        | Unavailable::Closing
        | Unavailable::Stopped => error.to_string(),
    };
    ApiError::new(Kind::ServiceUnavailable, message)
}

impl From<ModelError> for ApiError {
    fn from(error: ModelError) -> ApiError {
        match error {
            ModelError::InvalidPermission { .. } | ModelError::TooManyPermissions { .. } => {
                ApiError::invalid("permissions", error.to_string())
            }
            ModelError::InvalidId { .. } => ApiError::invalid("rowId", error.to_string()),
            ModelError::BoundExceeded { .. } => {
                ApiError::new(Kind::ColumnLimitExceeded, error.to_string())
            }
            ModelError::EmptyPeriod { .. } => ApiError::new(Kind::InvalidRange, error.to_string()),
            // The beginning is quoted by the wire protocol.
            ModelError::InvalidValue { .. }
            | ModelError::UnknownColumn { .. }
            | ModelError::MissingColumn { .. }
            | ModelError::NulCharacter => {
                let message = format!("Invalid document structure: {error}");
                ApiError::new(Kind::RowInvalidStructure, message)
            }
        }
    }
}

fn of_column(fault: &ColumnFault) -> ApiError {
    let kind = match fault {
        ColumnFault::Exists(_) => Kind::ColumnExists,
        // The reference refuses an unknown type while it reads parameters.
        ColumnFault::UnknownType(why) => return ApiError::invalid("columns", why.clone()),
        ColumnFault::DefaultUnsupported(_) => Kind::ColumnDefaultUnsupported,
        ColumnFault::ValueInvalid(_) => Kind::ColumnValueInvalid,
        ColumnFault::LimitExceeded(_) => Kind::ColumnLimitExceeded,
        ColumnFault::FormatUnsupported(_) => Kind::ColumnFormatUnsupported,
        ColumnFault::NotFound(_) => Kind::ColumnNotFound,
        ColumnFault::TypeInvalid(_) => Kind::ColumnTypeInvalid,
        ColumnFault::InvalidResize(_) => Kind::ColumnInvalidResize,
        ColumnFault::IndexDependency(_) => Kind::ColumnIndexDependency,
    };
    ApiError::new(kind, fault.to_string())
}

fn kind_of_index(fault: &IndexFault) -> Kind {
    match fault {
        IndexFault::NotFound(_) => Kind::ColumnIndexNotFound,
        IndexFault::Exists(_) => Kind::ColumnIndexExists,
        IndexFault::ColumnUnknown(_) => Kind::ColumnUnknown,
        IndexFault::Invalid(_) => Kind::IndexInvalid,
        IndexFault::ColumnInvalid(_) | IndexFault::TooLong { .. } => Kind::ColumnIndexInvalid,
        IndexFault::LimitExceeded(_) => Kind::ColumnIndexLimitExceeded,
    }
}

fn of_store(error: &StoreError) -> ApiError {
    let described = match error {
        StoreError::Full => Some((Kind::StorageFull, DISK_FULL)),
        StoreError::OutcomeUnknown { .. } => Some((Kind::OutcomeUnknown, OUTCOME_UNKNOWN)),
        StoreError::Stopped => {
            return of_unavailable(&Unavailable::Stopped);
        }
        _ => None,
    };
    if let StoreError::SealBroken { row, .. } = error {
        let of_row = row.as_ref().map(|id| format!(" of row `{id}`"));
        let mut refusal = ApiError::new(
            Kind::EncryptedValueInvalid,
            format!(
                "An encrypted value{} {SEAL_BROKEN}",
                of_row.unwrap_or_default()
            ),
        );
        refusal.detail = Some(error.to_string());
        return refusal;
    }
    if let Some((kind, message)) = described {
        let mut refusal = ApiError::new(kind, message);
        refusal.detail = Some(error.to_string());
        return refusal;
    }
    // The store was opened there before: what is in its way now passes, as an old primary does that
    // has come back, or is an operator's matter. Nothing was changed.
    let may_pass = error.is_retryable() || matches!(error, StoreError::DatabaseUnfit(_));
    if !may_pass {
        return ApiError::internal(error.to_string());
    }
    let mut unavailable = ApiError::new(Kind::ServiceUnavailable, "Try again later.");
    unavailable.detail = Some(error.to_string());
    unavailable
}
