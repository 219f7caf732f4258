//! Limits by which definitions are judged, for those who describe the interface.

pub use crate::functions::definition::{
    COMMANDS_CHARS_MAX, ENTRYPOINT_CHARS_MAX, LIST_MAX as FUNCTION_LIST_MAX, RETENTION_DAYS_MAX,
    SCHEDULE_CHARS_MAX,
};
pub use crate::functions::variables::{
    KEY_CHARS_MAX as VARIABLE_KEY_CHARS_MAX, VALUE_CHARS_MAX as VARIABLE_VALUE_CHARS_MAX,
};
pub use crate::schema::containers::NAME_CHARS_MAX;
pub use crate::schema::definition::{
    DEFINITIONS_MAX, ELEMENT_CHARS_MAX, ELEMENTS_MAX, STRING_CHARS_MAX, VARCHAR_CHARS_MAX,
};
