//! What each route does, takes and answers.

use crate::http::head::route::{Action, FunctionAction, Route};

/// What a route answers where it does what was asked: statuses, and the name of the body's schema.
pub type Answers = &'static [(u16, Option<&'static str>)];

/// One operation of the document.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name, unique within a route family.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Names of parameters beside those of the path, and beside those that follow from the action.
    pub parameters: &'static [&'static str],
    /// The name of the body's schema, if there is a body.
    pub body: Option<&'static str>,
    /// Whether it cannot be asked without one.
    pub needs_body: bool,
    /// What it answers.
    pub answers: Answers,
    /// The headers of these answers.
    pub headers: &'static [&'static str],
    /// Statuses of refusals beside those that any route may have.
    pub refusals: &'static [u16],
    /// Whether it asks for no project.
    pub is_public: bool,
}

const MARK: &[&str] = &["X-Tidemark-Mark"];
const OF_LISTS: &[&str] = &["X-Tidemark-Cache", "X-Tidemark-Erased"];
const OF_ROW: &[&str] = &["X-Tidemark-Mark", "X-Tidemark-Erased"];
/// Of a change of rows.
const CHANGED: &[u16] = &[409, 410];
/// Any route may refuse so: what is sent is wrong, who asks may not, nothing is there, the body or
/// the database is slow, the body is large, the server fails or has too much to do.
const OF_ALL: [u16; 8] = [400, 401, 403, 404, 408, 413, 500, 503];

const READS_NOTHING: Operation = Operation {
    name: "",
    summary: "",
    parameters: &[],
    body: None,
    needs_body: false,
    answers: &[],
    headers: &[],
    refusals: &[],
    is_public: false,
};

const fn read(name: &'static str, summary: &'static str, answers: Answers) -> Operation {
    Operation {
        name,
        summary,
        answers,
        ..READS_NOTHING
    }
}

/// A route with a body that must be there.
const fn asked_by(
    name: &'static str,
    summary: &'static str,
    body: &'static str,
    answers: Answers,
) -> Operation {
    Operation {
        body: Some(body),
        needs_body: true,
        ..read(name, summary, answers)
    }
}

/// A change of rows.
const fn change(
    name: &'static str,
    summary: &'static str,
    body: &'static str,
    answers: Answers,
) -> Operation {
    Operation {
        parameters: &["timestamp"],
        headers: MARK,
        refusals: CHANGED,
        ..asked_by(name, summary, body, answers)
    }
}

impl Operation {
    /// What is done by a route with this action; `None` where the document does not describe it.
    /// Actions are named one by one: who adds a route decides.
    pub fn of(action: Action) -> Option<Operation> {
        Some(match action {
            Action::ListRows
            | Action::QueryRows
            | Action::GetRow
            | Action::CreateRows
            | Action::UpsertRow
            | Action::UpdateRow
            | Action::DeleteRow
            | Action::UpsertRows
            | Action::UpdateRows
            | Action::DeleteRows
            | Action::IncrementColumn
            | Action::DecrementColumn => of_rows(action),
            Action::ListTransactions
            | Action::CreateTransaction
            | Action::GetTransaction
            | Action::UpdateTransaction
            | Action::DeleteTransaction
            | Action::StageOperations => of_transactions(action),
            Action::TidemarkStatus
            | Action::Describe
            | Action::Transact
            | Action::Undo
            | Action::ReadAtTimes
            | Action::Heartbeat
            | Action::ListConstraints
            | Action::Constrain
            | Action::AddConstraints
            | Action::RemoveConstraints
            | Action::TableOptions
            | Action::SetTableOptions
            | Action::Explain
            | Action::ResetTests
            | Action::BatchRead
            | Action::BatchWrite => of_own(action),
            Action::Function(action) => return of_functions(action),
            Action::Ping
            | Action::Versions
            | Action::Health(_)
            | Action::ListDatabases
            | Action::CreateDatabase
            | Action::GetDatabase
            | Action::UpdateDatabase
            | Action::DeleteDatabase
            | Action::ListTables
            | Action::CreateTable
            | Action::GetTable
            | Action::UpdateTable
            | Action::DeleteTable
            | Action::ListColumns
            | Action::CreateColumn(_)
            | Action::GetColumn
            | Action::UpdateColumn(_)
            | Action::DeleteColumn
            | Action::CreateRelationship
            | Action::UpdateRelationship
            | Action::ListIndexes
            | Action::CreateIndex
            | Action::GetIndex
            | Action::DeleteIndex
            | Action::GetProject
            | Action::Keys(_)
            | Action::DenyKey
            | Action::NotBuilt
            | Action::NotSupported(_)
            | Action::Welcome => return None,
        })
    }

    /// The group it stands in.
    pub fn tag(&self) -> &'static str {
        if self.name.ends_with("Transaction") || self.name.ends_with("Transactions") {
            "transactions"
        } else if self.name.contains("Row") || self.name.contains("Column") {
            "rows"
        } else {
            "tidemark"
        }
    }

    /// Every status of a refusal that the route may have.
    pub fn refusals(&self, route: &Route) -> Vec<u16> {
        let key_reused = route.action.writes_rows().then_some(409);
        let mut all: Vec<u16> = OF_ALL.into_iter().chain(key_reused).collect();
        all.extend(self.refusals);
        all.sort_unstable();
        all.dedup();
        all
    }
}

const ROW: Answers = &[(200, Some("Row"))];
const ROWS: Answers = &[(200, Some("Rows"))];

fn of_rows(action: Action) -> Operation {
    match action {
        Action::ListRows => Operation {
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
            ..read(
                "listRows",
                "Lists rows of a table.",
                &[(200, Some("Rows")), (304, None)],
            )
        },
        Action::QueryRows => Operation {
            parameters: &["cache"],
            needs_body: false,
            headers: OF_LISTS,
            refusals: &[410],
            ..asked_by(
                "queryRows",
                "Lists rows of a table; the queries stand in the body.",
                "RowQuery",
                ROWS,
            )
        },
        Action::GetRow => Operation {
            parameters: &["queries", "transactionId", "permissions"],
            headers: OF_ROW,
            refusals: &[410],
            ..read("getRow", "Reads a row.", &[(200, Some("Row")), (304, None)])
        },
        other => change_of_rows(other),
    }
}

fn change_of_rows(action: Action) -> Operation {
    const MADE: Answers = &[(201, Some("RowOrRows")), (200, Some("Rows"))];
    const PUT: Answers = &[(200, Some("Row")), (201, Some("Row"))];
    match action {
        Action::CreateRows => change("createRows", "Creates a row, or many.", "NewRows", MADE),
        Action::UpsertRow => change(
            "upsertRow",
            "Merges into a row, or makes it.",
            "RowChange",
            PUT,
        ),
        Action::UpdateRow => change("updateRow", "Merges into a row.", "RowChange", ROW),
        Action::DeleteRow => Operation {
            parameters: &["timestamp", "transactionId"],
            needs_body: false,
            ..change("deleteRow", "Deletes a row.", "Staging", &[(204, None)])
        },
        Action::UpsertRows => {
            let what = "Merges into rows, or makes them, all or none.";
            change("upsertRows", what, "ManyRows", ROWS)
        }
        Action::UpdateRows => {
            let what = "Merges into all rows that match.";
            change("updateRows", what, "MatchingChange", ROWS)
        }
        Action::DeleteRows => Operation {
            parameters: &["timestamp", "queries"],
            needs_body: false,
            ..change(
                "deleteRows",
                "Deletes all rows that match.",
                "Matching",
                ROWS,
            )
        },
        Action::IncrementColumn => Operation {
            needs_body: false,
            ..change("incrementColumn", "Adds to a number.", "Increment", ROW)
        },
        Action::DecrementColumn => Operation {
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

fn of_transactions(action: Action) -> Operation {
    const ONE: Answers = &[(200, Some("Transaction"))];
    const MADE: Answers = &[(201, Some("Transaction"))];
    match action {
        Action::ListTransactions => Operation {
            parameters: &["queries", "search", "total"],
            ..read(
                "listTransactions",
                "Lists transactions.",
                &[(200, Some("Transactions")), (304, None)],
            )
        },
        Action::CreateTransaction => Operation {
            needs_body: false,
            ..asked_by(
                "createTransaction",
                "Opens a transaction.",
                "NewTransaction",
                MADE,
            )
        },
        Action::GetTransaction => read(
            "getTransaction",
            "Reads a transaction.",
            &[(200, Some("Transaction")), (304, None)],
        ),
        Action::UpdateTransaction => Operation {
            refusals: CHANGED,
            ..asked_by(
                "endTransaction",
                "Commits a transaction, or rolls it back.",
                "TransactionEnd",
                ONE,
            )
        },
        Action::DeleteTransaction => {
            let what = "Removes a transaction; what was committed stays.";
            read("deleteTransaction", what, &[(204, None)])
        }
        Action::StageOperations => Operation {
            refusals: CHANGED,
            ..asked_by(
                "stageInTransaction",
                "Adds operations to a transaction.",
                "Operations",
                MADE,
            )
        },
        other => unreachable!("{other:?} is no route of transactions"),
    }
}

fn of_own(action: Action) -> Operation {
    match action {
        Action::TidemarkStatus => read(
            "status",
            "Tells role, mark, horizon and lineage.",
            &[(200, Some("Status"))],
        ),
        Action::Describe => Operation {
            is_public: true,
            ..read(
                "describe",
                "This document.",
                &[(200, Some("Document")), (304, None)],
            )
        },
        Action::Transact | Action::Undo | Action::ReadAtTimes => over_time(action),
        Action::Heartbeat => read(
            "heartbeat",
            "Raises the horizon to the clock.",
            &[(200, Some("Horizon"))],
        ),
        Action::ListConstraints => read(
            "listConstraints",
            "Tells what must hold of a table's rows at every instant.",
            &[(200, Some("Constraints")), (304, None)],
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
        Action::ResetTests => Operation {
            refusals: &[409],
            ..asked_by(
                "resetTests",
                "Empties a server whose clock is set by its clients.",
                "TestTables",
                &[(200, Some("Horizon"))],
            )
        },
        other => of_options_and_batches(other),
    }
}

/// Of the routes of functions those of our own; the others are covered by official clients.
fn of_functions(action: FunctionAction) -> Option<Operation> {
    match action {
        FunctionAction::Options => Some(read(
            "functionOptions",
            "Tells what its owner decided about a function beyond the protocol.",
            &[(200, Some("FunctionOptions")), (304, None)],
        )),
        FunctionAction::SetOptions => Some(asked_by(
            "setFunctionOptions",
            "Decides about a function beyond the protocol.",
            "FunctionOptionsChange",
            &[(200, Some("FunctionOptions"))],
        )),
        _ => None,
    }
}

/// Transactions and reads over time.
fn over_time(action: Action) -> Operation {
    match action {
        Action::Transact => Operation {
            headers: MARK,
            refusals: CHANGED,
            ..asked_by(
                "transact",
                "Commits operations over valid periods, all at one mark or none.",
                "TimedTransaction",
                &[(201, Some("Transacted"))],
            )
        },
        Action::Undo => Operation {
            headers: MARK,
            refusals: CHANGED,
            ..asked_by(
                "undo",
                "Makes rows again what they were before certain commits, all or none.",
                "Undo",
                &[(200, Some("Undone")), (201, Some("Undone"))],
            )
        },
        Action::ReadAtTimes => Operation {
            refusals: &[410],
            ..asked_by(
                "readAtTimes",
                "Reads rows, pieces, versions and records of commits at given times.",
                "TimedReads",
                &[(200, Some("TimedAnswer"))],
            )
        },
        other => unreachable!("{other:?} is no route over time"),
    }
}

const fn constraining(name: &'static str, summary: &'static str) -> Operation {
    Operation {
        refusals: &[409],
        ..asked_by(name, summary, "Constraints", &[(200, Some("Constraints"))])
    }
}

fn of_options_and_batches(action: Action) -> Operation {
    const OPTIONS: Answers = &[(200, Some("TableOptions"))];
    match action {
        Action::TableOptions => read(
            "tableOptions",
            "Tells what its owner decided about a table's past.",
            &[(200, Some("TableOptions")), (304, None)],
        ),
        Action::SetTableOptions => Operation {
            refusals: &[409],
            ..asked_by(
                "setTableOptions",
                "Decides about a table's past.",
                "TableOptionsChange",
                OPTIONS,
            )
        },
        Action::Explain => Operation {
            parameters: &["queries"],
            ..read(
                "explainList",
                "Tells how the rows of a list are found, without reading them.",
                &[(200, Some("Explained")), (304, None)],
            )
        },
        Action::BatchRead => asked_by(
            "batchRead",
            "Reads many rows by ids or unique keys.",
            "BatchReads",
            &[(200, Some("BatchRead"))],
        ),
        Action::BatchWrite => Operation {
            refusals: CHANGED,
            ..asked_by(
                "batchWrite",
                "Does many operations on rows, together or each on its own.",
                "BatchWrites",
                &[(200, Some("BatchWritten"))],
            )
        },
        other => unreachable!("{other:?} is no route of our own"),
    }
}
