//! Databases on their way in and out: exports, imports, and copies from other servers.
//!
//! The command line drives, a store answers: through `admin.sock` where a server runs, opened
//! here where none does. So an export sees one mark from its first row to its last, whatever is
//! written meanwhile, and an import needs no key. Both ways end in [`act::perform`].

pub mod act;
pub mod canonical;
pub mod copy;
pub mod csv;
pub mod definition;
pub mod export;
pub mod history;
pub mod import;
pub mod lines;
pub mod links;
pub mod port_request;
pub mod refusal;
pub mod remote;
pub mod schema;
pub mod schema_file;
pub mod state;
pub mod target;
pub mod waiting;

use indicatif::{ProgressBar, ProgressStyle};

/// A line that counts rows on a terminal; silent elsewhere.
pub fn row_counter(what: &str) -> ProgressBar {
    counter(what, "{spinner} {msg}: {human_pos} rows, {per_sec}")
}

fn counter(what: &str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is constant");
    ProgressBar::new_spinner()
        .with_style(style)
        .with_message(what.to_owned())
}
