//! The price file.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::run::{Prices, Server};

/// The servers of the published load test.
const BUILT_IN: &str = include_str!("prices.toml");

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    source: String,
    server: Vec<Server>,
    database: Option<Server>,
}

/// Reads the price file `path`, or the one that is built in.
///
/// # Errors
/// When it cannot be read, is no price file, or has a price below zero; the text names it.
pub fn read(path: Option<&Path>) -> Result<Prices> {
    let Some(path) = path else {
        return parse(BUILT_IN);
    };
    let text = std::fs::read_to_string(path);
    text.map_err(anyhow::Error::from)
        .and_then(|text| parse(&text))
        .with_context(|| format!("the price file {}", path.display()))
}

fn parse(text: &str) -> Result<Prices> {
    let PriceFile {
        source,
        server,
        database,
    } = toml::from_str(text)?;
    ensure!(!server.is_empty(), "it has no [[server]]");
    for one in server.iter().chain(&database) {
        let Server { name, monthly, .. } = one;
        ensure!(
            monthly.is_finite() && *monthly >= 0.0,
            "server `{name}`: monthly is {monthly}; an amount of at least 0 is needed"
        );
    }
    Ok(Prices {
        source,
        servers: server,
        database,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_built_in_holds_the_published_servers() {
        let prices = read(None).unwrap();
        let monthly: Vec<f64> = prices.servers.iter().map(|one| one.monthly).collect();
        assert_eq!(monthly, [3.85, 13.10, 24.70, 54.40]);
        let database = prices.database.unwrap();
        assert_eq!((database.cores, database.monthly), (1, 6.0));
    }

    #[test]
    fn a_broken_file_is_refused_by_what_is_wrong_in_it() {
        let server = |monthly: &str| {
            format!(
                "source = \"s\"\n[[server]]\nname = \"x\"\ncores = 1\nmemory_gb = 1\n\
                 monthly = {monthly}\ncurrency = \"EUR\""
            )
        };
        assert_eq!(parse(&server("0.0")).unwrap().servers.len(), 1);
        for (text, wanted) in [
            (server("-1.0"), "server `x`: monthly is -1"),
            (server("nan"), "server `x`: monthly is NaN"),
            (
                "source = \"s\"\nserver = []".to_owned(),
                "it has no [[server]]",
            ),
            ("source = \"s\"".to_owned(), "missing field `server`"),
            (
                server("1.0") + &server("-2.0").replace("[[server]]", "[database]")[12..],
                "server `x`: monthly is -2",
            ),
            (format!("{}\ncores2 = 1", server("1.0")), "unknown field"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
        let error = read(Some(Path::new("no-such.toml"))).unwrap_err();
        assert!(error.to_string().contains("no-such.toml"), "{error}");
    }
}
