//! `tidemark function run`: one run of a function, as any client starts it.

use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use hyper::Method;
use serde_json::{Map, Value, json};

use super::function_file::id_or_folder;
use super::log_text::{harmless, marked};
use super::routes::{FunctionRoutes, is_missing, missing, route_of, text};
use super::{Outside, runtime, say, with_server};
use crate::config::ConnectionArgs;

/// Of a request to a function (wire protocol, executions).
const BODY_BYTES_MAX: u64 = 10_485_760;

/// What a function may be called with (wire protocol, executions).
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];

/// The options of `tidemark function run`.
#[derive(Args)]
pub struct FunctionRunArgs {
    /// The function's id [default: that of function.toml in this folder]
    id: Option<String>,
    /// The body: a text, @FILE for the content of a file, @- for standard input. One that is a
    /// JSON object or list gets `content-type: application/json`, unless a header names a type
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// The path that the function sees, which may hold a query
    #[arg(long, default_value = "/")]
    path: String,
    /// The method that the function sees
    #[arg(long, ignore_case = true, default_value = "POST", value_parser = METHODS)]
    method: String,
    /// A header that the function sees; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Do not wait for the end of the run: print the id of the execution
    #[arg(long = "async")]
    is_async: bool,
    /// Print the headers of the response, too
    #[arg(long, short)]
    verbose: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the request cannot be made, or the server refuses to run the function.
pub fn run(args: &FunctionRunArgs, outside: &Outside) -> Result<ExitCode> {
    let id = id_or_folder(args.id.as_ref())?;
    let body = args.request()?;
    let run = with_server(&args.connection, outside, |access| {
        runtime()?.block_on(async {
            let mut routes = FunctionRoutes::connect(access).await?;
            let route = route_of(&id, "/executions");
            let answer = routes.send(Method::POST, &route, Some(&body)).await?;
            if is_missing(&answer) {
                bail!("{}", missing(&id));
            }
            answer.accepted(&format!("running `{id}`"))
        })
    })?;
    if args.is_async {
        eprintln!("Accepted; `tidemark function logs {id}` shows the run when it ends.");
        say(&format!("{}\n", text(&run, "$id")))?;
        return Ok(ExitCode::SUCCESS);
    }
    eprint!("{}", described(&run, args.verbose));
    let mut out = io::stdout().lock();
    let mut body = text(&run, "responseBody").to_owned();
    if out.is_terminal() && !body.ends_with('\n') {
        body.push('\n');
    }
    match out.write_all(body.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(error).context("cannot write to standard output");
        }
        _ => {}
    }
    Ok(if run["status"] == "failed" {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

impl FunctionRunArgs {
    fn request(&self) -> Result<Value> {
        let mut headers = headers(&self.headers)?;
        let body = self.body.as_deref().map_or(Ok(String::new()), body)?;
        let is_typed = headers.keys().any(|name| name == "content-type");
        let is_json = serde_json::from_str::<Value>(&body)
            .is_ok_and(|value| value.is_object() || value.is_array());
        if is_json && !is_typed {
            headers.insert("content-type".into(), json!("application/json"));
        }
        Ok(json!({
            "body": body,
            "async": self.is_async,
            "path": self.path,
            "method": self.method.to_ascii_uppercase(),
            "headers": headers,
        }))
    }
}

fn headers(given: &[String]) -> Result<Map<String, Value>> {
    let mut headers = Map::new();
    for header in given {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| anyhow!("--header `{header}` is not of the form `NAME: VALUE`"))?;
        let name = name.trim().to_ascii_lowercase();
        ensure!(!name.is_empty(), "--header `{header}` has no name");
        headers.insert(name, json!(value.trim()));
    }
    Ok(headers)
}

fn body(given: &str) -> Result<String> {
    let bytes = match given.strip_prefix('@') {
        None => return Ok(given.to_owned()),
        Some("-") => read_bounded(io::stdin().lock(), "standard input")?,
        Some(path) => {
            let file = fs::File::open(path);
            let file = file.with_context(|| format!("--body: cannot read {path}"))?;
            read_bounded(file, path)?
        }
    };
    String::from_utf8(bytes).map_err(|_| anyhow!("--body: a body must be UTF-8"))
}

fn read_bounded(from: impl io::Read, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(BODY_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("--body: cannot read {name}"))?;
    ensure!(
        bytes.len() as u64 <= BODY_BYTES_MAX,
        "--body: {name} has more than {BODY_BYTES_MAX} bytes"
    );
    Ok(bytes)
}

/// Status, headers and logs of a run that ended.
fn described(run: &Value, is_verbose: bool) -> String {
    let mut shown = format!(
        "{}, status {}, {:.3} s, execution {}\n",
        text(run, "status"),
        run["responseStatusCode"],
        run["duration"].as_f64().unwrap_or_default(),
        text(run, "$id")
    );
    if is_verbose {
        for header in run["responseHeaders"].as_array().into_iter().flatten() {
            let line = format!("  {}: {}\n", text(header, "name"), text(header, "value"));
            shown += &harmless(&line);
        }
    }
    shown += &marked("log", text(run, "logs"));
    shown += &marked("error", text(run, "errors"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_run_are_names_and_values() {
        let given = ["X-A: b: c".to_owned(), "content-type:text/plain".to_owned()];
        let wanted = json!({"x-a": "b: c", "content-type": "text/plain"});
        assert_eq!(Value::Object(headers(&given).unwrap()), wanted);
        for given in ["x-a", ": b", ""] {
            let error = headers(&[given.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("--header"), "{error}");
        }
    }

    #[test]
    fn a_body_is_read_up_to_its_bound() {
        assert_eq!(body("{}").unwrap(), "{}");
        assert!(
            body("@/no/file")
                .unwrap_err()
                .to_string()
                .contains("/no/file")
        );
        let endless = read_bounded(io::repeat(0), "x").unwrap_err().to_string();
        assert!(endless.contains("more than 10485760 bytes"), "{endless}");
    }

    #[test]
    fn a_run_is_shown_with_its_logs_and_without_orders_to_the_terminal() {
        let run = json!({"$id": "e1", "status": "failed", "responseStatusCode": 500,
            "duration": 0.25, "logs": "a\nb\n", "errors": "\u{1b}[31mbad",
            "responseHeaders": [{"name": "x-a", "value": "b"}]});
        let shown = "failed, status 500, 0.250 s, execution e1\n  x-a: b\n  log | a\n  log | b\n  \
            error | \\u{1b}[31mbad\n";
        assert_eq!(described(&run, true), shown);
        assert_eq!(described(&run, false), shown.replace("  x-a: b\n", ""));
    }
}
