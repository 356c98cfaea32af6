//! Keys that were given to `convoke auth login`: one file, for this user only.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::document::excerpt;
use crate::read::{Reading, read_text};
use crate::{Error, Paths, Secret, private};

/// Keys by provider.
pub type Keys = BTreeMap<String, Secret>;

/// Longer than any key; a file that was pasted by mistake is.
const LONGEST: usize = 8192;

/// The keys there are. A file that others may read is refused: it has to be closed first.
pub fn keys(paths: &Paths) -> Result<Keys, Error> {
    read(paths, &mut Reading::default())
}

pub(crate) fn read(paths: &Paths, reading: &mut Reading) -> Result<Keys, Error> {
    let file = paths.auth();
    let name = file.display();
    let Some(text) = read_text(&file, reading)? else { return Ok(Keys::new()) };
    let open = fs::metadata(&file).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0);
    if open {
        return Err(Error::new(
            format!("others may read `{name}`, which holds keys"),
            format!("run `chmod 600 {name}`"),
        ));
    }
    let found: BTreeMap<String, String> = serde_json::from_str(&text)
        .map_err(|cause| Error::new(format!("{name}: damaged ({cause})"), "move it away, and log in again"))?;
    Ok(found.into_iter().map(|(provider, key)| (provider, Secret::new(key))).collect())
}

/// Keeps a key for a provider; one it had is replaced.
pub fn login(paths: &Paths, provider: &str, key: &str) -> Result<(), Error> {
    let key = key.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if provider.is_empty() || provider.len() > 64 || !provider.chars().all(plain) {
        let what = format!("`{}` is not a provider's name", excerpt(provider));
        return Err(Error::new(what, "use letters, digits, `.`, `_` or `-`, as in `anthropic`"));
    }
    if key.is_empty() || key.len() > LONGEST || key.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(Error::new("that is not a key", "paste the key alone: one word, on one line"));
    }
    change(paths, |keys| drop(keys.insert(provider.to_owned(), Secret::new(key))))
}

/// Forgets a key. False when there was none.
pub fn logout(paths: &Paths, provider: &str) -> Result<bool, Error> {
    let mut known = false;
    change(paths, |keys| known = keys.remove(provider).is_some())?;
    Ok(known)
}

fn change(paths: &Paths, change: impl FnOnce(&mut Keys)) -> Result<(), Error> {
    let held = private::hold(&paths.auth())?;
    let mut all = keys(paths)?;
    change(&mut all);
    let plain: BTreeMap<&str, &str> = all.iter().map(|(name, key)| (name.as_str(), key.expose())).collect();
    held.write(&serde_json::to_string_pretty(&plain).expect("a map of texts is JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_for_this_user_only() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        assert!(keys(&paths).unwrap().is_empty());
        login(&paths, "anthropic", " hunter2\n").unwrap();
        login(&paths, "openai", "other").unwrap();
        assert_eq!(keys(&paths).unwrap()["anthropic"].expose(), "hunter2");
        assert_eq!(fs::metadata(paths.auth()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(logout(&paths, "anthropic").unwrap() && !logout(&paths, "anthropic").unwrap());
        assert_eq!(keys(&paths).unwrap().len(), 1);
        fs::set_permissions(paths.auth(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(keys(&paths).unwrap_err().hint.starts_with("run `chmod 600"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        for (provider, key) in [("", "k"), ("a/b", "k"), ("p", ""), ("p", "two words"), ("p", "a\u{7}")] {
            assert!(login(&paths, provider, key).is_err(), "{provider} {key}");
        }
        assert!(!paths.auth().exists());
    }
}
