//! Doing the steps of a plan to versions in memory, as a store does them to its tables.

use super::{Ending, Plan};
use crate::history::{Cut, Version, VersionNumber};
use crate::time::Mark;

impl<V: Clone> Plan<V> {
    /// Does the steps to `versions`. `number` numbers each version that is written; it is given
    /// the versions that are there at that moment.
    ///
    /// # Panics
    /// If the plan was made for other versions than these, or for another mark.
    pub fn apply(
        &self,
        mark: Mark,
        versions: &mut Vec<Version<V>>,
        mut number: impl FnMut(&[Version<V>]) -> VersionNumber,
    ) {
        if self.erases {
            versions.clear();
        }
        for (version, ending) in &self.endings {
            end(versions, mark, *version, *ending);
        }
        for new in &self.writes {
            let version = Version {
                number: number(versions),
                valid: new.valid,
                sys_from: mark,
                cut: None,
                gone: None,
                origin: new.origin,
                value: new.value.clone(),
            };
            versions.push(version);
        }
    }
}

fn end<V>(versions: &mut Vec<Version<V>>, mark: Mark, number: VersionNumber, ending: Ending) {
    let position = versions.iter().position(|version| version.number == number);
    let position = position.expect("a plan ends versions that are there");
    let version = &mut versions[position];
    let is_own = version.sys_from == mark;
    let is_cut_here = version.cut.is_some_and(|cut| cut.mark == mark);
    assert!(version.gone.is_none(), "a version goes once");
    match ending {
        Ending::Remove => {
            assert!(is_own, "only what was never known is removed");
            versions.remove(position);
        }
        Ending::Cut(valid_to) => {
            assert!(!is_own, "what was never known is removed, not cut");
            assert!(
                version.cut.is_none() || is_cut_here,
                "a cut that is known is never moved"
            );
            version.cut = Some(Cut { mark, valid_to });
        }
        Ending::Close => {
            assert!(
                !is_own && !is_cut_here,
                "what was never known is taken back"
            );
            version.gone = Some(mark);
        }
        Ending::UncutAndClose => {
            assert!(is_cut_here, "a cut that is known is never taken back");
            version.cut = None;
            version.gone = Some(mark);
        }
    }
}
