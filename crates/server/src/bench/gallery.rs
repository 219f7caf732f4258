//! `tidemark bench gallery`: one page that leads to every run of a folder. The runs' own pages
//! are drawn anew from their samples, so that all have the newest form.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::page::page;
use super::published;
use super::record::{self, PAGE, RUN, TEXT};
use super::run::{Role, Run, Series};

const TEMPLATE: &str = include_str!("gallery.template");
/// The gallery's own file.
pub const INDEX: &str = "index.html";

/// What the gallery leads to.
pub struct Gallery {
    /// The file.
    pub path: PathBuf,
    /// Pages drawn.
    pub pages: usize,
    /// Reports in Markdown alone.
    pub texts: usize,
}

/// Draws the page of every run below `folder` and the gallery itself.
///
/// # Errors
/// When a run cannot be read, or a page not be written.
pub fn draw(folder: &Path) -> Result<Gallery> {
    let cannot = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(cannot)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(cannot)?.path());
    }
    // Names begin with the time, so the newest come first.
    paths.sort_by(|one, other| other.cmp(one));
    let (mut runs, mut texts) = (Vec::new(), Vec::new());
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.join(RUN).is_file() {
            let run = record::read(path)?;
            fs::write(path.join(PAGE), page(&run)?).with_context(|| path.display().to_string())?;
            runs.push((name.into_owned(), run));
        } else if path.join(TEXT).is_file() {
            texts.push(format!("{name}/{TEXT}"));
        } else if path.extension().is_some_and(|end| end == "md") {
            texts.push(name.into_owned());
        }
    }
    let index = TEMPLATE
        .replace("{{pages}}", &pages(&runs))
        .replace("{{published}}", &quoted())
        .replace("{{texts}}", &links(&texts));
    let path = folder.join(INDEX);
    fs::write(&path, index).with_context(|| path.display().to_string())?;
    Ok(Gallery {
        path,
        pages: runs.len(),
        texts: texts.len(),
    })
}

fn pages(runs: &[(String, Run)]) -> String {
    if runs.is_empty() {
        return "<p>None yet.</p>".to_owned();
    }
    let mut out = "<ul class=\"runs\">\n".to_owned();
    for (name, run) in runs {
        let started = run
            .started
            .get(..16)
            .unwrap_or(&run.started)
            .replace('T', " ");
        let (title, lead) = (escaped(&run.title), escaped(&run.lead));
        writeln!(
            out,
            "<li><a href=\"{0}/{PAGE}\"><strong>{title}</strong></a>\
             <span>{started} UTC · {1}</span><span>{lead}</span>\
             <span><a href=\"{0}/{TEXT}\">Markdown</a> · \
             <a href=\"{0}/{RUN}\">samples</a></span></li>",
            escaped(name),
            escaped(&headline(run)),
        )
        .expect("writing to a string cannot fail");
    }
    out + "</ul>"
}

/// The subject of the first group beside its floor or reference, in one line.
fn headline(run: &Run) -> String {
    let Some(group) = run.groups.first() else {
        return String::new();
    };
    let of = |role| group.series.iter().find(|series| series.role == role);
    let p50 = |series: &Series| series.points_us.get("p50").copied();
    let Some(subject) = of(Role::Subject) else {
        return String::new();
    };
    let own = p50(subject).map_or(String::new(), |us| format!("p50 {us:.0} µs"));
    let beside = of(Role::Reference).or(of(Role::Floor));
    let beside = beside.and_then(|series| Some((series, p50(series)?)));
    match beside {
        Some((series, us)) => format!("{}: {own}, {} {us:.0} µs", group.title, series.title),
        None => format!("{}: {own}", group.title),
    }
}

fn quoted() -> String {
    let list = published::list();
    let rows = published::LIST_MS.iter().map(|(point, plain, ttl)| {
        format!("<tr><th scope=\"row\">{point}</th><td>{plain} ms</td><td>{ttl} ms</td></tr>")
    });
    let rates = list.each_ref().map(|one| one.per_s().unwrap_or_default());
    let [plain, ttl] = rates.map(|rate| format!("<td>{rate:.0}/s</td>"));
    let rows = rows.collect::<Vec<String>>().concat();
    let mut out = format!(
        "<p>{}.</p><div class=\"wrap\"><table><thead><tr><th scope=\"col\">list of 25 rows</th>\
         <th scope=\"col\">no cache</th><th scope=\"col\">ttl</th></tr></thead><tbody>{rows}\
         <tr><th scope=\"row\">calls</th>{plain}{ttl}</tr></tbody></table></div>",
        escaped(published::LIST_IN)
    );
    let heads = published::COLUMNS.map(|title| format!("<th scope=\"col\">{title}</th>"));
    let rows = published::load().into_iter().map(|row| {
        let rates = row.rates.iter().flatten();
        let cells: Vec<String> = rates
            .clone()
            .map(|rate| format!("<td>{rate}/s</td>"))
            .collect();
        let cells = cells.concat();
        let price = row.monthly.unwrap_or_default();
        let sum: f64 = rates.sum();
        format!(
            "<tr><th scope=\"row\">{}</th>{cells}<td>{price:.2} EUR</td><td>{:.5} EUR</td></tr>",
            row.name,
            price / sum
        )
    });
    let rows = rows.collect::<Vec<String>>().concat();
    write!(
        out,
        "<p>{}.</p><div class=\"wrap\"><table><thead><tr><th scope=\"col\">load test</th>{}\
         <th scope=\"col\">a month</th><th scope=\"col\">price / sum of rates</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>",
        escaped(published::LOAD_IN),
        heads.concat()
    )
    .expect("writing to a string cannot fail");
    out
}

fn links(texts: &[String]) -> String {
    let lines = texts.iter().map(|path| {
        let path = escaped(path);
        format!("<li><a href=\"{path}\">{path}</a></li>\n")
    });
    format!("<ul>\n{}</ul>", lines.collect::<Vec<String>>().concat())
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_runs_and_reports_becomes_a_page_that_leads_to_each() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let run = r#"{"format":"tidemark.run/1","kind":"ttl","title":"A <run>","lead":"l",
            "method":"m","started":"2026-11-21T12:34:56.789Z","machine":{},"parameters":{},
            "groups":[{"key":"list","title":"list","connections":1,"series":[{"key":"exact",
            "title":"exact","role":"subject","source":"measured","connections":1,"count":1,
            "wall_ms":1.0,"points_us":{"p50":75.2}}]}]}"#;
        for (name, file, text) in [
            ("2026-11-21T12-34-56Z-ttl", RUN, run),
            ("2026-11-20T12-34-56Z-figures", TEXT, "# Measured"),
        ] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join(file), text).unwrap();
        }
        fs::write(at("2026-11-19.md"), "# Older").unwrap();
        let gallery = draw(folder.path()).unwrap();
        assert_eq!((gallery.pages, gallery.texts), (1, 2));
        let index = fs::read_to_string(gallery.path).unwrap();
        for part in [
            "href=\"2026-11-21T12-34-56Z-ttl/report.html\"><strong>A &lt;run></strong>",
            "list: p50 75 µs",
            "href=\"2026-11-20T12-34-56Z-figures/report.md\"",
            "href=\"2026-11-19.md\"",
            "<td>13.187 ms</td><td>6.108 ms</td>",
            "<td>427/s</td>",
        ] {
            assert!(index.contains(part), "{part} is not in\n{index}");
        }
        assert!(at("2026-11-21T12-34-56Z-ttl").join(PAGE).is_file());
        assert!(!index.contains("{{"), "{index}");
    }
}
