//! Fuzz targets: laws that hold for any bytes a caller sends, against a whole server inside this
//! process, over a real socket; for any bytes that the tiers of caches find stored; and for what
//! functions bring and say.
//!
//! `cargo test -p fuzz` replays the corpus and some thousand mutations of it, the same ones every
//! time. `cargo xtask night` lets libFuzzer look for new inputs, guided by what they reach.

use std::path::PathBuf;

mod archive;
mod change;
mod content;
mod cursor;
mod deployment_form;
mod deployment_parts;
mod envelope;
mod fixture;
mod frames;
mod head;
mod php_value;
mod query_text;
mod query_tree;
mod redis_answer;
mod tier_file;

/// A law and its name, which is also the corpus's folder.
pub struct Target {
    /// As in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics when the law does not hold for these bytes.
    pub check: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 14] = [
    Target {
        name: "query_text",
        check: query_text::check,
    },
    Target {
        name: "query_tree",
        check: query_tree::check,
    },
    Target {
        name: "content",
        check: content::check,
    },
    Target {
        name: "change",
        check: change::check,
    },
    Target {
        name: "cursor",
        check: cursor::check,
    },
    Target {
        name: "head",
        check: head::check,
    },
    Target {
        name: "envelope",
        check: envelope::check,
    },
    Target {
        name: "tier_file",
        check: tier_file::check,
    },
    Target {
        name: "redis_answer",
        check: redis_answer::check,
    },
    Target {
        name: "php_value",
        check: php_value::check,
    },
    Target {
        name: "frames",
        check: frames::check,
    },
    Target {
        name: "deployment_form",
        check: deployment_form::check,
    },
    Target {
        name: "deployment_parts",
        check: deployment_parts::check,
    },
    Target {
        name: "archive",
        check: archive::check,
    },
];

/// Longest input that a target looks at, in bytes; what follows is ignored.
pub const INPUT_BYTES_MAX: usize = 4_096;

/// The folder of the committed inputs of one target.
pub fn corpus(target: &Target) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("corpus").join(target.name)
}
