//! What of a version is kept when history below a line is dropped.

use super::Version;
use crate::time::Mark;

/// What is left of a version.
#[derive(Clone, Debug, PartialEq)]
pub enum Retained<V> {
    /// All of it.
    Whole,
    /// What the cut had left of it. How long it once was is forgotten.
    Cut(Version<V>),
    /// Nothing.
    Nothing,
}

impl<V: Clone> Version<V> {
    /// What coordinates at or above the line, on both axes, can still see. Reads below it on
    /// either axis are refused, so they need nothing.
    pub fn retain(&self, line: Mark) -> Retained<V> {
        let outlives = |valid: &crate::Period, sys_to: Option<Mark>| {
            valid.end() > line.timestamp() && sys_to.is_none_or(|to| to > line)
        };
        let Some(cut) = self.cut else {
            return if outlives(&self.valid, self.gone) {
                Retained::Whole
            } else {
                Retained::Nothing
            };
        };
        let left = self.valid_until(cut);
        if outlives(&self.valid, Some(cut.mark)) {
            Retained::Whole
        } else if outlives(&left, self.gone) {
            Retained::Cut(Version {
                valid: left,
                sys_from: cut.mark,
                cut: None,
                ..self.clone()
            })
        } else {
            Retained::Nothing
        }
    }
}
