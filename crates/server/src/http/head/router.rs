//! Finds the route of a request, and says what is wrong with a path that has none.

use std::borrow::Cow;

use engine::Family;
use hyper::Method;
use matchit::Router;
use percent_encoding::percent_decode_str;

use super::route::{Action, METHODS, Route, routes};
use crate::http::wire::error::{ApiError, Kind};

/// The ids in a path; empty where the route has none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is named after what it names")]
pub struct PathIds<'p> {
    pub database: Cow<'p, str>,
    pub table: Cow<'p, str>,
    pub column: Cow<'p, str>,
    pub index: Cow<'p, str>,
    pub row: Cow<'p, str>,
    pub transaction: Cow<'p, str>,
    pub key: Cow<'p, str>,
    pub function: Cow<'p, str>,
    pub of_function: Cow<'p, str>,
}

/// The routes, ready to be asked.
pub struct Routes {
    all: Vec<Route>,
    /// One for each of [`METHODS`]: `rows/query` names an action for POST and a row for GET.
    /// They hold positions in `all`.
    by_method: [Router<usize>; METHODS.len()],
}

impl Routes {
    /// Builds the table.
    pub fn new() -> Routes {
        let all = routes();
        let by_method = METHODS.map(|method| {
            let mut router = Router::new();
            let answered = |(_, route): &(usize, &Route)| route.method == method;
            for (position, route) in all.iter().enumerate().filter(answered) {
                router
                    .insert(&route.pattern, position)
                    .expect("the patterns of the table are legal");
            }
            router
        });
        Routes { all, by_method }
    }

    /// The route for a request, and the ids in its path.
    ///
    /// # Errors
    /// An unknown path, a path that is not answered by this method, an id that is not UTF-8.
    pub fn find<'p>(
        &self,
        method: &Method,
        path: &'p str,
    ) -> Result<(&Route, PathIds<'p>), ApiError> {
        let method = if *method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let nth = METHODS.iter().position(|known| known == method);
        let matched = nth.and_then(|nth| self.by_method[nth].at(path).ok());
        let Some(matched) = matched else {
            return Err(self.refusal(path));
        };
        let mut ids = PathIds::default();
        for (name, raw) in matched.params.iter() {
            let id = match name {
                "database" => &mut ids.database,
                "table" => &mut ids.table,
                "column" => &mut ids.column,
                "index" => &mut ids.index,
                "row" => &mut ids.row,
                "transaction" => &mut ids.transaction,
                "key" => &mut ids.key,
                "function" => &mut ids.function,
                // A path names one of them.
                "variable" | "deployment" | "execution" => &mut ids.of_function,
                _ => continue,
            };
            *id = percent_decode_str(raw)
                .decode_utf8()
                .map_err(|_| not_found())?;
        }
        Ok((&self.all[*matched.value], ids))
    }

    /// The route at this place.
    pub fn at(&self, position: usize) -> &Route {
        &self.all[position]
    }

    /// The place of the route that does this, where one alone does.
    ///
    /// # Panics
    /// When no route does it.
    pub fn position(&self, action: Action, family: Family) -> usize {
        let does = |route: &&Route| (route.action, route.family) == (action, family);
        let found = self.all.iter().find(does);
        found.expect("every action has its routes").position
    }

    /// The family whose words a refusal uses, for paths without a route, too.
    pub fn family_of(path: &str) -> Family {
        let rest = path.strip_prefix("/v1/databases");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            Family::Documents
        } else {
            Family::Tables
        }
    }

    /// The methods by which this server answers `path`, as the header `Allow` lists them.
    pub fn allowed(&self, path: &str) -> String {
        let mut allowed = vec!["OPTIONS"];
        for (method, router) in METHODS.iter().zip(&self.by_method) {
            let Ok(matched) = router.at(path) else {
                continue;
            };
            match self.all[*matched.value].action {
                Action::NotBuilt | Action::NotSupported(_) => {}
                _ if *method == Method::GET => allowed.extend(["GET", "HEAD"]),
                _ => allowed.push(method.as_str()),
            }
        }
        allowed.join(", ")
    }

    fn refusal(&self, path: &str) -> ApiError {
        if self.by_method.iter().any(|router| router.at(path).is_ok()) {
            ApiError::not_implemented(self.allowed(path))
        } else {
            ApiError::new(Kind::RouteNotFound, self.advice(path))
        }
    }

    /// What to say of a path without a route: most often the client's endpoint is not written as
    /// this server has it.
    fn advice(&self, path: &str) -> &'static str {
        let is_route = |path: &str| self.by_method.iter().any(|router| router.at(path).is_ok());
        if is_route(&format!("/v1{path}")) {
            return "There is no such route; with `/v1` before it there is. The endpoint of a \
                    client ends in `/v1`.";
        }
        match path.strip_prefix("/v1") {
            Some(rest) if is_route(rest) => {
                "There is no such route; with one `/v1` less there is. The endpoint of a client \
                 has `/v1` once."
            }
            _ => NO_ROUTE,
        }
    }
}

impl Default for Routes {
    fn default() -> Routes {
        Routes::new()
    }
}

const NO_ROUTE: &str = "There is no such route.";

fn not_found() -> ApiError {
    ApiError::new(Kind::RouteNotFound, NO_ROUTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::route::UNSUPPORTED;

    #[track_caller]
    fn check(method: Method, path: &str, action: Action, family: Family) -> PathIds<'_> {
        let routes = Routes::new();
        let (route, ids) = routes.find(&method, path).unwrap();
        assert_eq!(
            (route.action, route.family),
            (action, family),
            "{method} {path}"
        );
        ids
    }

    #[test]
    fn both_families_lead_to_the_same_actions() {
        let tables = "/v1/tablesdb/d/tables/t/rows/r";
        let ids = check(Method::GET, tables, Action::GetRow, Family::Tables);
        assert_eq!((&*ids.database, &*ids.table, &*ids.row), ("d", "t", "r"));
        let older = "/v1/databases/d/collections/t/documents/r";
        assert_eq!(
            check(Method::GET, older, Action::GetRow, Family::Documents),
            ids
        );
        let tables = "/v1/tablesdb/d/tables/t/columns/c";
        let ids = check(Method::GET, tables, Action::GetColumn, Family::Tables);
        assert_eq!(ids.column, "c");
        let older = "/v1/databases/d/collections/t/attributes/c";
        assert_eq!(
            check(Method::GET, older, Action::GetColumn, Family::Documents),
            ids
        );
        check(
            Method::GET,
            "/v1/databases",
            Action::ListDatabases,
            Family::Documents,
        );
    }

    #[test]
    fn a_row_may_be_called_query() {
        let path = "/v1/tablesdb/d/tables/t/rows/query";
        check(Method::POST, path, Action::QueryRows, Family::Tables);
        assert_eq!(
            check(Method::GET, path, Action::GetRow, Family::Tables).row,
            "query"
        );
    }

    #[test]
    fn head_goes_where_get_goes() {
        check(Method::HEAD, "/v1/ping", Action::Ping, Family::Tables);
    }

    #[test]
    fn ids_are_decoded() {
        let ids = check(
            Method::GET,
            "/v1/tablesdb/a%20b",
            Action::GetDatabase,
            Family::Tables,
        );
        assert_eq!(ids.database, "a b");
    }

    #[track_caller]
    fn refuses(method: Method, path: &str, kind: Kind) {
        let routes = Routes::new();
        let error = routes
            .find(&method, path)
            .map(|(route, _)| route.action)
            .unwrap_err();
        assert_eq!(error.kind, kind, "{method} {path}");
    }

    #[test]
    fn unknown_paths_and_unknown_methods_are_told_apart() {
        for path in [
            "/nowhere",
            "/v1/nowhere",
            "/v1/tablesdb/",
            "/v1/tablesdb/%ff",
            "*",
            "",
        ] {
            refuses(Method::GET, path, Kind::RouteNotFound);
        }
        refuses(Method::POST, "/v1/ping", Kind::NotImplemented);
        refuses(Method::PATCH, "/v1/tablesdb/d", Kind::NotImplemented);
        refuses(Method::TRACE, "/v1/tablesdb/d", Kind::NotImplemented);
    }

    #[test]
    fn refusal_of_an_endpoint_with_no_v1_or_two_says_so() {
        let routes = Routes::new();
        let message = |path: &str| {
            let refused = routes
                .find(&Method::GET, path)
                .map(|(route, _)| route.action);
            refused.unwrap_err().message(Family::Tables)
        };
        for (path, part) in [
            ("/tablesdb/d/tables/t/rows", "with `/v1` before it there is"),
            ("/health/version", "with `/v1` before it there is"),
            ("/v1/v1/tablesdb", "with one `/v1` less there is"),
            ("/v1/nowhere", "no such route."),
            ("/v1x", "no such route."),
        ] {
            let message = message(path);
            assert!(message.contains(part), "{path}: {message}");
        }
    }

    #[test]
    fn parts_of_the_protocol_that_are_missing_have_routes_for_every_method() {
        for (segment, begin) in UNSUPPORTED {
            for path in [format!("/v1/{segment}"), format!("/v1/{segment}/a/b")] {
                for method in METHODS {
                    check(method, &path, Action::NotSupported(begin), Family::Tables);
                }
            }
        }
    }

    #[test]
    fn allow_names_what_is_answered() {
        let routes = Routes::new();
        let rows = "/v1/tablesdb/d/tables/t/rows";
        assert_eq!(
            routes.allowed(rows),
            "OPTIONS, GET, HEAD, POST, PUT, PATCH, DELETE"
        );
        assert_eq!(routes.allowed("/v1/account/sessions"), "OPTIONS");
        assert_eq!(
            routes.allowed("/v1/databases/d"),
            "OPTIONS, GET, HEAD, PUT, DELETE"
        );
    }

    #[test]
    fn refusals_know_the_family_of_any_path() {
        assert_eq!(
            Routes::family_of("/v1/databases/x/nonsense"),
            Family::Documents
        );
        assert_eq!(Routes::family_of("/v1/databasesx"), Family::Tables);
        assert_eq!(Routes::family_of("/v1/tablesdb"), Family::Tables);
    }
}
