//! What each route does, takes and answers.

use hyper::Method;

use crate::http::head::route::{Action, Route};

mod functions;
mod schemas;
mod server;

pub use schemas::KINDS;

use AnswerBody::{Empty, Json};

/// The body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// None.
    Empty,
    /// JSON by the schema of this name.
    Json(&'static str),
    /// Bytes of this media type.
    Raw(&'static str),
}

/// What a route answers where it does what was asked: statuses and bodies. That a client may hold
/// the answer already follows from the route.
pub type Answers = &'static [(u16, AnswerBody)];

/// One operation of the document.
#[derive(Clone, Copy, Debug)]
pub struct RouteDescription {
    /// Its name, unique within a route family.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Names of parameters beside those of the path, and beside those that follow from the action.
    pub parameters: &'static [&'static str],
    /// The name of the body's schema, if there is a body.
    pub body: Option<&'static str>,
    /// Whether it cannot be called without one.
    pub needs_body: bool,
    /// Whether the body is a form with a file, not JSON.
    pub is_form: bool,
    /// What it answers.
    pub answers: Answers,
    /// The headers of these answers.
    pub headers: &'static [&'static str],
    /// Statuses of refusals beside those that any route may have.
    pub refusals: &'static [u16],
    /// The group it stands in.
    pub tag: &'static str,
}

const MARK: &[&str] = &["X-Tidemark-Mark"];
const OF_LISTS: &[&str] = &["X-Tidemark-Cache", "X-Tidemark-Erased"];
const OF_ROW: &[&str] = &["X-Tidemark-Mark", "X-Tidemark-Erased"];
/// Of a change of rows.
const CHANGED: &[u16] = &[409, 410];
/// Any route may refuse so: what is sent is wrong, the caller may not, nothing is there, the body
/// or the database is slow, the body is large, an address sends too much, the server fails or has
/// too much to do.
const OF_ALL: [u16; 9] = [400, 401, 403, 404, 408, 413, 429, 500, 503];
/// Parameters of a list of what has a name.
const CONTAINERS: &[&str] = &["queries", "search", "total"];
/// Parameters of a list of what is in a table.
const PARTS: &[&str] = &["queries", "total"];

const READS_NOTHING: RouteDescription = RouteDescription {
    name: "",
    summary: "",
    parameters: &[],
    body: None,
    needs_body: false,
    is_form: false,
    answers: &[],
    headers: &[],
    refusals: &[],
    tag: "",
};

const fn read(name: &'static str, summary: &'static str, answers: Answers) -> RouteDescription {
    RouteDescription {
        name,
        summary,
        answers,
        ..READS_NOTHING
    }
}

/// A route with a body that must be there.
const fn sent(
    name: &'static str,
    summary: &'static str,
    body: &'static str,
    answers: Answers,
) -> RouteDescription {
    RouteDescription {
        body: Some(body),
        needs_body: true,
        ..read(name, summary, answers)
    }
}

/// A route that deletes what its path names.
const fn deletion(name: &'static str, summary: &'static str) -> RouteDescription {
    read(name, summary, &[(204, Empty)])
}

/// A change of rows.
const fn change(
    name: &'static str,
    summary: &'static str,
    body: &'static str,
    answers: Answers,
) -> RouteDescription {
    RouteDescription {
        parameters: &["timestamp"],
        headers: MARK,
        refusals: CHANGED,
        ..sent(name, summary, body, answers)
    }
}

impl RouteDescription {
    /// What is done by a route with this action; `None` where every request is refused. Actions are
    /// named one by one: the author of a route decides.
    pub fn of(action: Action) -> Option<RouteDescription> {
        use Action as A;
        let (tag, operation) = match action {
            A::ListRows
            | A::QueryRows
            | A::GetRow
            | A::CreateRows
            | A::UpsertRow
            | A::UpdateRow
            | A::DeleteRow
            | A::UpsertRows
            | A::UpdateRows
            | A::DeleteRows
            | A::IncrementColumn
            | A::DecrementColumn => ("rows", of_rows(action)),
            A::ListTransactions
            | A::CreateTransaction
            | A::GetTransaction
            | A::UpdateTransaction
            | A::DeleteTransaction
            | A::StageOperations => ("transactions", of_transactions(action)),
            A::TidemarkStatus
            | A::Describe
            | A::Transact
            | A::Undo
            | A::ReadAtTimes
            | A::Heartbeat
            | A::ListConstraints
            | A::Constrain
            | A::AddConstraints
            | A::RemoveConstraints
            | A::TableOptions
            | A::SetTableOptions
            | A::Explain
            | A::ResetTests
            | A::BatchRead
            | A::BatchWrite => ("tidemark", of_own(action)),
            A::ListDatabases
            | A::CreateDatabase
            | A::GetDatabase
            | A::UpdateDatabase
            | A::DeleteDatabase => ("databases", schemas::of_databases(action)),
            A::ListTables | A::CreateTable | A::GetTable | A::UpdateTable | A::DeleteTable => {
                ("tables", schemas::of_tables(action))
            }
            A::ListColumns
            | A::CreateColumn(_)
            | A::GetColumn
            | A::UpdateColumn(_)
            | A::DeleteColumn
            | A::CreateRelationship
            | A::UpdateRelationship => ("columns", schemas::of_columns(action)),
            A::ListIndexes | A::CreateIndex | A::GetIndex | A::DeleteIndex => {
                ("indexes", schemas::of_indexes(action))
            }
            A::Function(action) => ("functions", functions::of_functions(action)),
            A::GetProject | A::Keys(_) => ("project", server::of_project(action)),
            A::Ping | A::Versions | A::Health(_) | A::Welcome => {
                ("server", server::of_server(action))
            }
            A::DenyKey | A::NotBuilt | A::NotSupported(_) => return None,
        };
        Some(RouteDescription { tag, ..operation })
    }

    /// Every status of a refusal that the route may have.
    pub fn refusals(&self, route: &Route) -> Vec<u16> {
        let key_reused = route.action.writes_rows().then_some(409);
        let wrong_type = self.body.map(|_| 415);
        let no_room = (route.method != Method::GET).then_some(507);
        let by_route = [key_reused, wrong_type, no_room].into_iter().flatten();
        let mut all: Vec<u16> = OF_ALL.into_iter().chain(by_route).collect();
        all.extend(self.refusals);
        all.sort_unstable();
        all.dedup();
        all
    }
}

const ROW: Answers = &[(200, Json("Row"))];
const ROWS: Answers = &[(200, Json("Rows"))];

fn of_rows(action: Action) -> RouteDescription {
    match action {
        Action::ListRows => RouteDescription {
            parameters: &[
                "queries",
                "total",
                "ttl",
                "transactionId",
                "permissions",
                "cache",
            ],
            headers: OF_LISTS,
            refusals: &[410],
            ..read("listRows", "Lists rows of a table.", &[(200, Json("Rows"))])
        },
        Action::QueryRows => RouteDescription {
            parameters: &["cache"],
            needs_body: false,
            headers: OF_LISTS,
            refusals: &[410],
            ..sent(
                "queryRows",
                "Lists rows of a table; the queries stand in the body.",
                "RowQuery",
                ROWS,
            )
        },
        Action::GetRow => RouteDescription {
            parameters: &["queries", "transactionId", "permissions"],
            headers: OF_ROW,
            refusals: &[410],
            ..read("getRow", "Reads a row.", &[(200, Json("Row"))])
        },
        other => change_of_rows(other),
    }
}

fn change_of_rows(action: Action) -> RouteDescription {
    const MADE: Answers = &[(201, Json("RowOrRows")), (200, Json("Rows"))];
    const PUT: Answers = &[(200, Json("Row")), (201, Json("Row"))];
    match action {
        Action::CreateRows => change("createRows", "Creates a row, or many.", "NewRows", MADE),
        Action::UpsertRow => change(
            "upsertRow",
            "Merges into a row, or makes it.",
            "RowChange",
            PUT,
        ),
        Action::UpdateRow => change("updateRow", "Merges into a row.", "RowChange", ROW),
        Action::DeleteRow => RouteDescription {
            parameters: &["timestamp", "transactionId"],
            needs_body: false,
            ..change("deleteRow", "Deletes a row.", "Staging", &[(204, Empty)])
        },
        Action::UpsertRows => {
            let what = "Merges into rows, or makes them, all or none.";
            change("upsertRows", what, "ManyRows", ROWS)
        }
        Action::UpdateRows => {
            let what = "Merges into all rows that match.";
            change("updateRows", what, "MatchingChange", ROWS)
        }
        Action::DeleteRows => RouteDescription {
            parameters: &["timestamp", "queries"],
            needs_body: false,
            ..change(
                "deleteRows",
                "Deletes all rows that match.",
                "Matching",
                ROWS,
            )
        },
        Action::IncrementColumn => RouteDescription {
            needs_body: false,
            ..change("incrementColumn", "Adds to a number.", "Increment", ROW)
        },
        Action::DecrementColumn => RouteDescription {
            needs_body: false,
            ..change(
                "decrementColumn",
                "Subtracts from a number.",
                "Decrement",
                ROW,
            )
        },
        other => unreachable!("{other:?} is no route of rows"),
    }
}

fn of_transactions(action: Action) -> RouteDescription {
    const ONE: Answers = &[(200, Json("Transaction"))];
    const MADE: Answers = &[(201, Json("Transaction"))];
    match action {
        Action::ListTransactions => RouteDescription {
            parameters: &["queries", "search", "total"],
            ..read(
                "listTransactions",
                "Lists transactions.",
                &[(200, Json("Transactions"))],
            )
        },
        Action::CreateTransaction => RouteDescription {
            needs_body: false,
            ..sent(
                "createTransaction",
                "Opens a transaction.",
                "NewTransaction",
                MADE,
            )
        },
        Action::GetTransaction => read(
            "getTransaction",
            "Reads a transaction.",
            &[(200, Json("Transaction"))],
        ),
        Action::UpdateTransaction => RouteDescription {
            refusals: CHANGED,
            ..sent(
                "endTransaction",
                "Commits a transaction, or rolls it back.",
                "TransactionEnd",
                ONE,
            )
        },
        Action::DeleteTransaction => {
            let what = "Removes a transaction; what was committed stays.";
            read("deleteTransaction", what, &[(204, Empty)])
        }
        Action::StageOperations => RouteDescription {
            refusals: CHANGED,
            ..sent(
                "stageInTransaction",
                "Adds operations to a transaction.",
                "Operations",
                MADE,
            )
        },
        other => unreachable!("{other:?} is no route of transactions"),
    }
}

fn of_own(action: Action) -> RouteDescription {
    match action {
        Action::TidemarkStatus => read(
            "status",
            "Tells role, mark, horizon and lineage.",
            &[(200, Json("Status"))],
        ),
        Action::Describe => read("describe", "This document.", &[(200, Json("Document"))]),
        Action::Transact | Action::Undo | Action::ReadAtTimes => over_time(action),
        Action::Heartbeat => read(
            "heartbeat",
            "Raises the horizon to the clock.",
            &[(200, Json("Horizon"))],
        ),
        Action::ListConstraints => read(
            "listConstraints",
            "Tells what must hold of a table's rows at every instant.",
            &[(200, Json("Constraints"))],
        ),
        Action::Constrain => constraining(
            "constrain",
            "Replaces what must hold of a table's rows at every instant.",
        ),
        Action::AddConstraints => constraining(
            "addConstraints",
            "Adds to what must hold of a table's rows at every instant.",
        ),
        Action::RemoveConstraints => constraining(
            "removeConstraints",
            "Removes some of what must hold of a table's rows at every instant.",
        ),
        Action::ResetTests => RouteDescription {
            refusals: &[409],
            ..sent(
                "resetTests",
                "Empties a server whose clock is set by its clients.",
                "TestTables",
                &[(200, Json("Horizon"))],
            )
        },
        other => of_options_and_batches(other),
    }
}

/// Transactions and reads over time.
fn over_time(action: Action) -> RouteDescription {
    match action {
        Action::Transact => RouteDescription {
            headers: MARK,
            refusals: CHANGED,
            ..sent(
                "transact",
                "Commits operations over valid periods, all at one mark or none.",
                "TimedTransaction",
                &[(201, Json("Transacted"))],
            )
        },
        Action::Undo => RouteDescription {
            headers: MARK,
            refusals: CHANGED,
            ..sent(
                "undo",
                "Makes rows again what they were before certain commits, all or none.",
                "Undo",
                &[(200, Json("Undone")), (201, Json("Undone"))],
            )
        },
        Action::ReadAtTimes => RouteDescription {
            refusals: &[410],
            ..sent(
                "readAtTimes",
                "Reads rows, pieces, versions and records of commits at given times.",
                "TimedReads",
                &[(200, Json("TimedAnswer"))],
            )
        },
        other => unreachable!("{other:?} is no route over time"),
    }
}

const fn constraining(name: &'static str, summary: &'static str) -> RouteDescription {
    RouteDescription {
        refusals: &[409],
        ..sent(name, summary, "Constraints", &[(200, Json("Constraints"))])
    }
}

fn of_options_and_batches(action: Action) -> RouteDescription {
    const OPTIONS: Answers = &[(200, Json("TableOptions"))];
    match action {
        Action::TableOptions => read(
            "tableOptions",
            "Tells what its owner decided about a table's past.",
            &[(200, Json("TableOptions"))],
        ),
        Action::SetTableOptions => RouteDescription {
            refusals: &[409],
            ..sent(
                "setTableOptions",
                "Decides about a table's past.",
                "TableOptionsChange",
                OPTIONS,
            )
        },
        Action::Explain => RouteDescription {
            parameters: &["queries"],
            ..read(
                "explainList",
                "Tells how the rows of a list are found, without reading them.",
                &[(200, Json("Explained"))],
            )
        },
        Action::BatchRead => sent(
            "batchRead",
            "Reads many rows by ids or unique keys.",
            "BatchReads",
            &[(200, Json("BatchRead"))],
        ),
        Action::BatchWrite => RouteDescription {
            refusals: CHANGED,
            ..sent(
                "batchWrite",
                "Does many operations on rows, together or each on its own.",
                "BatchWrites",
                &[(200, Json("BatchWritten"))],
            )
        },
        other => unreachable!("{other:?} is no route of our own"),
    }
}
