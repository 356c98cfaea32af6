//! What went wrong below the door, and how it is told above it.

use crate::Error;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// Either an answer for the caller, or trouble with the file.
#[derive(Debug)]
pub(super) enum Fault {
    Told(Error),
    Sql(rusqlite::Error),
    /// A stored value does not read back.
    Unreadable(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Where the database is, for messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    dir: PathBuf,
}

impl Place {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("convoke.db")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("convoke.db-wal")
    }

    pub(super) fn explain(&self, fault: Fault) -> Error {
        match fault {
            Fault::Told(error) => error,
            Fault::Sql(error) => self.explain_sql(&error),
            Fault::Unreadable(message) => self.damaged(message),
        }
    }

    pub(super) fn damaged(&self, message: impl Into<String>) -> Error {
        Error::Damaged { path: self.database().display().to_string(), message: message.into() }
    }

    /// The operating system refused something in or around the state directory.
    pub(super) fn refused(&self, what: &str, error: &std::io::Error) -> Error {
        let dir = self.dir.display();
        Error::Disk {
            message: format!("{what}: {error}"),
            hint: format!("make `{dir}` a directory that you may write to, or set CONVOKE_HOME to one"),
        }
    }

    fn explain_sql(&self, error: &rusqlite::Error) -> Error {
        let dir = self.dir.display();
        let disk = |hint: String| Error::Disk { message: error.to_string(), hint };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => self.damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => {
                disk(format!("free some space on the disk that holds `{dir}`, then try again"))
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                disk(format!("make `{dir}` and the files in it writable for you, then try again"))
            }
            Some(ErrorCode::SystemIoFailure) => disk(format!("check the disk that holds `{dir}`, then try again")),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                disk(format!("close the other program that has `{}` open, then try again", self.database().display()))
            }
            Some(_) => Error::Internal(format!("the database refused a statement: {error}")),
            None => self.damaged(format!("a stored value does not read back: {error}")),
        }
    }
}
