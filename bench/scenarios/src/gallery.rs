//! `tidemark bench gallery`: one page that leads to every run of a folder. The runs' own pages
//! are drawn again from their samples, so that all have the newest form.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::page::{escaped, page};
use super::published;
use super::record::{self, PAGE, RUN, TEXT};
use super::run::{Role, Run, Series};

const TEMPLATE: &str = include_str!("gallery.template");
/// The gallery's own file.
pub const INDEX: &str = "index.html";
/// Around a table that a phone scrolls; the keyboard reaches it.
const WRAP: &str = "<div class=\"wrap\" role=\"group\" tabindex=\"0\" \
                    aria-label=\"Published figures, scroll sideways\">";
/// What its file holds, and no file of others.
const MARK: &str = "<meta name=\"generator\" content=\"tidemark bench gallery\">";

/// What the gallery leads to.
pub struct Gallery {
    /// The file.
    pub path: PathBuf,
    /// Pages drawn.
    pub pages: usize,
    /// Reports in Markdown alone.
    pub texts: usize,
    /// Runs that could not be read, and why.
    pub skipped: Vec<String>,
}

/// Draws the page of every run below `folder` and the gallery itself. A run that cannot be read is
/// left out.
///
/// # Errors
/// When the folder's `index.html` is of another program, or a page cannot be written.
pub fn draw(folder: &Path) -> Result<Gallery> {
    let cannot = || folder.display().to_string();
    let index_path = folder.join(INDEX);
    let found = fs::read(&index_path).unwrap_or_default();
    ensure!(
        found.is_empty() || String::from_utf8_lossy(&found).contains(MARK),
        "{} is no gallery of ours and would be lost; move it away",
        index_path.display()
    );
    let entries = fs::read_dir(folder).with_context(cannot)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(cannot)?.path());
    }
    // Names begin with the time, so the newest come first.
    paths.sort_by(|one, other| other.cmp(one));
    let (mut runs, mut texts, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.join(RUN).is_file() {
            match record::read(path) {
                Ok(run) => {
                    let page = page(&run)?;
                    fs::write(path.join(PAGE), page).with_context(|| path.display().to_string())?;
                    runs.push((name.into_owned(), run));
                }
                Err(error) => skipped.push(format!("{error:#}")),
            }
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
    fs::write(&index_path, index).with_context(|| index_path.display().to_string())?;
    Ok(Gallery {
        path: index_path,
        pages: runs.len(),
        texts: texts.len(),
        skipped,
    })
}

fn pages(runs: &[(String, Run)]) -> String {
    if runs.is_empty() {
        return "<p>None yet.</p>".to_owned();
    }
    let mut out = "<ul class=\"runs\">\n".to_owned();
    for (name, run) in runs {
        // `2026-11-21T12:34`, if it is a time.
        let started: String = run.started.chars().take(16).collect();
        let started = escaped(&started.replace('T', " "));
        let (title, lead) = (escaped(&run.title), escaped(&run.lead));
        writeln!(
            out,
            "<li><a href=\"{0}/{PAGE}\"><strong>{title}</strong></a>\
             <span><code>{0}</code></span>\
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
        "<p>{}.</p>{WRAP}<table><thead><tr><th scope=\"col\">list of 25 rows</th>\
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
        "<p>{}.</p>{WRAP}<table><thead><tr><th scope=\"col\">load test</th>{}\
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        draw(folder.path()).unwrap();
    }

    #[test]
    fn texts_of_a_run_are_never_tags() {
        let folder = tempfile::tempdir().unwrap();
        let evil = "<meta http-equiv=refresh content=0>é";
        let named = [
            ("title", evil),
            ("lead", evil),
            ("started", "<meta 12345678é1é<b>"),
        ];
        let mut run = json!({
            "format": "tidemark.run/1", "kind": "ttl", "method": "", "machine": {},
            "parameters": {}, "groups": [],
        });
        for (key, text) in named {
            run[key] = json!(text);
        }
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a").join(RUN), run.to_string()).unwrap();
        let gallery = draw(folder.path()).unwrap();
        let index = fs::read_to_string(gallery.path).unwrap();
        assert_eq!(
            index.matches("<meta ").count(),
            TEMPLATE.matches("<meta ").count()
        );
        assert!(!index.contains("<b>"), "{index}");
    }

    #[test]
    fn a_run_that_cannot_be_read_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bad")).unwrap();
        fs::write(folder.path().join("bad").join(RUN), "{").unwrap();
        fs::write(folder.path().join("good.md"), "# Good").unwrap();
        let gallery = draw(folder.path()).unwrap();
        assert_eq!((gallery.pages, gallery.texts), (0, 1));
        assert!(gallery.skipped[0].contains("bad"), "{:?}", gallery.skipped);
    }

    #[test]
    fn an_index_of_somebody_else_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(INDEX), "<h1>mine</h1>").unwrap();
        let error = draw(folder.path()).err().unwrap().to_string();
        assert!(error.contains("move it away"), "{error}");
        let kept = fs::read_to_string(folder.path().join(INDEX)).unwrap();
        assert_eq!(kept, "<h1>mine</h1>");
    }

    /// What is committed must be what the code draws: `tidemark bench gallery`.
    #[test]
    fn the_gallery_of_the_project_is_drawn_from_its_runs() {
        let results = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../results"));
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(results).unwrap() {
            let entry = entry.unwrap();
            let to = folder.path().join(entry.file_name());
            if entry.path().is_dir() {
                fs::create_dir(&to).unwrap();
                for name in [RUN, TEXT] {
                    let from = entry.path().join(name);
                    if from.is_file() {
                        fs::copy(from, to.join(name)).unwrap();
                    }
                }
            } else if entry.file_name() != INDEX {
                fs::copy(entry.path(), to).unwrap();
            }
        }
        let drawn = draw(folder.path()).unwrap();
        assert!(drawn.skipped.is_empty(), "{:?}", drawn.skipped);
        let drawn = fs::read_to_string(drawn.path).unwrap();
        let kept = fs::read_to_string(results.join(INDEX)).unwrap();
        assert!(
            drawn == kept,
            "run `tidemark bench gallery` and commit what it draws"
        );
    }
}
