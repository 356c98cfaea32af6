//! Where things live on this machine.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::hash::short;
use crate::{Environment, Error};

/// The three directories of a home. Nothing is created before [`Paths::ensure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// What the user wrote.
    pub config: PathBuf,
    /// What must survive a restart.
    pub state: PathBuf,
    /// What need not: sockets.
    pub run: PathBuf,
    /// Holds the user's `.convoke`, beside which other programs keep theirs.
    pub directory: PathBuf,
    /// What the administrator of this machine has set.
    pub managed: PathBuf,
}

#[cfg(target_os = "macos")]
const MANAGED: &str = "/Library/Application Support/convoke";
#[cfg(not(target_os = "macos"))]
const MANAGED: &str = "/etc/convoke";

/// The kernel takes 108 bytes for a socket's path on Linux and 104 on macOS, the closing zero among them.
const LONGEST_SOCKET_PATH: usize = 100;

impl Paths {
    /// The paths the environment of this process asks for.
    pub fn from_env() -> Result<Self, Error> {
        Self::resolve(&Environment::capture())
    }

    /// The paths a given environment asks for.
    pub fn resolve(env: &Environment) -> Result<Self, Error> {
        let mut paths = match env.filled("CONVOKE_HOME") {
            Some(home) => Self::under(&absolute("CONVOKE_HOME", home)?),
            None => Self::of_user(env)?,
        };
        if let Some(run) = env.filled("CONVOKE_RUNTIME_DIR") {
            paths.run = absolute("CONVOKE_RUNTIME_DIR", run)?;
        }
        // For tests alone: in a program that people use, nobody but the administrator says where this is.
        #[cfg(debug_assertions)]
        if let Some(managed) = env.filled("CONVOKE_TEST_MANAGED") {
            paths.managed = absolute("CONVOKE_TEST_MANAGED", managed)?;
        }
        Ok(paths)
    }

    /// Everything in one directory.
    pub fn under(home: &Path) -> Self {
        Self {
            config: home.join("config"),
            state: home.join("state"),
            run: home.join("run"),
            directory: home.to_owned(),
            managed: MANAGED.into(),
        }
    }

    fn of_user(env: &Environment) -> Result<Self, Error> {
        // The XDG rules say that a relative path is to be ignored.
        let xdg = |name| env.filled(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = |rest: &str| {
            env.home().map(|home| home.join(rest)).ok_or_else(|| {
                Error::new("there is no home directory: `HOME` is not set", "set `CONVOKE_HOME` to a directory to use")
            })
        };
        let or_home = |name, rest| xdg(name).map_or_else(|| home(rest), Ok);
        let state = or_home("XDG_STATE_HOME", ".local/state")?.join("convoke");
        let run = xdg("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |run| run.join("convoke"));
        let config = or_home("XDG_CONFIG_HOME", ".config")?.join("convoke");
        // Without a home, beside the settings: a place nobody else writes to.
        let directory = env.home().unwrap_or_else(|| config.clone());
        Ok(Self { config, state, run, directory, managed: MANAGED.into() })
    }

    /// The settings file: `convoke.jsonc`, or `convoke.json` where only that exists.
    pub fn config_file(&self) -> PathBuf {
        let (commented, plain) = (self.config.join("convoke.jsonc"), self.config.join("convoke.json"));
        if !commented.exists() && plain.exists() { plain } else { commented }
    }

    pub fn database(&self) -> PathBuf {
        self.state.join("convoke.db")
    }

    /// Held by the one gateway of this home.
    pub fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// Which repositories are trusted.
    pub fn trust(&self) -> PathBuf {
        self.state.join("trust.json")
    }

    /// What was answered with "always".
    pub fn always(&self) -> PathBuf {
        self.state.join("always.json")
    }

    /// Keys that were given to `convoke auth login`.
    pub fn auth(&self) -> PathBuf {
        self.state.join("auth.json")
    }

    /// What was last fetched from an organisation's address.
    pub fn organisation(&self, address: &str) -> PathBuf {
        self.state.join(format!("organisation-{}.json", short(address.as_bytes())))
    }

    pub fn log(&self) -> PathBuf {
        self.state.join("gateway.log")
    }

    /// Tool output that was too long for a result.
    pub fn outputs(&self) -> PathBuf {
        self.state.join("outputs")
    }

    /// What files were before sessions changed them.
    pub fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// Temporary files of sessions, and what sandboxes are made of.
    pub fn sandboxes(&self) -> PathBuf {
        self.state.join("sandbox")
    }

    /// The gateway's socket, named after its home so that several can share a runtime directory.
    pub fn socket(&self) -> PathBuf {
        let name = format!("{}.sock", short(self.state.as_os_str().as_bytes()));
        let socket = self.run.join(&name);
        if socket.as_os_str().len() <= LONGEST_SOCKET_PATH { socket } else { self.short_run().join(name) }
    }

    /// Creates what is missing, for this user only.
    pub fn ensure(&self) -> Result<(), Error> {
        // Settings may live on a read-only disk; without the directory there are simply none.
        drop(create(&self.config));
        for directory in [&self.state, &self.outputs(), &self.run] {
            create(directory).and_then(|()| writable(directory)).map_err(|cause| unusable(directory, &cause))?;
        }
        let short_run = self.short_run();
        if self.socket().starts_with(&short_run) {
            create(&short_run).map_err(|cause| unusable(&short_run, &cause))?;
            private(&short_run)?;
        }
        Ok(())
    }

    /// Stands in for a runtime directory whose path is too long. Always below `/tmp`, whatever `TMPDIR` says: a client
    /// in another shell must find the same socket.
    fn short_run(&self) -> PathBuf {
        let user = rustix::process::getuid().as_raw();
        Path::new("/tmp").join(format!("convoke-{user}-{}", short(self.run.as_os_str().as_bytes())))
    }
}

fn absolute(name: &str, value: &str) -> Result<PathBuf, Error> {
    std::path::absolute(value)
        .map_err(|cause| Error::new(format!("`{name}` cannot be resolved: {cause}"), "set it to an absolute path"))
}

fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Asked of the kernel, so that a read-only mount is noticed before the first write fails.
fn writable(directory: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    rustix::fs::access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
}

fn unusable(directory: &Path, cause: &io::Error) -> Error {
    let why = match cause.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read and write it".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "a file is in the way".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        _ => cause.to_string(),
    };
    let name = directory.display();
    Error::new(format!("cannot use the directory `{name}`: {why}"), "mend it, or set `CONVOKE_HOME` to another one")
}

/// In a directory everybody may write to, somebody else can be first.
fn private(directory: &Path) -> Result<(), Error> {
    let ours = directory.symlink_metadata().is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw() && meta.mode() & 0o077 == 0
    });
    if ours {
        return Ok(());
    }
    let name = directory.file_name().unwrap_or(OsStr::new("?")).display();
    Err(Error::new(
        format!("the socket directory `/tmp/{name}` is not this user's alone"),
        "remove it, or set `CONVOKE_RUNTIME_DIR` to a short path of your own",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn resolve(variables: &[(&str, &str)]) -> Paths {
        Paths::resolve(&variables.iter().copied().collect()).unwrap()
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], config: &str, state: &str, run: &str) {
        let paths = resolve(variables);
        let found = (paths.config.to_str(), paths.state.to_str(), paths.run.to_str());
        assert_eq!(found, (Some(config), Some(state), Some(run)), "{variables:?}");
    }

    #[test]
    fn convoke_home_holds_everything() {
        check(&[("CONVOKE_HOME", "/c"), ("HOME", "/h"), ("XDG_RUNTIME_DIR", "/x")], "/c/config", "/c/state", "/c/run");
        check(&[("CONVOKE_HOME", "/c"), ("CONVOKE_RUNTIME_DIR", "/r")], "/c/config", "/c/state", "/r");
    }

    #[test]
    fn without_it_the_usual_places_are_used() {
        let (config, state) = ("/h/.config/convoke", "/h/.local/state/convoke");
        check(&[("HOME", "/h")], config, state, "/h/.local/state/convoke/run");
        check(&[("HOME", "/h"), ("CONVOKE_HOME", "")], config, state, "/h/.local/state/convoke/run");
        check(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/x")], config, state, "/x/convoke");
        check(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "relative")], config, state, "/h/.local/state/convoke/run");
        check(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/x"), ("CONVOKE_RUNTIME_DIR", "/r")], config, state, "/r");
        let xdg = [("XDG_CONFIG_HOME", "/x/c"), ("XDG_STATE_HOME", "/x/s")];
        check(&xdg, "/x/c/convoke", "/x/s/convoke", "/x/s/convoke/run");
    }

    #[test]
    fn no_home_at_all_is_an_error_with_a_way_out() {
        let error = Paths::resolve(&Environment::default()).unwrap_err();
        assert_eq!(error.message, "there is no home directory: `HOME` is not set");
        assert_eq!(error.hint, "set `CONVOKE_HOME` to a directory to use");
    }

    #[test]
    fn homes_that_share_a_runtime_directory_have_their_own_sockets() {
        let one = resolve(&[("CONVOKE_HOME", "/one"), ("CONVOKE_RUNTIME_DIR", "/r")]).socket();
        let two = resolve(&[("CONVOKE_HOME", "/two"), ("CONVOKE_RUNTIME_DIR", "/r")]).socket();
        assert_ne!(one, two);
        assert_eq!((one.parent(), one.extension()), (Some(Path::new("/r")), Some(OsStr::new("sock"))));
    }

    #[test]
    fn a_socket_path_never_outgrows_the_kernel() {
        let long = format!("/{}", "deep/".repeat(40));
        let paths = resolve(&[("CONVOKE_HOME", &long)]);
        assert!(paths.socket().as_os_str().len() <= LONGEST_SOCKET_PATH);
        assert!(paths.socket().starts_with("/tmp"));
        assert_ne!(paths.socket(), resolve(&[("CONVOKE_HOME", &format!("{long}x"))]).socket());
    }

    #[test]
    fn directories_are_made_for_this_user_only() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("new"));
        paths.ensure().unwrap();
        paths.ensure().unwrap();
        for directory in [&paths.config, &paths.state, &paths.run, &paths.outputs()] {
            assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{directory:?}");
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("state"), "").unwrap();
        let error = Paths::under(home.path()).ensure().unwrap_err();
        let state = home.path().join("state");
        assert_eq!(error.message, format!("cannot use the directory `{}`: a file is in the way", state.display()));
    }

    #[test]
    fn a_borrowed_socket_directory_is_refused() {
        let shared = tempfile::tempdir().unwrap();
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private(shared.path()).is_err());
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(private(shared.path()), Ok(()));
        let link = shared.path().join("link");
        std::os::unix::fs::symlink(shared.path(), &link).unwrap();
        assert!(private(&link).is_err());
    }

    #[test]
    fn a_plain_settings_file_is_found_where_there_is_no_commented_one() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        paths.ensure().unwrap();
        assert!(paths.config_file().ends_with("convoke.jsonc"));
        std::fs::write(paths.config.join("convoke.json"), "{}").unwrap();
        assert!(paths.config_file().ends_with("convoke.json"));
        std::fs::write(paths.config.join("convoke.jsonc"), "{}").unwrap();
        assert!(paths.config_file().ends_with("convoke.jsonc"));
    }
}
