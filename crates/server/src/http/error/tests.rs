use EngineError as E;
use model::RowId;

use super::*;

const PAGE: &str = include_str!("../../../../../docs/reference/errors.md");

/// The rows of the page's table, without the column of reasons.
fn listed() -> Vec<(String, String, String)> {
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
        (cells[1].clone(), cells[2].clone(), cells[3].clone())
    })
    .collect()
}

#[test]
fn the_page_lists_exactly_what_the_code_sends() {
    let sent = Kind::ALL.iter().map(|kind| {
        let (name, legacy) = (kind.name(Family::Tables), kind.name(Family::Documents));
        let legacy = if legacy == name { "" } else { legacy };
        (
            kind.status().as_u16().to_string(),
            name.to_owned(),
            legacy.to_owned(),
        )
    });
    assert_eq!(listed(), sent.collect::<Vec<_>>());
}

fn row() -> RowId {
    RowId::new("r").unwrap()
}

fn text() -> String {
    "x".to_owned()
}

/// Every engine error, with the kind it becomes.
fn cases() -> Vec<(EngineError, Kind)> {
    vec![
        (E::ProjectMissing, Kind::AccessForbidden),
        (E::ProjectNotFound(text()), Kind::ProjectNotFound),
        (E::KeyExpired, Kind::KeyExpired),
        (E::ScopeMissing(&[]), Kind::UnauthorizedScope),
        (E::Unauthorized, Kind::Unauthorized),
        (E::RoleNotHeld(text()), Kind::Unauthorized),
        (E::PastClosed(model::Past::Keys), Kind::Unauthorized),
        (E::DatabaseNotFound(text()), Kind::DatabaseNotFound),
        (E::TableNotFound(text()), Kind::TableNotFound),
        (E::RowNotFound(row()), Kind::RowNotFound),
        (E::KeyNotFound(text()), Kind::KeyNotFound),
        (E::KeyCreationDenied, Kind::KeyCreationDenied),
        (E::ProjectExists, Kind::ProjectExists),
        (E::KeyExists, Kind::KeyExists),
        (E::DatabaseExists, Kind::DatabaseExists),
        (E::TableExists, Kind::TableExists),
        (E::RowExists(row()), Kind::RowExists),
        (E::UniqueViolation { index: None }, Kind::RowUniqueViolation),
        (E::RowDataMissing, Kind::RowMissingData),
        (E::PayloadMissing, Kind::RowMissingPayload),
        (
            E::Argument {
                name: "name",
                why: text(),
            },
            Kind::ArgumentInvalid,
        ),
        (E::Unsupported(text()), Kind::FeatureUnsupported),
        (E::Query(QueryError::Syntax(text())), Kind::QueryInvalid),
        (E::Query(QueryError::Invalid(text())), Kind::QueryInvalid),
        (
            E::Query(QueryError::TooLarge(text())),
            Kind::ArgumentInvalid,
        ),
        (E::HistoryGone(model::Timestamp(5)), Kind::HistoryGone),
        (E::CursorNotFound(row()), Kind::CursorNotFound),
        (E::CursorNull(row()), Kind::OrderNull),
        (E::Timeout { limit_ms: 1 }, Kind::DatabaseTimeout),
        (E::SortTooLarge { bytes_max: 1 }, Kind::SortTooLarge),
        (E::TooManyRows { rows_max: 1 }, Kind::BadRequest),
        (E::TooManyBytes { bytes_max: 1 }, Kind::BadRequest),
        (E::ReadersBusy { waiting_max: 1 }, Kind::ServiceUnavailable),
        (E::TrialsBusy { waiting_max: 1 }, Kind::ServiceUnavailable),
        (E::Overloaded, Kind::ServiceUnavailable),
        (E::Closing, Kind::ServiceUnavailable),
        (E::Stopped, Kind::ServiceUnavailable),
        (E::ClockImplausible { ahead_s: 1 }, Kind::ServiceUnavailable),
    ]
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
        (StoreError::Memory, Kind::Unknown),
        (StoreError::Interrupted, Kind::ServiceUnavailable),
        (StoreError::CatalogueMoved, Kind::ServiceUnavailable),
    ]
}

/// Errors that carry those of lower rooms.
fn inner_cases() -> impl Iterator<Item = (EngineError, Kind)> {
    let of_model = model_cases()
        .into_iter()
        .map(|(error, kind)| (E::Structure(error), kind));
    let of_column = column_cases()
        .into_iter()
        .map(|(fault, kind)| (E::Column(fault), kind));
    let of_index = index_cases()
        .into_iter()
        .map(|(fault, kind)| (E::Index(fault), kind));
    let of_store = store_cases()
        .into_iter()
        .map(|(error, kind)| (E::Store(error), kind));
    of_model.chain(of_column).chain(of_index).chain(of_store)
}

#[test]
fn each_engine_error_has_its_kind() {
    for (error, kind) in cases().into_iter().chain(inner_cases()) {
        let shown = format!("{error:?}");
        assert_eq!(ApiError::from(error).kind, kind, "{shown}");
    }
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
    let said = ApiError::from(EngineError::Structure(unknown)).message(Family::Tables);
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
