//! The functions of the published load test: what they are, and what they must answer.

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use serde_json::{Value, json};

use super::rows::check_bunch;

/// The call that executes each of them, as the route of executions takes it.
pub const CALL: &str = concat!(
    r#"{"body":"{\"n\":1}","path":"/","method":"POST","#,
    r#""headers":{"content-type":"application/json"}}"#,
    "\n"
);

/// Seconds that an execution may take: as long as a caller waits.
const TIMEOUT_S: u32 = 30;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFunction {
    /// Column E1 in Node.
    JsonNode,
    /// Column E1 in Python.
    JsonPython,
    /// Column E2 in Node.
    RowsNode,
    /// Column E2 in Python.
    RowsPython,
}

/// What it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionLanguage {
    Node,
    Python,
}

impl LoadFunction {
    /// All, in the order of the report.
    pub const ALL: [LoadFunction; 4] = [
        LoadFunction::JsonNode,
        LoadFunction::JsonPython,
        LoadFunction::RowsNode,
        LoadFunction::RowsPython,
    ];
    /// The one that is measured with durable records, too.
    pub const JSON_DURABLE: LoadFunction = LoadFunction::JsonNode;

    /// The function's id.
    pub fn id(self) -> &'static str {
        match self {
            LoadFunction::JsonNode => "e1-node",
            LoadFunction::JsonPython => "e1-python",
            LoadFunction::RowsNode => "e2-node",
            LoadFunction::RowsPython => "e2-python",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            LoadFunction::JsonNode => "E1: function that returns JSON, Node",
            LoadFunction::JsonPython => "E1: function that returns JSON, Python",
            LoadFunction::RowsNode => "E2: function that fetches 25 rows, Node",
            LoadFunction::RowsPython => "E2: function that fetches 25 rows, Python",
        }
    }

    /// What it is written in.
    pub fn language(self) -> FunctionLanguage {
        match self {
            LoadFunction::JsonNode | LoadFunction::RowsNode => FunctionLanguage::Node,
            LoadFunction::JsonPython | LoadFunction::RowsPython => FunctionLanguage::Python,
        }
    }

    /// The same in Node, which it is compared with.
    pub fn in_node(self) -> LoadFunction {
        match self {
            LoadFunction::JsonNode | LoadFunction::JsonPython => LoadFunction::JsonNode,
            LoadFunction::RowsNode | LoadFunction::RowsPython => LoadFunction::RowsNode,
        }
    }

    /// Whether it reads rows.
    pub fn reads_rows(self) -> bool {
        self.in_node() == LoadFunction::RowsNode
    }

    /// Its code; `has_sdk` says whether packages of the official client lie beside it.
    pub fn code(self, has_sdk: bool) -> &'static str {
        match self {
            LoadFunction::JsonNode => include_str!("../../../load/returns_json.mjs"),
            LoadFunction::JsonPython => include_str!("../../../load/returns_json.py"),
            LoadFunction::RowsNode if has_sdk => {
                include_str!("../../../load/fetches_rows_by_sdk.mjs")
            }
            LoadFunction::RowsNode => include_str!("../../../load/fetches_rows.mjs"),
            LoadFunction::RowsPython if has_sdk => {
                include_str!("../../../load/fetches_rows_by_sdk.py")
            }
            LoadFunction::RowsPython => include_str!("../../../load/fetches_rows.py"),
        }
    }

    /// Its `function.toml`.
    pub fn settings(self, runtime: &str) -> String {
        let scopes = if self.reads_rows() {
            r#"["rows.read"]"#
        } else {
            "[]"
        };
        format!(
            "id = \"{}\"\nruntime = \"{runtime}\"\nentrypoint = \"{}\"\nscopes = {scopes}\n\
             timeout = {TIMEOUT_S}\n",
            self.id(),
            self.language().entrypoint()
        )
    }

    /// What an execution, or a process without a server, has answered.
    ///
    /// # Errors
    /// When that is not what it must be.
    pub fn check(self, body: &str) -> Result<()> {
        let got: Value = serde_json::from_str(body).with_context(|| format!("`{body}`"))?;
        if self.reads_rows() {
            return check_bunch(&got);
        }
        let wanted = json!({ "hello": "world", "given": { "n": 1 } });
        ensure!(got == wanted, "it answers {got}");
        Ok(())
    }
}

impl FunctionLanguage {
    /// The file with the handler.
    pub fn entrypoint(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "index.mjs",
            FunctionLanguage::Python => "main.py",
        }
    }

    /// The package of the official client.
    pub fn sdk(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "node-appwrite",
            FunctionLanguage::Python => "appwrite",
        }
    }

    /// The folder of a function that holds its packages.
    pub fn packages(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "node_modules",
            FunctionLanguage::Python => ".packages",
        }
    }

    /// How ids of its runtimes begin.
    fn prefix(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "node-",
            FunctionLanguage::Python => "python-",
        }
    }

    /// How names of its files end.
    pub fn ending(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "mjs",
            FunctionLanguage::Python => "py",
        }
    }

    /// The id of its runtime on a server.
    ///
    /// # Errors
    /// When the server has none, or does not answer.
    pub fn runtime(self, access: &Access, connection: &mut Connection) -> Result<String> {
        let answer = connection.call(access, "GET", "/functions/runtimes", "")?;
        let listed: Value = serde_json::from_slice(answer.body)?;
        let runtimes = listed["runtimes"].as_array().into_iter().flatten();
        let mut ids = runtimes.filter_map(|runtime| runtime["$id"].as_str());
        let prefix = self.prefix();
        let runtime = ids.find(|id| id.starts_with(prefix));
        let runtime = runtime.with_context(|| {
            format!("the server has no runtime {prefix}…; `tidemark doctor` says what it lacks")
        })?;
        Ok(runtime.to_owned())
    }

    /// Its interpreter.
    pub fn program(self) -> &'static str {
        match self {
            FunctionLanguage::Node => "node",
            FunctionLanguage::Python => "python3",
        }
    }

    /// The file that calls the handler without a server, and its name.
    pub fn bare(self) -> (&'static str, &'static str) {
        match self {
            FunctionLanguage::Node => ("bare.mjs", include_str!("../../../load/bare.mjs")),
            FunctionLanguage::Python => ("bare.py", include_str!("../../../load/bare.py")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_content_is_refused() {
        let handler = LoadFunction::JsonPython;
        handler
            .check(r#"{"given":{"n":1},"hello":"world"}"#)
            .unwrap();
        for body in ["", "{}", r#"{"hello":"world","given":{"n":2}}"#] {
            assert!(handler.check(body).is_err(), "{body}");
        }
        let error = LoadFunction::RowsNode.check(r#"{"total":0,"rows":[]}"#);
        assert_eq!(error.unwrap_err().to_string(), "total: 0");
        let call: Value = serde_json::from_str(CALL).unwrap();
        assert_eq!(call["body"], r#"{"n":1}"#);
    }
}
