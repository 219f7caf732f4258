//! Encrypted values that cannot be opened.

use model::{Edit, Patch};

use crate::StoreError;

/// Encrypted values of a row that cannot be opened, by the positions of their columns, as they are
/// stored: an operation that moves the row keeps them so.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Damaged {
    sealed: Vec<(usize, SealedValue)>,
    why: Option<StoreError>,
}

/// What stands in place of a sealed value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SealedValue {
    /// What may have been sealed.
    Bytes(Vec<u8>),
    /// What was not.
    Text(String),
}

impl SealedValue {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            SealedValue::Bytes(bytes) => bytes,
            SealedValue::Text(text) => text.as_bytes(),
        }
    }
}

impl Damaged {
    /// Takes in what cannot be opened in the column at `position`, and why.
    pub(crate) fn add(&mut self, position: usize, sealed: SealedValue, why: StoreError) {
        self.sealed.push((position, sealed));
        self.why = Some(why);
    }

    pub(crate) fn is_any(&self) -> bool {
        self.why.is_some()
    }

    /// The positions of their columns, and what stands there.
    pub(crate) fn sealed(&self) -> &[(usize, SealedValue)] {
        &self.sealed
    }

    /// # Errors
    /// What is wrong with the last of them.
    pub(crate) fn need_none(&self) -> Result<(), StoreError> {
        self.why.clone().map_or(Ok(()), Err)
    }

    /// Those that stay when `patch` changes the row.
    ///
    /// # Errors
    /// What is wrong with them, if one is needed to compute its successor.
    pub(crate) fn left_by(&self, patch: &Patch) -> Result<Damaged, StoreError> {
        let is_needed = |(position, edit): &(usize, Edit)| {
            matches!(edit, Edit::Operate(_)) && self.sealed.iter().any(|(at, _)| at == position)
        };
        if patch.edits().iter().any(is_needed) {
            self.need_none()?;
        }
        let mut left = self.clone();
        left.replace_by(patch);
        Ok(left)
    }

    /// A value that `patch` sets takes the place of one that cannot be opened.
    pub(crate) fn replace_by(&mut self, patch: &Patch) {
        for (position, edit) in patch.edits() {
            if matches!(edit, Edit::Set(_)) {
                self.sealed.retain(|(at, _)| at != position);
            }
        }
        if self.sealed.is_empty() {
            self.why = None;
        }
    }
}
