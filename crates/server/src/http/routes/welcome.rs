//! `GET /`, for a person who opens the address of the server in a browser.

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;

const PAGE: &str = include_str!("welcome.html");

/// What this address is, whether the server is well, and where to go on. Shows nothing that
/// `/versions` and a refused write would not show.
pub fn page(context: &RequestContext<'_>) -> Reply {
    let health = match context.app.shared.engine.stop_reason() {
        None => "The server is running.",
        Some(_) => "The server has stopped writing. Its log has the reason.",
    };
    let page = PAGE
        .replace("{version}", env!("CARGO_PKG_VERSION"))
        .replace("{health}", health);
    Reply::html(page)
}
