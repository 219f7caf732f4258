//! What the head of a request says: its line, its headers, and what they mean.

pub mod accept;
pub mod cors;
pub mod credentials;
pub mod etag;
pub mod forwarded;
pub mod headers;
pub mod media;
pub mod min_mark;
pub mod query_string;
pub mod request_ids;
pub mod route;
pub mod router;
