//! The VFS in SQLite's terms: the database, its log and its journal go through a [`Cache`]; locks, the shared index and
//! every other file are the unix VFS's.
#![expect(unsafe_code, reason = "a VFS is a table of C functions, and the files they get are pointers")]

use super::cache::{Cache, Code, Disk};
use super::dice::Dice;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NAME: &CStr = c"convoke-power";

/// The files that hold data; the others are scratch.
const KEPT: c_int = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;

/// What the VFS knows, for as long as the process lives.
struct Drive {
    unix: *mut sqlite3_vfs,
    seed: u64,
    files: Mutex<HashMap<Vec<u8>, Arc<Mutex<Cache>>>>,
}

/// What SQLite takes for its file.
#[repr(C)]
struct File {
    base: sqlite3_file,
    open: *mut Open,
}

/// An open file of ours.
struct Open {
    /// The unix VFS's own file lives in here; words, because it wants to be aligned.
    real: Box<[u64]>,
    drive: &'static Drive,
    path: Vec<u8>,
    cache: Arc<Mutex<Cache>>,
}

impl Open {
    fn real(&mut self) -> Real {
        Real(self.real.as_mut_ptr().cast())
    }

    /// The waiting writes, and the file they wait for.
    fn parts(&mut self) -> (MutexGuard<'_, Cache>, Real) {
        let real = self.real();
        (lock(&self.cache), real)
    }
}

/// Makes the VFS known under its name. To be called once.
pub(super) fn register(seed: u64) -> Result<&'static CStr, Code> {
    // SAFETY: the name is a C string; the answer is null or lives as long as the process.
    let unix = unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) };
    if unix.is_null() {
        return Err(ffi::SQLITE_NOTFOUND);
    }
    let drive: &'static Drive = Box::leak(Box::new(Drive { unix, seed, files: Mutex::default() }));
    // SAFETY: not null, see above.
    let mut vfs = unsafe { *unix };
    // The functions that stay do not look at the VFS that they are asked through.
    vfs.zName = NAME.as_ptr();
    vfs.pNext = ptr::null_mut();
    vfs.pAppData = ptr::from_ref(drive).cast_mut().cast();
    vfs.szOsFile = vfs.szOsFile.max(size_of::<File>() as c_int);
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    vfs.xAccess = Some(access);
    // SAFETY: leaked, so it outlives its registration.
    done(unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) })?;
    Ok(NAME)
}

/// A file of the unix VFS.
#[derive(Clone, Copy)]
struct Real(*mut sqlite3_file);

/// Calls a method of a real file; one that is not there cannot be asked.
macro_rules! ask {
    ($real:expr, $method:ident $(, $argument:expr)*) => {{
        let file: *mut sqlite3_file = $real.0;
        // SAFETY: an open file has methods, and they take what SQLite gave us for them.
        unsafe {
            match (*(*file).pMethods).$method {
                Some(method) => method(file $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

impl Disk for Real {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Code> {
        match ask!(self, xRead, into.as_mut_ptr().cast(), into.len() as c_int, at as sqlite3_int64) {
            // It has filled the rest with zeros.
            ffi::SQLITE_IOERR_SHORT_READ => Ok(()),
            code => done(code),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Code> {
        done(ask!(self, xWrite, bytes.as_ptr().cast(), bytes.len() as c_int, at as sqlite3_int64))
    }

    fn truncate(&mut self, size: u64) -> Result<(), Code> {
        done(ask!(self, xTruncate, size as sqlite3_int64))
    }

    fn size(&mut self) -> Result<u64, Code> {
        let mut size = 0;
        done(ask!(self, xFileSize, &raw mut size))?;
        Ok(size as u64)
    }
}

fn done(code: c_int) -> Result<(), Code> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

fn code(result: Result<(), Code>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// `vfs` is the one that [`register`] made.
unsafe fn drive(vfs: *mut sqlite3_vfs) -> &'static Drive {
    // SAFETY: `register` put it there, and leaked it.
    unsafe { &*(*vfs).pAppData.cast::<Drive>() }
}

/// # Safety
/// `file` was opened by [`open`], is not closed yet, and is used by one thread at a time, which is SQLite's promise.
unsafe fn opened<'f>(file: *mut sqlite3_file) -> &'f mut Open {
    // SAFETY: see above.
    unsafe { &mut *(*file.cast::<File>()).open }
}

/// # Safety
/// `name` is a C string.
unsafe fn path(name: *const c_char) -> Vec<u8> {
    // SAFETY: see above.
    unsafe { CStr::from_ptr(name) }.to_bytes().to_vec()
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, and room for as large a file as the VFS says.
    unsafe {
        let drive = drive(vfs);
        let Some(unix_open) = (*drive.unix).xOpen else { return ffi::SQLITE_CANTOPEN };
        if name.is_null() || flags & KEPT == 0 {
            return unix_open(drive.unix, name, file, flags, flags_out);
        }
        (*file).pMethods = ptr::null();
        let words = ((*drive.unix).szOsFile as usize).div_ceil(size_of::<u64>());
        let mut real = vec![0_u64; words].into_boxed_slice();
        let opening = unix_open(drive.unix, name, real.as_mut_ptr().cast(), flags, flags_out);
        if opening != ffi::SQLITE_OK {
            return opening;
        }
        let path = path(name);
        let cache = lock(&drive.files).entry(path.clone()).or_insert_with(|| drive.cache(&path)).clone();
        let open = Box::into_raw(Box::new(Open { real, drive, path, cache }));
        file.cast::<File>().write(File { base: sqlite3_file { pMethods: &raw const METHODS }, open });
        ffi::SQLITE_OK
    }
}

impl Drive {
    fn cache(&self, path: &[u8]) -> Arc<Mutex<Cache>> {
        Arc::new(Mutex::new(Cache::new(Dice::new(self.seed, path))))
    }

    /// What waits stays, so that whoever opens the file next sees it; a file with nothing waiting needs no memory.
    fn let_go(&self, path: &[u8]) {
        let mut files = lock(&self.files);
        let is_done = |cache: &Arc<Mutex<Cache>>| Arc::strong_count(cache) == 1 && lock(cache).is_settled();
        if files.get(path).is_some_and(is_done) {
            files.remove(path);
        }
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite passes our VFS and a C string.
    unsafe {
        let drive = drive(vfs);
        // Those who have it open keep what they see, as with any unlinked file.
        lock(&drive.files).remove(&path(name));
        match (*drive.unix).xDelete {
            Some(unix_delete) => unix_delete(drive.unix, name, sync_dir),
            None => ffi::SQLITE_IOERR_DELETE,
        }
    }
}

unsafe extern "C" fn access(vfs: *mut sqlite3_vfs, name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int {
    // SAFETY: SQLite passes our VFS, a C string and room for the answer.
    unsafe {
        let drive = drive(vfs);
        let Some(unix_access) = (*drive.unix).xAccess else { return ffi::SQLITE_IOERR_ACCESS };
        let result = unix_access(drive.unix, name, flags, answer);
        // To SQLite an empty file does not exist, and one with all its bytes waiting only looks empty from below.
        if result == ffi::SQLITE_OK
            && flags == ffi::SQLITE_ACCESS_EXISTS
            && let Some(cache) = lock(&drive.files).get(&path(name))
            && let Some(size) = lock(cache).waiting_size()
        {
            *answer = c_int::from(size > 0);
        }
        result
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Without the third version's memory maps, which would show the real file.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

// Below, every `file` is one of ours and open, and every other pointer is good for what it says: SQLite's promise.

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as said; SQLite forgets the file, so the box comes back exactly once.
    let mut open = unsafe { Box::from_raw((*file.cast::<File>()).open) };
    let result = ask!(open.real(), xClose);
    let Open { drive, path, cache, .. } = *open;
    drop(cache);
    drive.let_go(&path);
    result
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, length: c_int, at: sqlite3_int64) -> c_int {
    // SAFETY: as said.
    let (open, into) = unsafe { (opened(file), std::slice::from_raw_parts_mut(into.cast(), length as usize)) };
    let (mut cache, mut real) = open.parts();
    match cache.read(&mut real, at as u64, into) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(code) => code,
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, length: c_int, at: sqlite3_int64) -> c_int {
    // SAFETY: as said.
    let (open, bytes) = unsafe { (opened(file), std::slice::from_raw_parts(bytes.cast(), length as usize)) };
    let (mut cache, mut real) = open.parts();
    code(cache.write(&mut real, at as u64, bytes))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: as said.
    let (mut cache, mut real) = unsafe { opened(file) }.parts();
    code(cache.truncate(&mut real, size as u64))
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as said.
    let open = unsafe { opened(file) };
    let real_sync = |real: Real| done(ask!(real, xSync, flags));
    // Nobody needs to wait for the real sync but the caller: the lock is for moving bytes only.
    let (mut cache, mut real) = open.parts();
    let some = cache.settle_some(&mut real);
    drop(cache);
    let result = some.and_then(|some| if some { real_sync(real) } else { Ok(()) }).and_then(|()| {
        let (mut cache, mut real) = open.parts();
        cache.settle(&mut real)
    });
    code(result.and_then(|()| real_sync(real)))
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, answer: *mut sqlite3_int64) -> c_int {
    // SAFETY: as said.
    let (mut cache, mut real) = unsafe { opened(file) }.parts();
    let size = cache.size(&mut real);
    code(size.map(|size| {
        // SAFETY: as said.
        unsafe { *answer = size as sqlite3_int64 }
    }))
}

unsafe extern "C" fn lock_file(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xLock, level)
}

unsafe extern "C" fn unlock_file(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xCheckReservedLock, answer)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, what: c_int, argument: *mut c_void) -> c_int {
    match what {
        // These would have the real file grow or be mapped behind our back.
        ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE | ffi::SQLITE_FCNTL_MMAP_SIZE => {
            ffi::SQLITE_NOTFOUND
        }
        // SAFETY: as said.
        _ => ask!(unsafe { opened(file) }.real(), xFileControl, what, argument),
    }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xSectorSize)
}

/// The one promise that we keep, if the real file makes it. Anything about order or whole writes would be untrue.
unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xDeviceCharacteristics) & ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xShmMap, region, size, extend, answer)
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xShmLock, offset, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: as said.
    unsafe {
        let real = opened(file).real().0;
        if let Some(barrier) = (*(*real).pMethods).xShmBarrier {
            barrier(real);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: as said.
    ask!(unsafe { opened(file) }.real(), xShmUnmap, delete)
}
