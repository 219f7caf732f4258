//! Removes folders that were filled by users' code.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What still writes into a folder was killed, and ends soon.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes a folder and all in it; a failure stands in the log. Blocks.
pub fn remove_folder(folder: &Path) {
    for nth in 1..=TRIES {
        match remove_tree(folder) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) if nth == TRIES => {
                let folder = folder.display().to_string();
                tracing::warn!(folder, %error, "a folder of functions cannot be removed");
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Folders inside are moved up before they are emptied: however deep users' code has made them, no
/// path gets long, and this takes no stack. Links are removed, never followed.
fn remove_tree(folder: &Path) -> io::Result<()> {
    let mut waiting: VecDeque<PathBuf> = VecDeque::new();
    let mut moved = 0_u64;
    open_up(folder)?;
    let mut current = folder.to_owned();
    loop {
        for entry in fs::read_dir(&current)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            open_up(&entry.path())?;
            if current == folder {
                waiting.push_back(entry.path());
                continue;
            }
            let place = loop {
                let place = folder.join(format!("removed-{moved}"));
                moved += 1;
                if fs::symlink_metadata(&place).is_err() {
                    break place;
                }
            };
            fs::rename(entry.path(), &place)?;
            waiting.push_back(place);
        }
        if current != folder {
            fs::remove_dir(&current)?;
        }
        match waiting.pop_front() {
            Some(next) => current = next,
            None => return fs::remove_dir(folder),
        }
    }
}

/// Lets us list and change a folder whose owner we are.
fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_of_any_shape_is_removed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let folder = outside.path().join("filled");
        let mut deep = folder.clone();
        // As deep as paths reach.
        while deep.as_os_str().len() < 3_900 {
            deep.push("d".repeat(100));
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        fs::create_dir_all(folder.join("removed-0/removed-1/x")).unwrap();
        symlink(outside.path(), folder.join("removed-0/up")).unwrap();
        let shut = folder.join("shut");
        fs::create_dir_all(shut.join("inside")).unwrap();
        fs::set_permissions(&shut, Permissions::from_mode(0o000)).unwrap();
        remove_folder(&folder);
        assert!(!folder.exists());
        assert!(outside.path().join("kept").exists());
        // Once more does nothing.
        remove_folder(&folder);
    }
}
