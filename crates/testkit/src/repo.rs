//! A small project on disk for tools to work in.

use crate::home::write;
use std::path::Path;

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Sample\n\nA small project that tests work in.\n"),
    ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
    (".gitignore", "/target\n*.log\n"),
    ("src/main.rs", "mod claims;\n\nfn main() {\n    claims::claim(\"first\");\n}\n"),
    (
        "src/claims.rs",
        "//! Who holds what.\n\n/// Claims a session for its owner.\npub fn claim(session: &str) -> bool {\n    !session.is_empty()\n}\n",
    ),
    ("docs/notes.md", "Sessions are claimed in `src/claims.rs`.\n"),
];

/// A directory that is deleted when the test ends.
pub struct RepoDir {
    dir: tempfile::TempDir,
}

impl Default for RepoDir {
    fn default() -> Self {
        Self::new()
    }
}

impl RepoDir {
    /// With a few files in it.
    pub fn new() -> Self {
        let repo = Self::empty();
        for (path, text) in FILES {
            repo.write(path, text);
        }
        repo
    }

    pub fn empty() -> Self {
        Self { dir: tempfile::Builder::new().prefix("repo").tempdir().expect("a temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.path().join(path), text);
    }

    /// What the file holds; fails the test when there is none.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        match std::fs::read_to_string(self.path().join(path)) {
            Ok(text) => text,
            Err(error) => panic!("`{path}` of the sample project: {error}"),
        }
    }
}
