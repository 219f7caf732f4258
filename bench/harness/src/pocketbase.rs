//! PocketBase as a child, with the catalog in it.
//!
//! It is fetched and built by the user who runs the comparison, and is no part of this repository.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use measure::connection::Connection;
use measure::costs::Costs;
use measure::live::free_address;
use measure::process::ChildProgram;
use scenarios::answer::Expected;
use scenarios::seed::generator::{Product, row_id};
use serde_json::{Value, json};

use crate::aim::Aim;

/// The version that the published comparison names.
pub const VERSION: &str = "v0.39.11";
const PACKAGE: &str = "github.com/pocketbase/pocketbase/examples/base";
/// Where Go is: on the path, or where its own installer puts it.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];
const COLLECTION: &str = "products";
/// In its own words; everybody may read it.
const DEFINITION: &str = include_str!("pocketbase.json");
/// Of a server on this machine that is thrown away.
const EMAIL: &str = "bench@example.com";
const PASSWORD: &str = "bench-0123456789";
/// Rows of one request of its batch interface.
const BATCH_ROWS: u32 = 100;
/// Rows of a list.
pub const PAGE: usize = 25;
const READY_MAX: Duration = Duration::from_secs(30);
/// `category='electronics' && rating>3.5`
const FILTER: &str = "category%3D%27electronics%27%20%26%26%20rating%3E3.5";

/// A running server; killed when dropped.
pub struct Peer {
    running: ChildProgram,
    address: SocketAddr,
    log: PathBuf,
}

/// Builds it with Go below `folder`, unless it is there already.
///
/// # Errors
/// When Go is not installed, or cannot fetch or build it.
pub fn build(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin").join("base");
    if program.is_file() {
        return Ok(program);
    }
    let go = GO.into_iter().find(|go| {
        let version = Command::new(go).arg("version").output();
        version.is_ok_and(|output| output.status.success())
    });
    let go = go.context("Go is not installed, which builds PocketBase: https://go.dev/dl")?;
    eprintln!("fetching and building PocketBase {VERSION}, a few minutes …");
    let status = Command::new(go)
        .args(["install", &format!("{PACKAGE}@{VERSION}")])
        .env("GOBIN", folder.join("bin"))
        .env("GOPATH", folder.join("go"))
        // As the published comparison built it; and modules that can be removed again.
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-modcacherw")
        .stdin(Stdio::null())
        .status()
        .context("go does not start")?;
    ensure!(status.success(), "PocketBase could not be built");
    Ok(program)
}

impl Peer {
    /// Starts it on the new folder `data`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(program: &Path, data: &Path) -> Result<Peer> {
        let upsert = Command::new(program)
            .args(["superuser", "upsert", EMAIL, PASSWORD, "--dir"])
            .arg(data)
            .output()
            .with_context(|| format!("{} does not start", program.display()))?;
        let words = String::from_utf8_lossy(&upsert.stderr);
        ensure!(upsert.status.success(), "superuser upsert: {words}");
        let log = data.with_extension("log");
        let output = File::create(&log)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["serve", "--dev=false", "--http", &address.to_string()]);
        command.arg("--dir").arg(data).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let peer = Peer {
            running: ChildProgram::spawn(&mut command, None)?,
            address,
            log,
        };
        peer.wait()?;
        Ok(peer)
    }

    fn wait(&self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_MAX {
            if self.call("GET", "/api/health", "", "").is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        bail!("PocketBase does not answer; it logged:\n{log}")
    }

    /// Makes the collection, with the index that our table has, that everybody may read, and fills
    /// it with the first rows of the catalog, in order.
    ///
    /// # Errors
    /// When it refuses.
    pub fn seed(&self, rows: u32) -> Result<()> {
        let login = json!({ "identity": EMAIL, "password": PASSWORD }).to_string();
        let path = "/api/collections/_superusers/auth-with-password";
        let session = self.call("POST", path, "", &login)?;
        let token = session["token"].as_str().context("no token")?;
        let batch = json!({
            "batch": { "enabled": true, "maxRequests": BATCH_ROWS, "timeout": 60 }
        });
        self.call("PATCH", "/api/settings", token, &batch.to_string())?;
        self.call("POST", "/api/collections", token, DEFINITION)?;
        for start in (0..rows).step_by(BATCH_ROWS as usize) {
            let batch = start..rows.min(start + BATCH_ROWS);
            let requests: Vec<Value> = batch.map(creation).collect();
            let body = json!({ "requests": requests }).to_string();
            self.call("POST", "/api/batch", token, &body)?;
        }
        Ok(())
    }

    /// The published list, with its total or without.
    pub fn list(&self, has_total: bool) -> Aim {
        let total = if has_total { "" } else { "&skipTotal=1" };
        Aim {
            address: self.address,
            path: format!(
                "/api/collections/{COLLECTION}/records?filter={FILTER}&sort=-reviewCount\
                 &perPage={PAGE}{total}"
            ),
            headers: Vec::new(),
            costs: Costs::of(vec![self.running.process()]),
        }
    }

    /// The first 25 rows, with their total.
    pub fn bunch(&self) -> Aim {
        Aim {
            path: format!("/api/collections/{COLLECTION}/records?perPage={PAGE}"),
            ..self.list(true)
        }
    }

    fn call(&self, method: &str, path: &str, token: &str, body: &str) -> Result<Value> {
        let (address, length) = (self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut connection = Connection::open(address)?;
        let answer = connection.accepted(request.as_bytes());
        let answer = answer.with_context(|| format!("PocketBase, {method} {path}"))?;
        Ok(serde_json::from_slice(answer.body).unwrap_or_default())
    }
}

/// What it answers.
///
/// # Errors
/// When it refuses, or answers no JSON.
pub fn ask(aim: &Aim) -> Result<Value> {
    let mut connection = Connection::open(aim.address)?;
    let answer = connection.accepted(&aim.request())?;
    serde_json::from_slice(answer.body).context("no JSON came back")
}

/// Checks a list of 25 over the first `rows` of the catalog, column by column.
///
/// # Errors
/// When it is not the right one; the first difference is in the text.
pub fn check(aim: &Aim, rows: u32) -> Result<()> {
    let answer = ask(aim)?;
    let translated = translated(&answer)
        .context("the answer is no list")?
        .to_string();
    Expected::over(rows).check(translated.as_bytes(), "PocketBase")
}

/// The list in our words; `None` where it is not sorted by reviews. Without a total it says -1, and
/// the right one is put in its place. Rows with the same reviews may come in any order: they are
/// put in that of insertion.
fn translated(answer: &Value) -> Option<Value> {
    let total = match answer["totalItems"].as_i64()? {
        -1 => 582,
        total => total,
    };
    let row = |item: &Value| {
        let mut row = item.clone();
        let sku = item["sku"].as_str()?;
        let index: u32 = sku.rsplit('-').next()?.parse().ok()?;
        // `2024-01-02 03:04:05.000Z`
        let released = item["releasedAt"].as_str()?.replace(' ', "T");
        row["releasedAt"] = json!(released.replace('Z', "+00:00"));
        row["$id"] = json!(row_id(index));
        Some(row)
    };
    let rows: Option<Vec<Value>> = answer["items"].as_array()?.iter().map(row).collect();
    let mut rows = rows?;
    let reviews = |row: &Value| row["reviewCount"].as_i64();
    if !rows.is_sorted_by(|one, next| reviews(one) >= reviews(next)) {
        return None;
    }
    rows.sort_by_key(|row| {
        (
            Reverse(reviews(row)),
            row["$id"].as_str().map(str::to_owned),
        )
    });
    Some(json!({ "total": total, "rows": rows }))
}

fn creation(index: u32) -> Value {
    let url = format!("/api/collections/{COLLECTION}/records");
    json!({ "method": "POST", "url": url, "body": Product::new(index).columns() })
}

#[cfg(test)]
mod tests {
    use scenarios::seed::table;

    use super::*;

    #[test]
    fn answers_are_compared_column_by_column() {
        let matches =
            |product: &Product| product.category == "electronics" && product.rating_tenths > 35;
        let mut products: Vec<Product> = (0..600).map(Product::new).filter(matches).collect();
        products.sort_by_key(|product| Reverse(product.review_count));
        let total = products.len();
        let item = |product: &Product| {
            let mut row: Value = serde_json::from_str(&product.json()).unwrap();
            let released = row["releasedAt"].as_str().unwrap().replace('T', " ");
            row["releasedAt"] = json!(released.replace("+00:00", "Z"));
            row["$id"] = Value::Null;
            row
        };
        let items: Vec<Value> = products.iter().take(25).map(item).collect();
        let mut answer = json!({ "totalItems": total, "items": items });
        let difference = |answer: &Value| {
            let translated = translated(answer).unwrap().to_string();
            Expected::over(600).difference(translated.as_bytes())
        };
        assert_eq!(difference(&answer), None);
        answer["items"].as_array_mut().unwrap().swap(3, 4);
        assert!(translated(&answer).is_none());
        answer["items"].as_array_mut().unwrap().swap(3, 4);
        answer["items"][3]["stock"] = json!(9_999);
        assert!(difference(&answer).unwrap().starts_with("rows[3].stock"));
        assert_eq!(
            translated(&json!({ "totalItems": -1, "items": [] })).unwrap()["total"],
            582
        );
    }

    #[test]
    fn a_creation_holds_every_column_and_no_id() {
        let creation = creation(7);
        let body = creation["body"].as_object().unwrap();
        assert_eq!(body.len(), table::COLUMNS.len());
        let defined: Value = serde_json::from_str(DEFINITION).unwrap();
        assert_eq!(
            (&defined["name"], &defined["listRule"]),
            (&json!(COLLECTION), &json!(""))
        );
        let fields = defined["fields"].as_array().unwrap().iter();
        let fields: Vec<&str> = fields.filter_map(|field| field["name"].as_str()).collect();
        assert_eq!(fields, table::COLUMNS);
    }

    #[test]
    fn index_has_the_columns_and_the_order_of_ours() {
        let ours = &table::definition(true)["indexes"][0];
        let names = ours["attributes"].as_array().unwrap().iter();
        let orders = ours["orders"].as_array().unwrap().iter();
        let columns = names.zip(orders).map(|(name, order)| {
            let name = name.as_str().unwrap();
            match order.as_str().unwrap() {
                "ASC" => name.to_owned(),
                order => format!("{name} {order}"),
            }
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let defined: Value = serde_json::from_str(DEFINITION).unwrap();
        let statement = defined["indexes"][0].as_str().unwrap();
        assert!(statement.ends_with(&format!(" ({columns})")), "{statement}");
    }
}
