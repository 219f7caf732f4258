//! `cargo xtask dist`: what is handed to users as one file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;

/// Joins the parts of the WordPress drop-in into target/dist/object-cache.php.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Destination {}

const SOURCE: &str = "php/wordpress/src";
const LICENCE: &str = "php/wordpress/LICENSE";
/// In this order: the header stops a request that did not come through WordPress, and a trait
/// comes before the class that uses it.
const PARTS: [&str; 25] = [
    "header",
    "functions",
    "runtime",
    "notify",
    "tiers",
    "native",
    "apcu",
    "store-file",
    "store-reads",
    "store-writes",
    "store-follow",
    "store-upkeep",
    "store-token",
    "sqlite",
    "ahead",
    "place",
    "invalidation",
    "clean-mark",
    "regular-file",
    "site-row",
    "site-file",
    "notices",
    "command",
    "site-health",
    "backups",
];
const OPENING: &str = "<?php\n";

/// Writes the file and says where.
///
/// # Errors
/// When a part is missing or does not begin as PHP, or the file cannot be written.
pub fn run(checkout: &Checkout, _: &Destination) -> Result<()> {
    println!("{}", checkout.shown(&drop_in(checkout)?));
    Ok(())
}

/// Joins the drop-in, and answers its path.
///
/// # Errors
/// As [`run`].
pub fn drop_in(checkout: &Checkout) -> Result<PathBuf> {
    let mut parts = Vec::new();
    for name in PARTS {
        let path = checkout.root.join(SOURCE).join(name).with_extension("php");
        let text = fs::read_to_string(&path).with_context(|| checkout.shown(&path))?;
        parts.push((name, text));
    }
    let folder = checkout.target()?.join("dist");
    fs::create_dir_all(&folder).with_context(|| checkout.shown(&folder))?;
    let path = folder.join("object-cache.php");
    fs::write(&path, join(&parts)?).with_context(|| checkout.shown(&path))?;
    // A copy of the file must come with the licence.
    let licence = folder.join("object-cache.LICENSE");
    fs::copy(checkout.root.join(LICENCE), &licence).with_context(|| checkout.shown(&licence))?;
    Ok(path)
}

fn join(parts: &[(&str, String)]) -> Result<String> {
    let mut joined = OPENING.to_owned();
    for (name, text) in parts {
        let Some(body) = text.strip_prefix(OPENING) else {
            bail!("{SOURCE}/{name}.php does not begin with <?php on a line of its own");
        };
        joined.push_str(body.trim());
        joined.push_str("\n\n");
    }
    Ok(joined.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_opens_php_once() {
        let parts = [
            ("a", "<?php\n// a\n".to_owned()),
            ("b", "<?php\n\n// b\n\n".to_owned()),
        ];
        assert_eq!(join(&parts).unwrap(), "<?php\n// a\n\n// b\n");
    }

    #[test]
    fn join_names_a_part_that_is_no_php() {
        let error = join(&[("a", "text".to_owned())]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "php/wordpress/src/a.php does not begin with <?php on a line of its own"
        );
    }
}
