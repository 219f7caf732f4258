//! Words in a store in PostgreSQL: what the server makes of texts is what we make of them, and its
//! indexes are made, kept and read.

mod suite;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_executor::block_on;
use model::Value;
use query::{Search, Test, lexemes, search};
use store::{DatabaseStore, DatabaseUrl, Store};
use suite::db::{Db, Place, TITLE, options};
use suite::search::{finds, found, titled, with_words};
use testing_postgres::Cluster;

/// A database of a test's own, with a store in it.
struct Site {
    cluster: Arc<Cluster>,
    database: &'static str,
    keys: tempfile::TempDir,
}

impl Site {
    fn new(database: &'static str) -> Site {
        let cluster = Cluster::shared().unwrap();
        let make = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        Site {
            cluster,
            database,
            keys: tempfile::tempdir().unwrap(),
        }
    }

    fn sql(&self, statement: &str) -> String {
        let path = "SET search_path = tidemark";
        let found = self.cluster.run_sql(self.database, &[path, statement]);
        found.unwrap().trim_end().to_owned()
    }

    /// What the server makes of these texts.
    fn words(&self, texts: &[String]) -> Vec<BTreeSet<String>> {
        let texts: Vec<String> = texts.iter().map(|text| format!("$q${text}$q$")).collect();
        let sql = format!(
            "SELECT to_json(tsvector_to_array(tidemark_words(t))) \
             FROM unnest(ARRAY[{}]) WITH ORDINALITY AS u(t, n) ORDER BY n",
            texts.join(", ")
        );
        let found = self.sql(&sql);
        let lines = found.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Place for Site {
    fn open(&self) -> Arc<dyn Store> {
        let url = DatabaseUrl::parse(&self.cluster.url(self.database)).unwrap();
        let options = store::Options {
            place: store::StorePlace::from(url.clone()),
            ..options(self.keys.path())
        };
        let store = DatabaseStore::open(&url, None).unwrap();
        store.serve(&options, None, self.keys.path()).unwrap()
    }
}

/// The words of a text as an index holds them: the first characters of each, and one sigma.
fn held(text: &str) -> BTreeSet<String> {
    let held = |word: String| word.chars().take(64).collect::<String>().replace('ς', "σ");
    search::words(text).map(held).collect()
}

#[track_caller]
fn compare(site: &Site, texts: &[String]) {
    for (text, found) in texts.iter().zip(site.words(texts)) {
        assert_eq!(found, held(text), "{text:?}");
    }
}

/// Each character between letters, before and behind one. By day a few of those scripts that have
/// tens of thousands, all alike.
#[test]
fn all_characters_are_split_and_made_small_by_the_server_as_by_us() {
    let site = Site::new("all_characters");
    site.sql(&format!("CREATE SCHEMA tidemark; {}", in_schema()));
    let is_night = std::env::var("TIDEMARK_LANE").as_deref() == Ok("night");
    let is_of_many = |c: &char| {
        let many = [
            '\u{3400}'..'\u{a000}',
            '\u{ac00}'..'\u{f900}',
            '\u{17000}'..'\u{18d00}',
        ];
        many.iter().any(|script| script.contains(c)) || *c > '\u{1ffff}'
    };
    let is_drawn = |c: &char| is_night || !is_of_many(c) || (*c as u32).is_multiple_of(61);
    let all: Vec<char> = ('\u{1}'..'\u{f0000}').filter(is_drawn).collect();
    let text = |(n, c): (usize, &char)| format!("x{n}{c}y{n} {c}z{n} {n}v{c}");
    let text_of = |some: &[char]| {
        some.iter()
            .enumerate()
            .map(text)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let texts: Vec<String> = all.chunks(64).map(text_of).collect();
    // As many as an argument of a program takes.
    for texts in texts.chunks(30) {
        compare(&site, texts);
    }
}

fn in_schema() -> String {
    format!("SET search_path = tidemark; {}", lexemes::function())
}

#[test]
fn words_of_odd_texts_are_held_as_we_split_them() {
    let site = Site::new("odd_texts");
    site.sql(&format!("CREATE SCHEMA tidemark; {}", in_schema()));
    let parts = [
        "ΟΔΟΣ",
        "οδος",
        "Σ",
        "ΑΣ.",
        "İ",
        "I\u{307}",
        "ẞ",
        "Ǆ",
        "\u{301}",
        "K",
        "Å",
        "文字",
        "ﬁ",
        "Ⅷ",
        "²",
        "_",
        "'",
        "\\",
        "\"",
        "\u{a0}",
        "\u{200d}",
        "e\u{301}",
        "A",
        "9",
        "\u{10400}",
        "ﺀ",
        "हिन्दी",
        "한국어",
        "ไทย",
        "\n",
        "😀",
    ];
    let mut state = 7_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963);
        parts[(state >> 33) as usize % parts.len()]
    };
    let texts: Vec<String> = (0..2_000)
        .map(|n| (0..n % 9).map(|_| draw()).collect())
        .collect();
    compare(&site, &texts);
    let long = format!("{} {}", "É".repeat(64), "é".repeat(5_000));
    compare(&site, &[long]);
    let large = format!(
        "SELECT tidemark_words(repeat('word ', {}))",
        (256 << 10) / 5
    );
    assert_eq!(site.sql(&large), "'word'");
    let larger = format!(
        "SELECT tidemark_words(repeat('word ', {}))",
        (256 << 10) / 5 + 1
    );
    assert_eq!(site.sql(&larger), "'*'");
    assert_eq!(site.sql("SELECT tidemark_words(NULL) IS NULL"), "t");
    // Of very many different capital letters; the Kelvin sign becomes an ASCII letter.
    let kinds: Vec<char> = ('\u{80}'..'\u{530}')
        .filter(|c| !c.to_lowercase().eq([*c]) && c.to_lowercase().count() == 1)
        .collect();
    let many: String = kinds[..127].iter().collect::<String>() + "\u{212a}";
    let letters: Vec<String> = many.chars().map(String::from).collect();
    compare(&site, &[letters.join(" ")]);
    let more = format!("SELECT tidemark_words('{many}{}')", kinds[127]);
    assert_eq!(site.sql(&more), "'*'");
}

/// Makes no words of any text.
const HOLDS_NOTHING: &str = "CREATE OR REPLACE FUNCTION tidemark_words(content text) \
                             RETURNS tsvector LANGUAGE sql IMMUTABLE AS $$ SELECT ''::tsvector $$";

/// Of the indexes of words: their names and what they are over.
const INDEXES: &str = "SELECT string_agg(indexrelid::regclass || ' ' || indisvalid, ', ') \
                       FROM pg_index JOIN pg_class c ON c.oid = indexrelid \
                       WHERE c.relname LIKE 't1\\_f%'";

#[test]
fn indexes_of_words_are_made_again_by_another_rule_and_for_an_older_store() {
    let site = Site::new("words_again");
    let mut db = with_words(&site);
    db.ok(vec![db.insert("a", titled("some words", "1"))]);
    db.close();
    assert_eq!(site.sql(INDEXES), "t1_f3 true");
    let other = "REINDEX INDEX t1_f3; UPDATE meta SET words = 'another rule'";
    site.sql(&format!("{HOLDS_NOTHING}; {other}"));
    let db = Db::open(&site);
    assert_eq!(found(&db, finds("words"), None), ["a"]);
    db.close();
    site.sql("DROP FUNCTION tidemark_words CASCADE; UPDATE meta SET words = '', format = 3");
    assert_eq!(site.sql(INDEXES), "");
    let mut db = Db::open(&site);
    assert_eq!(site.sql(INDEXES), "t1_f3 true");
    db.ok(vec![db.insert("b", titled("more words", "2"))]);
    assert_eq!(found(&db, finds("words"), None), ["a", "b"]);
    db.close();
}

#[test]
fn few_rows_with_a_word_are_read_by_the_index_and_many_without_it() {
    let site = Site::new("few_and_many");
    let mut db = with_words(&site);
    let inserts = (0..3).map(|n| {
        let title = format!("common rare{n} ΟΔΟΣ{n}");
        db.insert(&format!("r{n}"), titled(&title, &n.to_string()))
    });
    let inserts = inserts.collect();
    db.ok(inserts);
    // More than are few, which the laws have not written and nothing else reads.
    site.sql(
        "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, perms, \
         c1) SELECT n, vf, sf, origin, created, updated, rid + n, twin, body_epoch, 'x' || n, \
         perms, 'common ' || n FROM t1, generate_series(100, 5100) AS n WHERE id = 'r0'; \
         ANALYZE t1",
    );
    assert_eq!(found(&db, finds("rare1"), None), ["r1"]);
    assert_eq!(found(&db, finds("οδος2"), None), ["r2"]);
    assert_eq!(found(&db, finds("\"common rare0\""), None), ["r0"]);
    assert_eq!(found(&db, finds("nothing"), None), [""; 0]);
    let mut query = db.all();
    query.limit = 2;
    query.filter = query::Filter::Field(model::Field::Column(TITLE), finds("common"));
    let listed = db.list(&query);
    assert_eq!((listed.rows.len(), listed.total), (2, 5_004));
    let steps = block_on(db.store.explain(&query)).unwrap();
    assert!(
        steps[2].contains("Bitmap Index Scan using words"),
        "{steps:?}"
    );
    // Nothing is found but by what the index holds, where that is little.
    site.sql(&format!("{HOLDS_NOTHING}; REINDEX INDEX t1_f3"));
    assert_eq!(found(&db, finds("rare1"), None), [""; 0]);
    assert_eq!(db.list(&query).total, 0);
    db.close();
}

/// What a search finds is among what its `tsquery` finds.
#[test]
fn no_search_misses_a_row_by_its_index() {
    let site = Site::new("none_missed");
    let mut db = with_words(&site);
    let titles = [
        "Captain AMERICA",
        "ein Kapitän",
        "İstanbul, DİYARBAKIR",
        "ΟΔΟΣ ΟΔΟΣΤΡΩΜΑ",
        "文字列を検索",
        "l'été e\u{301}te",
        "K9 42b",
        "it's \"quoted\" \\ back",
        "Привет МИР",
        "ﬁne ﬂow",
        "\u{301}",
        "x",
        "",
    ];
    let long = "ab".repeat(80);
    let titles: Vec<&str> = titles.into_iter().chain([long.as_str()]).collect();
    let inserts = titles.iter().enumerate();
    let inserts =
        inserts.map(|(n, title)| db.insert(&format!("r{n}"), titled(title, &n.to_string())));
    let inserts = inserts.collect();
    db.ok(inserts);
    let mut count = 0;
    for title in &titles {
        let chars: Vec<char> = title.chars().collect();
        for from in 0..chars.len() {
            for to in [from + 1, from + 3, chars.len()] {
                let part: String = chars[from..to.min(chars.len())].iter().collect();
                for text in [part.clone(), part.to_uppercase(), format!("\"{part}\"")] {
                    let Some(search) = Search::parse(&text) else {
                        continue;
                    };
                    let held = titles.iter().enumerate();
                    let held = held.filter(|(_, title)| search.finds(title));
                    let held: Vec<String> = held.map(|(n, _)| format!("r{n}")).collect();
                    count += held.len();
                    assert_eq!(found(&db, Test::Finds(search), None), held, "{text:?}");
                }
            }
        }
    }
    assert!(count > 500, "only {count} were found");
    let patch = vec![(TITLE, Value::Text("altered".into()))];
    db.ok(vec![db.update("r0", patch)]);
    assert_eq!(found(&db, finds("america"), None), [""; 0]);
    assert_eq!(found(&db, finds("alt"), None), ["r0"]);
    db.close();
}
