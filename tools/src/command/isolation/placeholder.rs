//! Reserved places that do not exist, while isolated commands run.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// How many commands hold each place that was made here.
static HELD: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// An empty file or folder at a place that did not exist, so that something can be mounted over it. Removed with its
/// last holder, if it is empty.
#[derive(Debug)]
pub(crate) struct Placeholder(PathBuf);

impl Placeholder {
    /// Makes the place, or holds one that another command made. None if something else is there.
    ///
    /// A place whose name has an extension is a file, any other a folder.
    pub(super) fn hold(place: &Path) -> io::Result<Option<Self>> {
        let mut held = HELD.lock();
        if !held.contains_key(place) {
            if place.symlink_metadata().is_ok() {
                return Ok(None);
            }
            match make(place) {
                Ok(()) => {}
                // The command could not make it either.
                Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        *held.entry(place.to_owned()).or_default() += 1;
        Ok(Some(Self(place.to_owned())))
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        let Some(n_held) = held.get_mut(&self.0) else { return };
        *n_held -= 1;
        if *n_held > 0 {
            return;
        }
        held.remove(&self.0);
        // What is not empty is in use by now, and not removed.
        let _ = match std::fs::symlink_metadata(&self.0) {
            Ok(found) if found.is_file() && found.len() == 0 => std::fs::remove_file(&self.0),
            Ok(found) if found.is_dir() => std::fs::remove_dir(&self.0),
            _ => Ok(()),
        };
    }
}

fn make(place: &Path) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match place.extension() {
        Some(_) => std::fs::File::create_new(place).map(drop),
        None => std::fs::create_dir(place),
    }
}
