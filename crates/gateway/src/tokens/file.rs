//! The file tokens are kept in, and the file that holds the first one: for this user alone, replaced as a whole.

use super::{Hash, hash};
use proto::methods::Scope;
use proto::{Code, Error, Millis};
use serde::{Deserialize, Serialize};
use session::clock::due;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The token every home has, for its own user.
const ADMIN: &str = "admin";

/// So that a leaked one can be recognised and hidden.
const PREFIX: &str = "cvk_";

/// Far more than people can tell apart.
const MAX_TOKENS: usize = 1000;

/// Of a file with that many tokens, with room to spare.
const MAX_FILE: u64 = 1024 * 1024;

/// A new token. The only time it is seen.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Added {
    #[serde(flatten)]
    pub info: Info,
    pub token: String,
}

/// What can be told about a token.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    pub name: String,
    pub scopes: Vec<Scope>,
    pub created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    pub expired: bool,
}

/// Where the token of this home's own user is.
#[derive(Debug, Clone)]
pub struct TokenFile(pub PathBuf);

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    tokens: Vec<Token>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) name: String,
    #[serde(with = "hex")]
    pub(super) hash: Hash,
    pub(super) scopes: Vec<Scope>,
    created: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Millis>,
}

impl Token {
    pub(super) fn is_valid(&self, now: Millis) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            created_at: self.created,
            expires_at: self.expires,
            expired: !self.is_valid(due()),
        }
    }
}

/// Changes whenever the file does: every change is a new file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// Makes a token. It opens doors from now on, also those of a gateway that runs.
pub fn add(state: &Path, name: &str, scopes: &[Scope], expires: Option<Duration>) -> Result<Added, Error> {
    check_name(name)?;
    let token = fresh()?;
    session::clock::open(state);
    let created = due();
    let expires = expires.map(|expires| created.saturating_add(i64::try_from(expires.as_millis()).unwrap_or(i64::MAX)));
    let mut distinct: Vec<Scope> = Vec::new();
    for scope in scopes {
        if !distinct.contains(scope) {
            distinct.push(*scope);
        }
    }
    let entry = Token { name: name.into(), hash: hash(&token), scopes: distinct, created, expires };
    let info = entry.info();
    change(state, |tokens| {
        if tokens.iter().any(|token| token.name == name) {
            return Err(Error::new(Code::Conflict, format!("there is a token `{name}` already"))
                .hint("choose another name, or revoke that one first"));
        }
        if tokens.len() >= MAX_TOKENS {
            return Err(Error::new(Code::Conflict, format!("there are {MAX_TOKENS} tokens"))
                .hint("revoke some that nobody uses"));
        }
        tokens.push(entry);
        Ok(())
    })?;
    Ok(Added { info, token })
}

/// All of them, oldest first.
pub fn list(state: &Path) -> Result<Vec<Info>, Error> {
    session::clock::open(state);
    Ok(read(&path(state))?.iter().map(Token::info).collect())
}

/// Ends a token, and with it every connection it has opened.
pub fn revoke(state: &Path, name: &str) -> Result<(), Error> {
    change(state, |tokens| {
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            let shown: String = name.chars().take(80).collect();
            return Err(Error::not_found(format!("there is no token `{shown}`"))
                .hint("`convoke token list` shows those there are"));
        }
        Ok(())
    })?;
    if name == ADMIN {
        // It opens nothing any more, so it has no business on the disk. The next `serve` makes a new one.
        let _ = std::fs::remove_file(admin_path(state));
    }
    Ok(())
}

/// Makes sure that this home's own user has a token, and says where it is.
pub fn ensure_admin(state: &Path) -> Result<TokenFile, Error> {
    session::clock::open(state);
    let file = admin_path(state);
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let kept = hash(kept.trim());
    let known = read(&path(state))?;
    let good = |token: &Token| token.hash == kept && token.scopes.contains(&Scope::Admin) && token.is_valid(due());
    if !known.iter().any(good) {
        let token = fresh()?;
        let entry =
            Token { name: ADMIN.into(), hash: hash(&token), scopes: vec![Scope::Admin], created: due(), expires: None };
        save(&file, token.as_bytes())?;
        change(state, |tokens| {
            tokens.retain(|token| token.name != ADMIN);
            tokens.push(entry);
            Ok(())
        })?;
    }
    // It may have been copied here by hand.
    let private = std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600));
    private.map_err(|error| cannot("protect", &file, &error))?;
    Ok(TokenFile(file))
}

pub(super) fn path(state: &Path) -> PathBuf {
    state.join("tokens.json")
}

fn admin_path(state: &Path) -> PathBuf {
    state.join("token")
}

/// What is kept; nothing where there is no file yet.
pub(super) fn read(path: &Path) -> Result<Vec<Token>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot("read", path, &error)),
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| cannot("read", path, &error))?;
    let kept: Kept = serde_json::from_str(&text).map_err(|error| {
        Error::new(Code::Unavailable, format!("`{}` is damaged: {error}", path.display()))
            .hint("remove it: new tokens can be made, old ones open nothing any more")
    })?;
    Ok(kept.tokens)
}

/// Reads, changes and replaces, with nobody else in between.
fn change(state: &Path, change: impl FnOnce(&mut Vec<Token>) -> Result<(), Error>) -> Result<(), Error> {
    let path = path(state);
    let lock = state.join("tokens.lock");
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock);
    let locked = opened.map_err(|error| cannot("write", &lock, &error))?;
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| cannot("lock", &lock, &error.into()))?;
    let mut tokens = read(&path)?;
    change(&mut tokens)?;
    let json = serde_json::to_vec_pretty(&Kept { tokens }).map_err(|error| Error::internal(error.to_string()))?;
    save(&path, &json)
}

/// Replaces a file as a whole: a reader sees the old one or the new one, and so does a crash.
pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let directory = path.parent().unwrap_or(Path::new("/"));
        // Made for this user alone.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| cannot("write", path, &error))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(Code::Unavailable, format!("cannot {what} `{}`: {error}", path.display()))
        .hint("mend it, or set CONVOKE_HOME to another directory")
}

/// 256 random bits.
fn fresh() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("there is no randomness: {error}")))?;
    Ok(format!("{PREFIX}{}", hex::write(&bytes)))
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(
            Error::invalid("that is no name for a token").hint("use 1 to 64 of letters, digits, `_`, `.` and `-`")
        );
    }
    Ok(())
}

/// Hashes as text.
mod hex {
    use super::Hash;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn write(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn serialize<S: Serializer>(hash: &Hash, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&write(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = text.as_bytes().chunks(2).map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .filter(|pair| pair.len() == 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| D::Error::custom("not a hash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn names_are_unique_and_nothing_secret_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let added = add(dir.path(), "ci", &[Scope::Read, Scope::Write, Scope::Read], None).unwrap();
        assert_eq!(added.info.scopes, [Scope::Read, Scope::Write]);
        assert_eq!(added.token.len(), PREFIX.len() + 64);
        assert_eq!(add(dir.path(), "ci", &[], None).unwrap_err().code, Code::Conflict);
        let kept = std::fs::read_to_string(path(dir.path())).unwrap();
        assert!(!kept.contains(&added.token[PREFIX.len()..]), "{kept}");
        assert_eq!(mode(&path(dir.path())), 0o600);
        assert_eq!(list(dir.path()).unwrap().len(), 1);
        revoke(dir.path(), "ci").unwrap();
        assert_eq!(revoke(dir.path(), "ci").unwrap_err().code, Code::NotFound);
        for bad in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert_eq!(add(dir.path(), bad, &[], None).unwrap_err().code, Code::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn the_own_token_stays_until_it_is_revoked_or_lost() {
        let dir = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(admin_path(dir.path())).unwrap();
        let file = ensure_admin(dir.path()).unwrap().0;
        let first = read();
        assert_eq!((mode(&file), first.trim()), (0o600, first.as_str()));
        ensure_admin(dir.path()).unwrap();
        assert_eq!(read(), first);
        revoke(dir.path(), ADMIN).unwrap();
        assert!(!file.exists());
        ensure_admin(dir.path()).unwrap();
        assert_ne!(read(), first);
        assert_eq!(list(dir.path()).unwrap().len(), 1);
    }

    #[test]
    fn several_writers_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..20 {
                let state = dir.path();
                scope.spawn(move || add(state, &format!("t{n}"), &[Scope::Read], None).unwrap());
            }
        });
        assert_eq!(list(dir.path()).unwrap().len(), 20);
    }
}
