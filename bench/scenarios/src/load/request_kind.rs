//! Kinds of requests.

use super::load_function::LoadFunction;

/// The paced load asks for no more than this share of what the server has answered in the first
/// pass: a bad minute is to leave no queue behind.
pub const PACE_MAX: f64 = 0.5;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// One row is added.
    Add,
    /// One row of 10,000 is read, drawn by chance.
    Read,
    /// 25 rows are fetched as any client would.
    Fetch,
    /// The same, read again each time.
    FetchUncached,
    /// A function is executed.
    Execute(LoadFunction),
    /// The same, and its caller waits for the record.
    ExecuteDurably(LoadFunction),
}

impl RequestKind {
    /// Those on rows, in the order of the published table.
    pub const ON_ROWS: [RequestKind; 4] = [
        RequestKind::Add,
        RequestKind::Read,
        RequestKind::Fetch,
        RequestKind::FetchUncached,
    ];

    /// Those on rows, then those on functions that can be executed here.
    pub fn all(handlers: &[LoadFunction]) -> Vec<RequestKind> {
        let executions = handlers.iter().copied().map(RequestKind::Execute);
        let is_recorded = |handler: &&LoadFunction| **handler == LoadFunction::JSON_DURABLE;
        let recorded = handlers.iter().filter(is_recorded).copied();
        let executions = executions.chain(recorded.map(RequestKind::ExecuteDurably));
        RequestKind::ON_ROWS.into_iter().chain(executions).collect()
    }

    /// Its name for programs.
    pub fn key(self) -> String {
        match self {
            RequestKind::Add => "add".to_owned(),
            RequestKind::Read => "read".to_owned(),
            RequestKind::Fetch => "fetch".to_owned(),
            RequestKind::FetchUncached => "fetch_uncached".to_owned(),
            RequestKind::Execute(handler) => handler.id().replace('-', "_"),
            RequestKind::ExecuteDurably(handler) => {
                RequestKind::Execute(handler).key() + "_durable"
            }
        }
    }

    /// Its name for people.
    pub fn title(self) -> String {
        match self {
            RequestKind::Add => "add one row".to_owned(),
            RequestKind::Read => "read one row".to_owned(),
            RequestKind::Fetch => "fetch 25 rows".to_owned(),
            RequestKind::FetchUncached => "fetch 25 rows, not from the cache".to_owned(),
            RequestKind::Execute(handler) => handler.title().to_owned(),
            RequestKind::ExecuteDurably(handler) => format!("{}, durable records", handler.title()),
        }
    }

    /// The function that it executes.
    pub fn function(self) -> Option<LoadFunction> {
        match self {
            RequestKind::Execute(handler) | RequestKind::ExecuteDurably(handler) => Some(handler),
            RequestKind::Add
            | RequestKind::Read
            | RequestKind::Fetch
            | RequestKind::FetchUncached => None,
        }
    }

    /// What the server is compared with.
    pub fn floor_title(self) -> &'static str {
        match self.function() {
            Some(_) => "bare Node",
            None => "static floor",
        }
    }

    /// What the server is started with.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            RequestKind::ExecuteDurably(_) => &["--execution-records=durable"],
            _ => &[],
        }
    }

    /// Requests a second at a fixed rate: the same in every run, so that runs can be compared.
    fn usual_pace(self) -> f64 {
        match self {
            RequestKind::Add => 1_000.0,
            RequestKind::FetchUncached => 500.0,
            RequestKind::Read | RequestKind::Fetch => 5_000.0,
            RequestKind::Execute(_) | RequestKind::ExecuteDurably(_) => 200.0,
        }
    }

    /// The rate to pace at where the server has answered `per_s`: the usual one, halved until the
    /// server bears it.
    pub fn pace(self, per_s: f64) -> f64 {
        let mut pace = self.usual_pace();
        while pace > (per_s * PACE_MAX).max(1.0) {
            pace /= 2.0;
        }
        pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_the_usual_one_or_halved_until_the_server_bears_it() {
        for (kind, per_s, pace) in [
            (RequestKind::Read, 90_000.0, 5_000.0),
            (RequestKind::Read, 10_000.0, 5_000.0),
            (RequestKind::Read, 9_999.0, 2_500.0),
            (RequestKind::Add, 1_999.0, 500.0),
            (RequestKind::Add, 999.0, 250.0),
            (RequestKind::FetchUncached, 3.0, 0.976_562_5),
            (RequestKind::Execute(LoadFunction::JsonNode), 400.0, 200.0),
        ] {
            assert_eq!(Some(kind.pace(per_s)), Some(pace), "{kind:?} {per_s}");
        }
    }

    #[test]
    fn functions_stand_behind_rows_each_with_a_name_of_its_own() {
        assert_eq!(RequestKind::all(&[]), RequestKind::ON_ROWS);
        let all = RequestKind::all(&LoadFunction::ALL);
        assert_eq!(
            all.len(),
            RequestKind::ON_ROWS.len() + LoadFunction::ALL.len() + 1
        );
        let mut keys: Vec<String> = all.iter().map(|kind| kind.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }
}
