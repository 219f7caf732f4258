//! The report page: one HTML file with everything in it.

use anyhow::{Context, Result};

use super::run::Run;

/// Page, style, chart library and script; `bench/report/build.js` makes it.
const TEMPLATE: &str = include_str!("page.template");

/// The page of a run.
///
/// # Errors
/// When the run cannot be written as JSON, which a number that is none would cause.
pub fn page(run: &Run) -> Result<String> {
    let json = serde_json::to_string(run).context("the run is no JSON")?;
    // Within a script element only these could end it, or begin a comment.
    let json = json.replace('<', "\\u003c");
    Ok(filled(TEMPLATE, &run.title, &json))
}

/// Each place is looked for in the template alone, never in what was put in.
fn filled(template: &str, title: &str, json: &str) -> String {
    let (before, data) = template
        .split_once("{{run}}")
        .expect("the page has a place for its run");
    format!(
        "{}{json}{data}",
        before.replace("{{title}}", &escaped(title))
    )
}

/// A text as it stands in HTML, between tags or in quotes.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Map, Value, json};

    use super::*;
    use crate::run::{FORMAT, Group, KEPT_MAX, Role, Sample, Series};

    fn run(title: &str, counts: usize) -> Run {
        let samples: Vec<Sample> = (0..counts as u64)
            .map(|n| Sample {
                ended: Duration::from_micros(200 * (n + 1)),
                took: Duration::from_nanos(150_000 + n * 7_919 % 90_000),
            })
            .collect();
        let series = |key: &str| {
            Series::measured(key, key, Role::Subject, 1, Duration::from_secs(9), &samples).unwrap()
        };
        Run {
            format: FORMAT.to_owned(),
            kind: "ttl".to_owned(),
            title: title.to_owned(),
            lead: String::new(),
            method: String::new(),
            started: "2026-11-21T00:00:00.000Z".to_owned(),
            machine: Map::new(),
            parameters: Map::new(),
            prices: None,
            columns: None,
            tables: Vec::new(),
            groups: vec![Group {
                key: "list".to_owned(),
                title: "list".to_owned(),
                connections: 1,
                cores: None,
                series: ["uncached", "exact", "ttl", "floor"].map(series).to_vec(),
            }],
        }
    }

    /// What a browser would read from the page.
    fn embedded(page: &str) -> Value {
        let (_, rest) = page
            .split_once(r#"<script type="application/json" id="run">"#)
            .unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn texts_of_a_run_end_no_script_and_are_read_back_whole() {
        let mut evil = run("a </script><b>&{{run}}", 3);
        evil.parameters
            .insert("endpoint".to_owned(), json!("<!--<script>{{title}}"));
        let page = page(&evil).unwrap();
        assert_eq!(embedded(&page), serde_json::to_value(&evil).unwrap());
        assert!(page.contains("<title>a &lt;/script>&lt;b>&amp;{{run}}</title>"));
    }

    #[test]
    fn four_series_of_100_000_samples_take_less_than_a_megabyte() {
        let page = page(&run("full", KEPT_MAX)).unwrap();
        assert!(page.len() < 1_000_000, "{} bytes", page.len());
        assert!(page.len() > 4 * 2 * KEPT_MAX, "samples are missing");
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let page = page(&run("quiet", 3)).unwrap();
        for reference in [" src=\"", "url(http", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
