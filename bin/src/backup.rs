//! `backup`: a copy of the log while it is in use.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread::store::Backup;
use serde_json::json;

use crate::exit::{CONFLICT, Failure};
use crate::open::{self, OpenArgs};
use crate::output;

/// How much is copied at a time. A piece of zeros becomes a hole.
const PIECE_BYTES: usize = 64 << 10;

/// Copy the log to a new folder, also while it is in use. The copy is a log with everything that was acknowledged before
/// the command began.
#[derive(Debug, Args)]
#[command(after_help = "\
To restore it: stop the server, move the folder to the place of the log, start the server.

Examples:
  rethread backup /backups/monday
  rethread threads --data-dir /backups/monday
  rethread verify --data-dir /backups/monday")]
pub(crate) struct BackupArgs {
    /// The folder to create
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A copy that is not whole yet, beside where it will be. Removed unless it is finished.
struct Draft {
    path: PathBuf,
    folder: PathBuf,
    bytes: u64,
    is_finished: bool,
}

impl Draft {
    fn new(folder: &Path) -> Result<Self, Failure> {
        let taken = |path: &Path, advice: &str| {
            Failure::new(CONFLICT, output::sanitize(&format!("{} already exists: {advice}", path.display()), 400))
        };
        if folder.symlink_metadata().is_ok() {
            return Err(taken(folder, "name a folder that does not exist"));
        }
        let mut name = folder.file_name().ok_or_else(|| taken(folder, "name a folder that does not exist"))?.to_owned();
        name.push(".part");
        let path = folder.with_file_name(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(taken(&path, "a backup that did not finish left it, remove it"));
            }
            made => made.map_err(|error| failed(folder, &error))?,
        }
        Ok(Self { path, folder: folder.to_owned(), bytes: 0, is_finished: false })
    }

    /// Copies a file of the log.
    fn add(&mut self, name: &Path, mut from: impl Read) -> io::Result<()> {
        if name.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a file of the backup lies outside its folder"));
        }
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
        }
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut bytes = 0;
        loop {
            let n = fill(&mut from, &mut piece)?;
            bytes += n as u64;
            if piece[..n].iter().all(|byte| *byte == 0) {
                to.seek(SeekFrom::Current(n as i64))?;
            } else {
                to.write_all(&piece[..n])?;
            }
            if n < PIECE_BYTES {
                break;
            }
        }
        to.set_len(bytes)?;
        to.sync_all()?;
        self.bytes += bytes;
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        // The last file of a copy: without it the folder is no log.
        if !self.path.join("format").exists() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the backup ended before its last file"));
        }
        for folder in [self.path.join("index"), self.path.join("packs"), self.path.clone()] {
            if folder.is_dir() {
                File::open(folder)?.sync_all()?;
            }
        }
        std::fs::rename(&self.path, &self.folder)?;
        self.is_finished = true;
        let parent = self.folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(self.bytes)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed is named when the next backup finds it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match from.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

fn fill_draft(mut draft: Draft, backup: &Backup) -> io::Result<u64> {
    for file in backup.files() {
        let file = file.map_err(|error| io::Error::other(error.to_string()))?;
        draft.add(Path::new(&file.name), file.reader())?;
    }
    draft.finish()
}

/// Writes a copy of a log to a folder that does not exist. Blocks.
///
/// # Errors
/// If the folder exists (exit code 7), or cannot be written.
#[cfg(feature = "jetstream")]
pub(crate) fn write(backup: &Backup, folder: &Path) -> Result<u64, Failure> {
    let draft = Draft::new(folder)?;
    let path = draft.path.clone();
    fill_draft(draft, backup).map_err(|error| failed(&path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::other(output::sanitize(&format!("{}: {error}", path.display()), 400))
}

pub(crate) async fn backup(open: &OpenArgs, args: BackupArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let mut draft = Draft::new(&args.folder)?;
    let (path, holder) = (draft.path.clone(), open.holder().cloned());
    let copied = match holder {
        Some(holder) => {
            let archive = holder.read("/v1/log/backup").await?;
            tokio::task::spawn_blocking(move || {
                let mut archive = tar::Archive::new(archive);
                for entry in archive.entries()? {
                    let entry = entry?;
                    let name = entry.path()?.into_owned();
                    draft.add(&name, entry)?;
                }
                draft.finish()
            })
            .await
        }
        None => {
            let backup = runtime.backup().await?;
            tokio::task::spawn_blocking(move || fill_draft(draft, &backup)).await
        }
    };
    open::close(runtime).await?;
    let bytes = copied.map_err(Failure::other)?.map_err(|error| failed(&path, &error))?;
    if args.json {
        output::print_json(&json!({ "folder": args.folder, "bytes": bytes }))?;
    } else {
        output::print_text(&args.folder.display().to_string())?;
        if open.prints_messages() {
            output::print_message(&format!(
                "{} copied; `rethread verify --data-dir {}` checks it",
                crate::gc::size(bytes),
                output::sanitize(&args.folder.display().to_string(), 400)
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
