//! What every report says before its own tables, as the page reads it and in Markdown.

use measure::markdown::front_matter;
use measure::record::object;
use serde_json::{Value, json};

use crate::record::{PAGE, RUN};
use crate::run::{FORMAT, Group, Run, Table};

/// Names and values, in the order shown.
pub type Pairs = Vec<(&'static str, Value)>;

/// What a reader must know before any figure.
pub struct ReportHead {
    /// What was run, in one word.
    pub kind: &'static str,
    /// The page's title.
    pub title: &'static str,
    /// One sentence below it.
    pub lead: String,
    /// How it was measured.
    pub method: &'static str,
    /// When it began, ISO 8601.
    pub started: String,
    /// Where it ran.
    pub machine: Pairs,
    /// All that is needed to repeat it.
    pub parameters: Pairs,
}

impl ReportHead {
    /// The run as page and programs read it.
    pub fn run(self, tables: Vec<Table>, groups: Vec<Group>) -> Run {
        Run {
            format: FORMAT.to_owned(),
            kind: self.kind.to_owned(),
            title: self.title.to_owned(),
            lead: self.lead,
            method: self.method.to_owned(),
            started: self.started,
            machine: object(self.machine),
            parameters: object(self.parameters),
            prices: None,
            columns: None,
            tables,
            groups,
        }
    }

    /// The report; page and samples stand beside it. Its head ends with `pairs`; `summary` comes
    /// before the way to the page, `rest` after it.
    pub fn markdown(&self, pairs: Vec<(String, Value)>, summary: &str, rest: &str) -> String {
        let mut head = self.parameters.clone();
        if head.iter().all(|(key, _)| *key != "started") {
            head.insert(0, ("started", json!(self.started)));
        }
        head.extend(self.machine.clone());
        let head = head.into_iter().map(|(key, value)| (key.to_owned(), value));
        let head = front_matter(head.chain(pairs));
        let ReportHead {
            title,
            lead,
            method,
            ..
        } = self;
        format!(
            "{head}\n# {title}\n\n{lead}\n\n{method}\n\n{summary}[The same to look at]({PAGE}): \
             open it in a browser. Samples: [{RUN}]({RUN}).\n\n{rest}"
        )
    }
}

/// What a lead ends in.
pub fn mode(is_quick: bool) -> &'static str {
    if is_quick {
        ", a quick run for trying it"
    } else {
        ""
    }
}
