//! A store made of entries. Until all of them are read and found right, nothing of it has its name
//! in the data directory.

use super::building::HistoryBuild;
use super::fault::{HistoryCount, HistoryFault, HistoryMembers};
use super::site::ImportSite;
use super::{derived, settled};
use crate::Options;
use crate::sqlite::disk::connection::Location;
use crate::sqlite::disk::directory::{DATABASE_FILE, directory_of};

/// A store that is being made of entries. Dropped before its end, it leaves nothing.
pub struct HistoryImport {
    // Before the directory it stands in, so that it is closed when that is removed.
    building: HistoryBuild,
    site: ImportSite,
    options: Options,
}

impl HistoryImport {
    /// Makes room in the data directory that `options` name.
    ///
    /// # Errors
    /// [`HistoryFault::NotEmpty`], [`HistoryFault::KeyThere`], or what the database says;
    /// [`crate::StoreError::PlaceUnfit`] when it is no directory.
    pub fn begin(options: Options) -> Result<HistoryImport, HistoryFault> {
        let site = ImportSite::open(directory_of(&options.place)?)?;
        let options = Options {
            place: site.path.clone().into(),
            ..options
        };
        let database = site.path.join(DATABASE_FILE);
        let location = Location {
            database: &database,
            vfs: options.vfs.as_deref(),
        };
        let building = HistoryBuild::begin(location, &site.path, options.encode_row)?;
        Ok(HistoryImport {
            building,
            site,
            options,
        })
    }

    /// Takes the next entry in.
    ///
    /// # Errors
    /// [`HistoryFault::Entry`] when it is not one, or contradicts an earlier one; the import is
    /// at its end then.
    pub fn take(&mut self, part: &str, members: HistoryMembers) -> Result<(), HistoryFault> {
        self.building.take(part, members)
    }

    /// Checks the whole, derives what is derived, and gives the store its place.
    ///
    /// # Errors
    /// [`HistoryFault::Unfit`] when the entries do not make a store; what the database says.
    pub fn finish(self) -> Result<HistoryCount, HistoryFault> {
        let HistoryImport {
            mut building,
            site,
            options,
        } = self;
        building.need_begun()?;
        building.make_tables()?;
        settled::settle(&mut building)?;
        let count = building.count;
        drop(building);
        derived::derive(options, count.mark)?;
        site.publish()?;
        Ok(count)
    }
}
