use engine::{
    AccessError, ColumnFault, DatabaseFinding, EngineError, FunctionError, IndexFault, QueryError,
    QueueBounds, ReadError, SchemaError, SortRoom, StoreError, TransactionError, Unavailable,
    Verdict, WriteError,
};
use model::{Mark, ModelError, Period, RowId, TableId};

use super::*;

const PAGE: &str = include_str!("../../../../../../docs/reference/errors.md");

/// The rows of the page's table, without the column of reasons.
fn listed() -> Vec<String> {
    let cells = |line: &str| -> Vec<String> {
        line.split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    let rows = PAGE
        .lines()
        .filter(|line| line.starts_with("| 4") || line.starts_with("| 5"));
    rows.map(|line| {
        let cells = cells(line);
        assert!(!cells[4].is_empty(), "no reason given: {line}");
        cells[1..4].join(" ")
    })
    .collect()
}

#[test]
fn the_page_lists_exactly_what_the_code_sends() {
    let sent = Kind::ALL.iter().map(|kind| {
        let (name, legacy) = (kind.name(Family::Tables), kind.name(Family::Documents));
        let legacy = if legacy == name { "" } else { legacy };
        format!("{} {name} {legacy}", kind.status().as_u16())
    });
    let sent: Vec<String> = sent.collect();
    testing::assert_rows("docs/reference/errors.md", &listed(), &sent);
}

fn row() -> RowId {
    RowId::new("r").unwrap()
}

fn text() -> String {
    "x".to_owned()
}

fn access_cases() -> Vec<(AccessError, Kind)> {
    use AccessError as A;
    vec![
        (A::ProjectMissing, Kind::AccessForbidden),
        (A::KeyExpired, Kind::KeyExpired),
        (A::KeyUnknown, Kind::UnauthorizedScope),
        (A::ScopeMissing(&[]), Kind::UnauthorizedScope),
        (A::Unauthorized, Kind::Unauthorized),
        (A::RoleNotHeld(text()), Kind::Unauthorized),
        (A::PastClosed(model::Past::Keys), Kind::Unauthorized),
    ]
}

fn schema_cases() -> Vec<(SchemaError, Kind)> {
    use SchemaError as S;
    vec![
        (S::ProjectNotFound(text()), Kind::ProjectNotFound),
        (S::DatabaseNotFound(text()), Kind::DatabaseNotFound),
        (S::TableNotFound(text()), Kind::TableNotFound),
        (S::KeyNotFound(text()), Kind::KeyNotFound),
        (S::KeyCreationDenied, Kind::KeyCreationDenied),
        (S::ProjectExists, Kind::ProjectExists),
        (S::KeyExists, Kind::KeyExists),
        (S::DatabaseExists, Kind::DatabaseExists),
        (S::TableExists, Kind::TableExists),
        (S::ConstraintExists, Kind::ConstraintExists),
        (S::ConstraintNotFound, Kind::ConstraintNotFound),
        (
            S::TableReferenced {
                table: TableId::new("t").unwrap(),
                by: Vec::new(),
            },
            Kind::TableReferenced,
        ),
    ]
}

fn read_cases() -> Vec<(ReadError, Kind)> {
    use ReadError as R;
    vec![
        (R::RowNotFound(row()), Kind::RowNotFound),
        (R::RowNotFoundSinceErasure(row()), Kind::RowNotFound),
        (R::Query(QueryError::NotJson(text())), Kind::QueryInvalid),
        (R::Query(QueryError::Syntax(text())), Kind::QueryInvalid),
        (R::Query(QueryError::Invalid(text())), Kind::QueryInvalid),
        (
            R::Query(QueryError::TooLarge(text())),
            Kind::ArgumentInvalid,
        ),
        (
            R::HistoryGone(model::HistoryGone {
                kept_from: model::Timestamp(5),
            }),
            Kind::HistoryGone,
        ),
        (R::CursorNotFound(row()), Kind::CursorNotFound),
        (R::CursorNull(row()), Kind::OrderNull),
        (R::Timeout { limit_ms: 1 }, Kind::DatabaseTimeout),
        (R::AnswerTooLarge { bytes_max: 1 }, Kind::AnswerTooLarge),
        (
            R::SortTooLarge(SortRoom::Files { kib_max: None }),
            Kind::SortTooLarge,
        ),
        (R::ReadersBusy { waiting_max: 1 }, Kind::ServiceUnavailable),
        (R::TooManyPieces, Kind::BadRequest),
        (
            R::FutureMark {
                mark: Mark(6),
                horizon: Mark(5),
            },
            Kind::FutureMark,
        ),
    ]
}

fn write_cases() -> Vec<(WriteError, Kind)> {
    use WriteError as W;
    let (held, max, what) = (1, 1, "rows");
    vec![
        (W::RowExists(row()), Kind::RowExists),
        (W::CommitUnknown { mark: None }, Kind::CommitUnknown),
        (W::RowMoved(row()), Kind::RowUpdateConflict),
        (W::RowsMoved(vec![text()]), Kind::RowUpdateConflict),
        (W::TooMuchToUndo { what, max: 1 }, Kind::BadRequest),
        (
            W::UniqueViolation {
                index: None,
                clash: None,
            },
            Kind::RowUniqueViolation,
        ),
        (W::ColumnNotFound(text()), Kind::ColumnNotFound),
        (W::BulkOfRelationships(text()), Kind::BadRequest),
        (
            W::DeleteRestricted {
                id: row(),
                related: text(),
            },
            Kind::RowDeleteRestricted,
        ),
        (
            W::UniqueOverTime {
                columns: vec![text()],
                other: row(),
                shared: Period::ALWAYS,
            },
            Kind::UniqueOverTime,
        ),
        (
            W::ReferenceOverTime {
                column: text(),
                related: text(),
                target: row(),
                missing: Period::ALWAYS,
            },
            Kind::ReferenceOverTime,
        ),
        (W::RowDataMissing, Kind::RowMissingData),
        (W::PayloadMissing, Kind::RowMissingPayload),
        (W::NotNumeric(text()), Kind::AttributeTypeInvalid),
        (W::Relationship(text()), Kind::RelationshipValueInvalid),
        (W::AssertFailed(row()), Kind::AssertFailed),
        (W::TooManyRows { rows_max: 1 }, Kind::BadRequest),
        (W::TooManyPieces { pieces_max: 1 }, Kind::BadRequest),
        (W::TooManySteps { pieces_max: 1 }, Kind::BadRequest),
        (W::TooManyBytes { bytes_max: 1 }, Kind::BadRequest),
        (W::RowTooLarge(text()), Kind::BadRequest),
        (
            W::QuotaExceeded {
                what: engine::Counted::Bytes,
                held,
                max,
            },
            Kind::QuotaExceeded,
        ),
        (W::RequestKeyReused, Kind::RequestKeyReused),
        (W::RequestRepeated, Kind::RequestKeyReused),
        (
            W::StoredAnswerTooLarge { bytes_max: 1 },
            Kind::ArgumentInvalid,
        ),
    ]
}

fn transaction_cases() -> Vec<(TransactionError, Kind)> {
    use TransactionError as T;
    vec![
        (T::NotFound(text()), Kind::TransactionNotFound),
        (T::Exists(text()), Kind::TransactionExists),
        (T::Ended(text()), Kind::TransactionNotReady),
        (T::Expired(text()), Kind::TransactionExpired),
        (T::Conflict(row()), Kind::TransactionConflict),
        (T::TooLarge(text()), Kind::TransactionLimitExceeded),
        (T::LimitReached(text()), Kind::RateLimitExceeded),
    ]
}

fn unavailable_cases() -> Vec<(Unavailable, Kind)> {
    use Unavailable as U;
    let kind = Kind::ServiceUnavailable;
    vec![
        (U::DryRunsBusy { waiting_max: 1 }, kind),
        (U::Overloaded, kind),
        (U::TablesBusy, kind),
        (U::AwaitsCommit, kind),
        (U::Closing, kind),
        (U::Stopped, kind),
        (U::ClockImplausible { ahead_s: 1 }, kind),
    ]
}

/// Errors that carry no other error, each with the kind it becomes.
fn function_cases() -> Vec<(FunctionError, Kind)> {
    use FunctionError as F;
    vec![
        (F::NotFound(text()), Kind::FunctionNotFound),
        (F::Exists, Kind::FunctionExists),
        (F::VariableNotFound(text()), Kind::VariableNotFound),
        (F::VariableExists, Kind::VariableExists),
        (F::SecretStays, Kind::VariableSecretStays),
        (F::DeploymentNotFound(text()), Kind::DeploymentNotFound),
        (F::DeploymentExists, Kind::DeploymentExists),
        (F::ExecutionNotFound(text()), Kind::ExecutionNotFound),
        (F::NoActiveDeployment, Kind::DeploymentNotFound),
        (
            F::RuntimeUnsupported {
                runtime: text(),
                why: text(),
            },
            Kind::RuntimeUnsupported,
        ),
        (
            F::SourceTooLarge {
                bytes: 2,
                bytes_max: 1,
            },
            Kind::SourceTooLarge,
        ),
        (F::SourceEmpty, Kind::SourceEmpty),
        (F::SourceNotGzip, Kind::SourceNotGzip),
        (F::RangeInvalid(text()), Kind::RangeInvalid),
        (F::EntrypointMissing, Kind::EntrypointMissing),
        (F::BuildMoved("ready"), Kind::BuildNotReady),
        (F::InProgress, Kind::ExecutionInProgress),
        (
            F::QueueFull(QueueBounds {
                count_max: 1,
                bytes_max: 1,
            }),
            Kind::ServiceUnavailable,
        ),
    ]
}

/// An undo is refused as the write of its row would be.
fn undo_refused() -> EngineError {
    let error = Box::new(AccessError::Unauthorized.into());
    let row = text();
    WriteError::UndoRefused { row, error }.into()
}

fn cases() -> Vec<(EngineError, Kind)> {
    fn of<E: Into<EngineError>>(
        cases: Vec<(E, Kind)>,
    ) -> impl Iterator<Item = (EngineError, Kind)> {
        cases.into_iter().map(|(error, kind)| (error.into(), kind))
    }
    let (name, why) = ("name", text());
    let mut all = vec![
        (EngineError::Argument { name, why }, Kind::ArgumentInvalid),
        (EngineError::Unsupported(text()), Kind::FeatureUnsupported),
    ];
    all.extend(of(access_cases()).chain(of(schema_cases())));
    all.extend(of(function_cases()));
    all.push((undo_refused(), Kind::Unauthorized));
    all.extend(of(read_cases()).chain(of(write_cases())));
    all.extend(of(transaction_cases()).chain(of(unavailable_cases())));
    all
}

/// Laws of the model that row content or parameters break.
fn model_cases() -> Vec<(ModelError, Kind)> {
    use ModelError as M;
    let (column, why) = (text(), text());
    vec![
        (M::UnknownColumn { key: text() }, Kind::RowInvalidStructure),
        (
            M::MissingColumn { column: text() },
            Kind::RowInvalidStructure,
        ),
        (M::InvalidValue { column, why }, Kind::RowInvalidStructure),
        (M::NulCharacter, Kind::RowInvalidStructure),
        (
            M::TooManyPermissions { count_max: 1 },
            Kind::ArgumentInvalid,
        ),
        (
            M::InvalidPermission {
                text: text(),
                why: text(),
            },
            Kind::ArgumentInvalid,
        ),
        (M::InvalidId { what: "row id" }, Kind::ArgumentInvalid),
    ]
}

fn column_cases() -> Vec<(ColumnFault, Kind)> {
    use ColumnFault as C;
    vec![
        (C::Exists(text()), Kind::ColumnExists),
        (C::UnknownType(text()), Kind::ArgumentInvalid),
        (
            C::DefaultUnsupported(text()),
            Kind::ColumnDefaultUnsupported,
        ),
        (C::ValueInvalid(text()), Kind::ColumnValueInvalid),
        (C::LimitExceeded(text()), Kind::ColumnLimitExceeded),
        (C::FormatUnsupported(text()), Kind::ColumnFormatUnsupported),
        (C::NotFound(text()), Kind::ColumnNotFound),
        (C::TypeInvalid(text()), Kind::ColumnTypeInvalid),
        (C::InvalidResize(text()), Kind::ColumnInvalidResize),
        (C::IndexDependency(text()), Kind::ColumnIndexDependency),
    ]
}

fn index_cases() -> Vec<(IndexFault, Kind)> {
    use IndexFault as I;
    vec![
        (I::Exists(text()), Kind::ColumnIndexExists),
        (I::ColumnUnknown(text()), Kind::ColumnUnknown),
        (I::Invalid(text()), Kind::IndexInvalid),
        (I::ColumnInvalid(text()), Kind::ColumnIndexInvalid),
        (I::LimitExceeded(text()), Kind::ColumnIndexLimitExceeded),
        (I::NotFound(text()), Kind::ColumnIndexNotFound),
    ]
}

fn store_cases() -> Vec<(StoreError, Kind)> {
    vec![
        (StoreError::Full, Kind::StorageFull),
        (
            StoreError::SealBroken {
                what: text(),
                row: None,
            },
            Kind::EncryptedValueInvalid,
        ),
        (
            StoreError::OutcomeUnknown { detail: text() },
            Kind::OutcomeUnknown,
        ),
        (StoreError::Stopped, Kind::ServiceUnavailable),
        (StoreError::Panicked { detail: text() }, Kind::Unknown),
        (StoreError::Memory, Kind::ServiceUnavailable),
        (StoreError::Interrupted, Kind::ServiceUnavailable),
        (
            StoreError::Unreachable { detail: text() },
            Kind::ServiceUnavailable,
        ),
        (StoreError::CatalogueMoved, Kind::ServiceUnavailable),
        (old_primary(), Kind::ServiceUnavailable),
    ]
}

/// What a server meets in place of its database.
fn old_primary() -> StoreError {
    StoreError::DatabaseUnfit(DatabaseFinding {
        check: "lineage",
        verdict: Verdict::Bad,
        found: text(),
        advice: None,
    })
}

/// Errors that carry those of lower rooms.
fn inner_cases() -> impl Iterator<Item = (EngineError, Kind)> {
    let of_model = model_cases()
        .into_iter()
        .map(|(error, kind)| (EngineError::Write(WriteError::Structure(error)), kind));
    let of_column = column_cases()
        .into_iter()
        .map(|(fault, kind)| (EngineError::Schema(SchemaError::Column(fault)), kind));
    let of_index = index_cases()
        .into_iter()
        .map(|(fault, kind)| (EngineError::Schema(SchemaError::Index(fault)), kind));
    let of_store = store_cases()
        .into_iter()
        .map(|(error, kind)| (EngineError::Store(error), kind));
    of_model.chain(of_column).chain(of_index).chain(of_store)
}

#[test]
fn each_engine_error_has_its_kind() {
    for (error, kind) in cases().into_iter().chain(inner_cases()) {
        let shown = format!("{error:?}");
        assert_eq!(ApiError::from(error).kind, kind, "{shown}");
    }
}

/// The text of a file of the engine's errors.
macro_rules! source {
    ($file:literal) => {
        include_str!(concat!("../../../../../engine/src/error/", $file))
    };
}

/// A word that an error's `Debug` begins with, the enum behind it, and the file of that.
const STAGES: [(&str, &str, &str); 6] = [
    ("Access", "AccessError", source!("access.rs")),
    ("Schema", "SchemaError", source!("schema.rs")),
    ("Read", "ReadError", source!("read.rs")),
    ("Write", "WriteError", source!("write.rs")),
    ("Transaction", "TransactionError", source!("transaction.rs")),
    ("Unavailable", "Unavailable", source!("unavailable.rs")),
];
/// These have the kind of the error that they carry.
const CARRIERS: [&str; 4] = ["NotKept", "OfOperation", "Partly", "UndoRefused"];

fn variants(name: &str, source: &str) -> Vec<String> {
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let names = body.lines().filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        let end = line.find(|letter: char| !letter.is_alphanumeric());
        let name = &line[..end.unwrap_or(line.len())];
        name.starts_with(char::is_uppercase)
            .then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn each_variant_of_the_engine_has_a_case() {
    let cases: Vec<String> = cases()
        .into_iter()
        .chain(inner_cases())
        .map(|(error, _)| format!("{error:?}"))
        .collect();
    let mut missing = Vec::new();
    for (stage, name, source) in STAGES {
        for variant in variants(name, source) {
            let begin = format!("{stage}({variant}");
            let is_shown = |case: &String| {
                let rest = case.strip_prefix(&begin);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            if !cases.iter().any(is_shown) && !CARRIERS.contains(&variant.as_str()) {
                missing.push(format!("{name}::{variant}"));
            }
        }
    }
    assert!(missing.is_empty(), "no case in this file has {missing:?}");
}

#[test]
fn a_failure_of_ours_tells_the_client_nothing() {
    let detail = "the disk at /secret broke";
    let error = ApiError::from(EngineError::Store(StoreError::Io {
        detail: detail.into(),
    }));
    assert_eq!(error.message(Family::Tables), "Server Error");
    assert!(error.detail.is_some_and(|logged| logged.contains(detail)));
}

#[test]
fn quoted_beginnings_of_messages_are_kept() {
    let unknown = ModelError::UnknownColumn {
        key: "colour".into(),
    };
    let said =
        ApiError::from(EngineError::Write(WriteError::Structure(unknown))).message(Family::Tables);
    assert_eq!(
        said,
        "Invalid document structure: Unknown attribute: \"colour\"."
    );
    let said = ApiError::missing("name").message(Family::Tables);
    assert_eq!(said, "Param \"name\" is not optional.");
}

#[test]
fn the_older_family_reads_its_own_words() {
    let error = ApiError::invalid("rowId", "No.");
    assert_eq!(error.message(Family::Tables), "Invalid `rowId` param: No.");
    assert_eq!(
        error.message(Family::Documents),
        "Invalid `documentId` param: No."
    );
    let error = ApiError::missing("tableId");
    assert_eq!(
        error.message(Family::Documents),
        "Param \"collectionId\" is not optional."
    );
    let error = ApiError::missing("documents");
    assert_eq!(
        error.message(Family::Documents),
        "Param \"documents\" is not optional."
    );
}

#[test]
fn a_write_of_unknown_outcome_names_the_mark_that_tells_it_later() {
    let error = |mark| ApiError::from(EngineError::Write(WriteError::CommitUnknown { mark }));
    let staged = error(None);
    assert!(staged.members().is_empty());
    assert!(!staged.message(Family::Tables).contains("mark"));
    let written = error(Some(Mark(17)));
    let members = written.members();
    assert_eq!(members, [("mark", wire::written(&17))]);
    assert!(written.message(Family::Tables).contains("its mark is 17"));
    assert!(
        written
            .message(Family::Tables)
            .contains("`Idempotency-Key`")
    );
}

#[test]
fn texts_that_name_a_header_a_flag_or_a_command_are_whole() {
    let text = |error: EngineError| ApiError::from(error).message(Family::Tables);
    assert_eq!(
        text(Unavailable::ClockImplausible { ahead_s: 7 }.into()),
        "Writes are stopped: the clock is 7 s ahead of the last commit. Check the clock; if it is \
         right, restart with --accept-clock."
    );
    assert_eq!(
        text(WriteError::StoredAnswerTooLarge { bytes_max: 9 }.into()),
        "Invalid `Idempotency-Key` param: The answer to keep would have more than 9 bytes."
    );
    assert_eq!(
        text(SchemaError::KeyCreationDenied.into()),
        "API keys are made on the server's command line, by `tidemark key create`, and are not \
         changed; they can be revoked."
    );
}
