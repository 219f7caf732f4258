//! Why a step over `admin.sock` was not done.

use hyper::StatusCode;

/// Why an act was not done. The text is for the administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the socket.
    pub status: StatusCode,
    /// For a person.
    pub message: String,
}

impl Refusal {
    /// What was asked makes no sense.
    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
