//! The file: making it, looking at it before SQLite touches it, its connections, and the steps of its schema.
//!
//! A file that is not ours, torn or damaged is reported and left byte for byte as it is; one from a newer Convoke too.
//! Looking is cheap on purpose, because every start pays for it: [`super::check`] is the thorough one.

use super::fault::{Fault, Place, Result};
use crate::Error;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

// Older ones can damage a database in WAL mode when two connections checkpoint at once.
const _: () = assert!(rusqlite::ffi::SQLITE_VERSION_NUMBER >= 3_051_003, "SQLite must be 3.51.3 or newer");

/// Each step is applied once, in order, and never edited after a release.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
    include_str!("migrations/0010.sql"),
    include_str!("migrations/0011.sql"),
    include_str!("migrations/0012.sql"),
];

/// "cnvk": says whose database a file is.
const APPLICATION: i32 = 0x636e_766b;

/// How long to wait for a stranger (a backup, a shell) that holds the file.
const BUSY: Duration = Duration::from_secs(5);

/// Statements kept compiled per connection; more than there are.
const STATEMENTS: usize = 96;

/// Makes the state directory, for its owner only.
pub(super) fn make_dir(place: &Place) -> std::result::Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(place.dir());
    made.map_err(|error| place.refused("cannot create the state directory", &error))
}

/// Makes an empty file for its owner only, and refuses one that cannot be a database of ours.
pub(super) fn prepare(place: &Place) -> std::result::Result<(), Error> {
    let refused = |error: std::io::Error| place.refused("cannot open the database", &error);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(place.database())
        .map_err(refused)?;
    let mode = file.metadata().map_err(refused)?.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(refused)?;
    }
    look(place, &mut file)
}

/// The header, and whether the file is as long as it says.
fn look(place: &Place, file: &mut File) -> std::result::Result<(), Error> {
    let refused = |error: std::io::Error| place.refused("cannot read the database", &error);
    let length = file.metadata().map_err(refused)?.len();
    let log = fs::metadata(place.log()).map_or(0, |log| log.len());
    if length == 0 {
        // SQLite would throw the log away with it.
        return if log == 0 { Ok(()) } else { Err(place.damaged("the file is empty, but its log is not")) };
    }
    // A cut while the file was made: the journal undoes what there is of it, and SQLite plays it back.
    if fs::metadata(place.database().with_extension("db-journal")).is_ok_and(|journal| journal.len() > 0) {
        return Ok(());
    }
    let mut header = [0; 100];
    if length < 100 {
        return Err(place.damaged("the file is too short to be a database"));
    }
    file.read_exact(&mut header).map_err(refused)?;
    if &header[..16] != b"SQLite format 3\0" {
        return Err(place.damaged("the file is not a database"));
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => u64::from(size),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    // With a log, the missing pages may be in there.
    if log == 0 && length < page * pages {
        return Err(place.damaged(format!("the file ends after {length} of {} bytes", page * pages)));
    }
    Ok(())
}

/// The one connection that writes, on a schema that is up to date.
pub(super) fn writer(place: &Place) -> Result<Connection> {
    let connection = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let fresh = is_fresh(place, &connection)?;
    refuse_newer(place, &connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A page that goes into the log is compared with each of its copies there, and small commits write the same few
    // pages over and over: at 4,000 pages a session's step took a quarter more work than at the log's start.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA cache_size = -2048;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    migrate(&connection)?;
    if fresh {
        // The name of a new file lives in its directory, which has to reach the disk as well.
        let synced = File::open(place.dir()).and_then(|dir| dir.sync_all());
        synced.map_err(|error| place.refused("cannot write the state directory", &error))?;
    }
    Ok(connection)
}

/// A connection that cannot write. Small, since there are several; large enough for the pages that lists begin with.
pub(super) fn reader(place: &Place) -> Result<Connection> {
    let connection = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -1024;")?;
    Ok(connection)
}

/// For looking at a database that another process may be writing.
pub(super) fn visitor(place: &Place) -> Result<Connection> {
    let mut file = File::open(place.database()).map_err(|error| place.refused("cannot open the database", &error))?;
    look(place, &mut file)?;
    let connection = connect(place, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -384;")?;
    is_fresh(place, &connection)?;
    refuse_newer(place, &connection)?;
    let found = version(&connection)?;
    if (found as usize) < MIGRATIONS.len() {
        return Err(Error::Outdated { found }.into());
    }
    Ok(connection)
}

fn connect(place: &Place, access: OpenFlags) -> Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(&place.database(), flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on values. Otherwise SQLite compiles a statement anew for each value of a `LIMIT ?`, and of
    // whatever else could have led to another plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Undo pages of a savepoint stay in memory; a file for them would cost more than the savepoint.
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA foreign_keys = OFF;")?;
    Ok(connection)
}

#[cfg(not(feature = "power"))]
fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    Ok(Connection::open_with_flags(path, flags)?)
}

#[cfg(feature = "power")]
fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    Ok(match crate::power::vfs()? {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    })
}

/// True for an empty database. A strange one is refused: it would be somebody else's data.
fn is_fresh(place: &Place, connection: &Connection) -> Result<bool> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    match (tables, application) {
        (0, _) => Ok(true),
        (_, APPLICATION) => Ok(false),
        _ => Err(place.damaged("it is a database, but not one of convoke's").into()),
    }
}

fn refuse_newer(place: &Place, connection: &Connection) -> Result<()> {
    let found = version(connection)?;
    let known = MIGRATIONS.len() as u32;
    if found <= known {
        return Ok(());
    }
    Err(Fault::Told(Error::Newer { path: place.database().display().to_string(), found, known }))
}

fn version(connection: &Connection) -> Result<u32> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Applies what is missing, all of it or nothing.
fn migrate(connection: &Connection) -> Result<()> {
    let found = version(connection)? as usize;
    if found == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.unchecked_transaction()?;
    for step in &MIGRATIONS[found..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32)?;
    transaction.commit()?;
    Ok(())
}
