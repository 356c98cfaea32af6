//! Keeps a command's output: the first part in memory, all of it in a file once that is too little.

use super::Live;
use std::path::PathBuf;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// The most of one output that goes to disk: a command that prints without end must not fill it.
const MAX_SPILL: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;
/// What stands at the end of such a file.
const CUT: &[u8] = b"\n[what was printed after this is not kept]\n";

pub(super) struct Collector {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
    limit: usize,
    spill: Spill,
    live: Option<Live>,
}

enum Spill {
    /// Not needed so far, or not wanted.
    Unopened(Option<PathBuf>),
    Open(File),
}

impl Collector {
    pub(super) fn new(limit: usize, spill: Option<PathBuf>) -> Self {
        Self { kept: Vec::new(), total: 0, limit, spill: Spill::Unopened(spill), live: None }
    }

    /// Shows it as well.
    pub(super) fn live(self, live: Option<Live>) -> Self {
        Self { live, ..self }
    }

    pub(super) fn truncated(&self) -> bool {
        self.total > self.kept.len() as u64
    }

    /// Reads to the end. Never stops early: a command whose output nobody reads would hang.
    pub(super) async fn drain(&mut self, mut from: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            self.take(&chunk[..read]).await;
        }
        self.flush().await;
    }

    /// Also after a `drain` that was given up: what the file lacks then is only what was never read.
    pub(super) async fn flush(&mut self) {
        if let Spill::Open(file) = &mut self.spill {
            let _ = file.flush().await;
        }
    }

    async fn take(&mut self, bytes: &[u8]) {
        if let Some(live) = &self.live {
            live.tell(bytes);
        }
        let before = self.total;
        self.total += bytes.len() as u64;
        // Opened before more is kept: until then, all there was is in memory.
        if self.total > self.limit as u64 {
            self.open_spill().await;
        }
        if let Spill::Open(file) = &mut self.spill
            && before < MAX_SPILL
            && let Err(error) = keep(file, bytes, self.total >= MAX_SPILL).await
        {
            tracing::warn!(%error, "the rest of an output is lost");
            self.spill = Spill::Unopened(None);
        }
        let room = self.limit.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
    }

    async fn open_spill(&mut self) {
        let Spill::Unopened(path) = &mut self.spill else { return };
        let Some(path) = path.take() else { return };
        match self.copy_kept(&path).await {
            Ok(file) => self.spill = Spill::Open(file),
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot save an output"),
        }
    }

    async fn copy_kept(&self, path: &std::path::Path) -> std::io::Result<File> {
        if let Some(parent) = path.parent() {
            tokio::fs::create_dir_all(parent).await?;
        }
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path).await?;
        file.write_all(&self.kept).await?;
        Ok(file)
    }
}

async fn keep(file: &mut File, bytes: &[u8], last: bool) -> std::io::Result<()> {
    file.write_all(bytes).await?;
    if last { file.write_all(CUT).await } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_fits_stays_in_memory_and_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut collector = Collector::new(5, Some(path.clone()));
        collector.drain(&b"12345"[..]).await;
        assert_eq!(collector.kept, b"12345");
        assert!(!collector.truncated());
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_does_not_fit_is_whole_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new folder/out");
        let mut collector = Collector::new(5, Some(path.clone()));
        collector.take(b"123").await;
        collector.take(b"4567").await;
        collector.drain(&b"89"[..]).await;
        assert_eq!(collector.kept, b"12345");
        assert_eq!((collector.total, collector.truncated()), (9, true));
        assert_eq!(std::fs::read(&path).unwrap(), b"123456789");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "what a command prints is nobody else's");
    }

    #[tokio::test]
    async fn a_file_does_not_grow_for_ever_and_says_where_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut collector = Collector::new(0, Some(path.clone()));
        let much = vec![b'x'; 8 << 20];
        for _ in 0..10 {
            collector.take(&much).await;
        }
        collector.flush().await;
        let kept = std::fs::read(path).unwrap();
        assert_eq!((kept.len() as u64, collector.total), (MAX_SPILL + CUT.len() as u64, 80 << 20));
        assert!(kept.ends_with(CUT));
    }
}
