//! Failures as clients see them: the one place that knows statuses and `type` words.

mod from_engine;

use std::borrow::Cow;

use engine::{Family, Violations};
use hyper::StatusCode;
use model::Mark;

use crate::http::wire::{self, InstantForm, SortedObject, WrittenJson, written, written_array};

pub use from_engine::CLOCK_ADVICE;

macro_rules! kinds {
    ($($name:ident $status:literal $kind:literal $(legacy $legacy:literal)?;)*) => {
        /// Every `type` an answer can carry, with its status. `docs/reference/errors.md` lists
        /// them in this order, and a test compares the two.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is its `type`; the page says when")]
        pub enum Kind { $($name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            /// The HTTP status, also in the body as `code`.
            pub fn status(self) -> StatusCode {
                let status: u16 = match self { $(Kind::$name => $status,)* };
                StatusCode::from_u16(status).expect("the table holds legal statuses")
            }

            /// The body's `type`, which differs by route family.
            pub fn name(self, family: Family) -> &'static str {
                match (self, family) {
                    $($((Kind::$name, Family::Documents) => $legacy,)?)*
                    $((Kind::$name, _) => $kind,)*
                }
            }
        }
    };
}

kinds! {
    ArgumentInvalid 400 "general_argument_invalid";
    BadRequest 400 "general_bad_request";
    QueryInvalid 400 "general_query_invalid";
    CursorNotFound 400 "general_cursor_not_found";
    FeatureUnsupported 400 "general_feature_unsupported";
    OrderNull 400 "database_query_order_null";
    AnswerTooLarge 400 "general_answer_too_large";
    SortTooLarge 400 "general_sort_too_large";
    InvalidRange 400 "invalid_range";
    FutureMark 400 "future_tt";
    RowInvalidStructure 400 "row_invalid_structure" legacy "document_invalid_structure";
    RowMissingData 400 "row_missing_data" legacy "document_missing_data";
    RowMissingPayload 400 "row_missing_payload" legacy "document_missing_payload";
    ColumnUnknown 400 "column_unknown" legacy "attribute_unknown";
    ColumnDefaultUnsupported 400 "column_default_unsupported"
        legacy "attribute_default_unsupported";
    ColumnFormatUnsupported 400 "column_format_unsupported"
        legacy "attribute_format_unsupported";
    ColumnValueInvalid 400 "column_value_invalid" legacy "attribute_value_invalid";
    ColumnTypeInvalid 400 "column_type_invalid" legacy "attribute_type_invalid";
    ColumnInvalidResize 400 "column_invalid_resize" legacy "attribute_invalid_resize";
    ColumnLimitExceeded 400 "column_limit_exceeded" legacy "attribute_limit_exceeded";
    AttributeTypeInvalid 400 "attribute_type_invalid";
    RelationshipValueInvalid 400 "relationship_value_invalid";
    ColumnIndexInvalid 400 "column_index_invalid" legacy "index_invalid";
    ColumnIndexLimitExceeded 400 "column_index_limit_exceeded" legacy "index_limit_exceeded";
    IndexInvalid 400 "index_invalid";
    TransactionLimitExceeded 400 "transaction_limit_exceeded";
    TransactionNotReady 400 "transaction_not_ready";
    SourceTooLarge 400 "deployment_invalid_file_size";
    SourceEmpty 400 "storage_file_empty";
    SourceNotGzip 400 "storage_file_type_unsupported";
    RangeInvalid 400 "storage_invalid_content_range";
    BuildNotReady 400 "build_not_ready";
    ExecutionInProgress 400 "execution_in_progress";
    VariableSecretStays 400 "variable_cannot_unset_secret";
    AccessForbidden 401 "general_access_forbidden";
    UnauthorizedScope 401 "general_unauthorized_scope";
    Unauthorized 401 "user_unauthorized";
    JwtInvalid 401 "user_jwt_invalid";
    KeyExpired 401 "project_key_expired";
    UnknownOrigin 403 "general_unknown_origin";
    RowDeleteRestricted 403 "row_delete_restricted" legacy "document_delete_restricted";
    KeyCreationDenied 403 "key_creation_denied";
    RouteNotFound 404 "general_route_not_found";
    ProjectNotFound 404 "project_not_found";
    KeyNotFound 404 "key_not_found";
    DatabaseNotFound 404 "database_not_found";
    TableNotFound 404 "table_not_found" legacy "collection_not_found";
    ColumnNotFound 404 "column_not_found" legacy "attribute_not_found";
    ColumnIndexNotFound 404 "column_index_not_found" legacy "index_not_found";
    ConstraintNotFound 404 "constraint_not_found";
    RowNotFound 404 "row_not_found" legacy "document_not_found";
    TransactionNotFound 404 "transaction_not_found";
    FunctionNotFound 404 "function_not_found";
    VariableNotFound 404 "variable_not_found";
    DeploymentNotFound 404 "deployment_not_found";
    ExecutionNotFound 404 "execution_not_found";
    EntrypointMissing 404 "function_entrypoint_missing";
    RuntimeUnsupported 404 "function_runtime_unsupported";
    NotImplemented 405 "general_not_implemented";
    DatabaseTimeout 408 "database_timeout";
    SynchronousTimeout 408 "function_synchronous_timeout";
    RequestTimeout 408 "general_request_timeout";
    ProjectExists 409 "project_already_exists";
    KeyExists 409 "key_already_exists";
    DatabaseExists 409 "database_already_exists";
    TableExists 409 "table_already_exists" legacy "collection_already_exists";
    TableReferenced 409 "table_referenced" legacy "collection_referenced";
    ColumnExists 409 "column_already_exists" legacy "attribute_already_exists";
    ColumnIndexDependency 409 "column_index_dependency" legacy "index_dependency";
    ColumnIndexExists 409 "column_index_already_exists" legacy "index_already_exists";
    ConstraintExists 409 "constraint_already_exists";
    RowExists 409 "row_already_exists" legacy "document_already_exists";
    RowUniqueViolation 409 "row_unique_constraint_violation"
        legacy "document_unique_constraint_violation";
    RowUpdateConflict 409 "row_update_conflict" legacy "document_update_conflict";
    Exists 409 "exists";
    AssertFailed 409 "assert_failed";
    UniqueOverTime 409 "unique_violation";
    ReferenceOverTime 409 "ref_violation";
    TransactionExists 409 "transaction_already_exists";
    TransactionConflict 409 "transaction_conflict";
    FunctionExists 409 "function_already_exists";
    VariableExists 409 "variable_already_exists";
    DeploymentExists 409 "deployment_already_exists";
    RequestKeyReused 409 "general_idempotency_key_reused";
    TransactionExpired 410 "transaction_expired";
    HistoryGone 410 "history_gone";
    PayloadTooLarge 413 "general_payload_too_large";
    UnsupportedMediaType 415 "general_unsupported_media_type";
    RateLimitExceeded 429 "general_rate_limit_exceeded";
    Unknown 500 "general_unknown";
    EncryptedValueInvalid 500 "encrypted_value_invalid";
    OutcomeUnknown 500 "write_outcome_unknown";
    ServiceNotSupported 501 "general_service_not_supported";
    ServiceUnavailable 503 "general_service_unavailable";
    CommitUnknown 503 "commit_unknown";
    AnswerUnsent 503 "execution_answer_unsent";
    MarkNotReached 503 "mark_not_reached";
    QuotaExceeded 507 "general_quota_exceeded";
    StorageFull 507 "general_storage_full";
}

/// After how many seconds a request that met too much work may be sent again: queues of reads
/// and writes hold seconds of work at most, and a client that asks at once only adds to them.
pub(in crate::http) const RETRY_AFTER_S: &str = "1";

/// A refusal, ready to be shaped.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// Decides status and `type`.
    pub kind: Kind,
    message: Message,
    /// What only the log may say.
    pub detail: Option<String>,
    /// The methods of the header `Allow`.
    pub(in crate::http) allow: Option<String>,
    /// Rows that a bulk write had changed before it was refused.
    rows_before: u64,
    /// The part of the request that it is about, and its index. Refusals are returned by value
    /// everywhere, so this is small.
    part: Option<(Parts, u32)>,
    further: Option<Box<Further>>,
}

/// What few refusals say.
#[derive(Clone, Debug, PartialEq)]
enum Further {
    /// A sentence that only a caller with a key may read.
    ForKeys(String),
    /// The rows that break a constraint which was to be declared.
    Violations(Violations),
    /// What the message, whose words are the protocol's, does not say.
    Detail(String),
    /// The mark of a write, if it is stored.
    Mark(Mark),
    /// Rows that were there at the times that are looked at are erased since.
    ErasedPast,
}

/// The parts that a request may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// `ops`
    Operations,
    /// `reads`
    Reads,
}

impl Parts {
    fn name(self) -> &'static str {
        match self {
            Parts::Operations => "ops",
            Parts::Reads => "reads",
        }
    }
}

/// What a client reads. Parameters are named when the answer is written, because only then it
/// is known which family's words to use.
#[derive(Clone, Debug, PartialEq)]
enum Message {
    Sentence(Cow<'static, str>),
    Invalid { name: &'static str, why: String },
    Missing { name: &'static str },
}

impl ApiError {
    /// A refusal with the sentence that a client reads.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::saying(kind, Message::Sentence(message.into()))
    }

    fn saying(kind: Kind, message: Message) -> ApiError {
        ApiError {
            kind,
            message,
            detail: None,
            allow: None,
            rows_before: 0,
            part: None,
            further: None,
        }
    }

    /// A parameter that breaks its rule; `why` is a sentence.
    pub fn invalid(name: &'static str, why: impl Into<String>) -> ApiError {
        let why = why.into();
        ApiError::saying(Kind::ArgumentInvalid, Message::Invalid { name, why })
    }

    /// A parameter that must be given.
    pub fn missing(name: &'static str) -> ApiError {
        ApiError::saying(Kind::ArgumentInvalid, Message::Missing { name })
    }

    /// A failure of ours; the client learns nothing of `detail`.
    pub fn internal(detail: impl Into<String>) -> ApiError {
        let mut error = ApiError::new(Kind::Unknown, "Server Error");
        error.detail = Some(detail.into());
        error
    }

    /// A route that this server does not answer by this method. `allow` names those it does.
    pub fn not_implemented(allow: String) -> ApiError {
        let message = "This route is not answered by this server, or not by this method.";
        let mut error = ApiError::new(Kind::NotImplemented, message);
        error.allow = Some(allow);
        error
    }

    /// A route of a part of the protocol that this server does not have. `begin` is how the
    /// sentence about that part begins: `Teams are`.
    pub fn not_supported(begin: &str) -> ApiError {
        let message = format!(
            "{begin} not supported yet. Supported are databases, tables, rows, transactions, \
             functions, health and project keys."
        );
        ApiError::new(Kind::ServiceNotSupported, message)
    }

    /// The same refusal of a request that had changed so many rows before.
    fn after(mut self, rows: u64) -> ApiError {
        self.rows_before = rows;
        self
    }

    /// The same refusal, of one part of the request.
    #[must_use]
    pub fn of_part(mut self, parts: Parts, index: usize) -> ApiError {
        let index = u32::try_from(index).expect("a list has fewer parts");
        self.part = Some((parts, index));
        self
    }

    /// The same refusal, of one of the rows that the request is about.
    fn of_row(mut self, row: &str) -> ApiError {
        if let Message::Sentence(text) = &mut self.message {
            *text = format!("Row `{row}`: {text}").into();
        }
        self
    }

    /// The same refusal with a further sentence for callers with a key.
    fn for_keys(mut self, sentence: Option<String>) -> ApiError {
        self.further = sentence.map(|sentence| Box::new(Further::ForKeys(sentence)));
        self
    }

    /// The same refusal, to a caller with a key.
    #[must_use]
    pub(in crate::http) fn in_full(mut self) -> ApiError {
        if let (Message::Sentence(text), Some(Further::ForKeys(more))) =
            (&mut self.message, self.further.as_deref())
        {
            *text = format!("{text} {more}").into();
        }
        self
    }

    /// The same refusal, about a past in which rows are erased since.
    fn after_erasure(mut self) -> ApiError {
        self.further = Some(Box::new(Further::ErasedPast));
        self
    }

    /// Whether it is about a past in which rows are erased since.
    pub(in crate::http) fn is_of_erased_past(&self) -> bool {
        self.further.as_deref() == Some(&Further::ErasedPast)
    }

    fn with_detail(mut self, detail: Option<String>) -> ApiError {
        self.further = detail.map(|detail| Box::new(Further::Detail(detail)));
        self
    }

    fn with_mark(mut self, mark: Option<Mark>) -> ApiError {
        self.further = mark.map(|mark| Box::new(Further::Mark(mark)));
        self
    }

    fn with_violations(mut self, violations: Violations) -> ApiError {
        self.further = Some(Box::new(Further::Violations(violations)));
        self
    }

    /// What the body of the answer holds beside what every refusal does, as JSON.
    pub(in crate::http) fn members(&self) -> Vec<(&'static str, WrittenJson)> {
        let violations = match self.further.as_deref() {
            Some(Further::Violations(violations)) => violations,
            Some(Further::Detail(detail)) => return vec![("detail", written(detail))],
            Some(Further::Mark(mark)) => return vec![("mark", written(&mark.0))],
            Some(Further::ForKeys(_) | Further::ErasedPast) | None => return Vec::new(),
        };
        let found = violations.found.iter().map(|violation| {
            let (period, form) = (violation.period, InstantForm::Integer);
            let shown = SortedObject::from([
                ("row", written(violation.row.as_str())),
                ("against", written(&violation.against)),
                ("valid_from", form.written(period.from())),
                ("valid_to", form.written(period.to())),
            ]);
            shown.written()
        });
        vec![
            ("violations", written_array(found)),
            ("more", written(&violations.more)),
        ]
    }

    /// The index of the part of the request that it is about.
    pub fn index(&self) -> Option<u32> {
        self.part.map(|(_, index)| index)
    }

    /// The sentence a client of this family reads.
    pub fn message(&self, family: Family) -> String {
        let sentence = match self.part {
            Some((parts, index)) => {
                format!("`{}[{index}]`: {}", parts.name(), self.sentence(family))
            }
            None => self.sentence(family),
        };
        match self.rows_before {
            0 => sentence,
            1 => format!("{sentence} Before that, 1 row was changed."),
            rows => format!("{sentence} Before that, {rows} rows were changed."),
        }
    }

    fn sentence(&self, family: Family) -> String {
        let word = |name| wire::words(family).of(name);
        match &self.message {
            Message::Sentence(text) => text.to_string(),
            Message::Invalid { name, why } => format!("Invalid `{}` param: {why}", word(name)),
            Message::Missing { name } => format!("Param \"{}\" is not optional.", word(name)),
        }
    }
}

impl ApiError {
    /// The same refusal under another `type`.
    #[must_use]
    pub fn of_kind(mut self, kind: Kind) -> ApiError {
        self.kind = kind;
        self
    }
}

#[cfg(test)]
mod tests;
