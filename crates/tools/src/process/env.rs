//! The environment commands get: a list of what is let through, so that a new secret is kept out without being known.

use std::path::Path;

/// Names let through as they are: who and where one is, and where toolchains live.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMUX_TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "SDKMAN_DIR",
    "ANDROID_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "NODE_PATH",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_CACHE_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "DOTNET_ROOT",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "PKG_CONFIG_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Let through unless they carry a password.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Parts of names that give a secret away, whatever list the name is on.
const SECRET: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"];

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What settings add to the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Names, or beginnings of names that end with `*`. A secret has to be named whole.
    pub pass: Vec<String>,
    pub set: Vec<(String, String)>,
}

impl Wanted {
    fn passes(&self, name: &str) -> bool {
        self.pass.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start) && !is_secret(name),
            None => wanted == name,
        })
    }
}

/// What of `base` a command may see, and what it is given besides.
pub fn env_with(base: &[(String, String)], wanted: &Wanted) -> Vec<(String, String)> {
    let mut env = clean_env(base.iter().cloned());
    let passed = base.iter().filter(|(name, _)| wanted.passes(name));
    for (name, value) in passed.chain(&wanted.set) {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    env.sort();
    env
}

/// Whether a variable of this name is let through, if its value is no secret.
pub fn is_listed(name: &str) -> bool {
    KEPT.contains(&name) || name.starts_with("LC_") || PROXIES.contains(&name.to_uppercase().as_str())
}

fn is_secret(name: &str) -> bool {
    let upper = name.to_uppercase();
    SECRET.iter().any(|part| upper.contains(part))
}

/// What of `base` a command may see. Cleaning twice changes nothing.
pub fn clean_env(base: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = base.filter(|(name, value)| is_kept(name, value)).collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".into(), DEFAULT_PATH.into()));
    }
    // Nobody looks at a terminal: programs should not draw one.
    env.push(("TERM".into(), "dumb".into()));
    env.sort();
    env.dedup_by(|a, b| a.0 == b.0);
    env
}

/// The shell commands are given to: `bash` where there is one.
pub fn shell(env: &[(String, String)]) -> &'static str {
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path.as_str());
    if path.split(':').any(|dir| Path::new(dir).join("bash").is_file()) { "bash" } else { "sh" }
}

fn is_kept(name: &str, value: &str) -> bool {
    let is_proxy = PROXIES.contains(&name.to_uppercase().as_str());
    is_listed(name) && !is_secret(name) && !(is_proxy && value.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        clean_env(pairs).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn only_what_is_listed_passes() {
        let base = [("PATH", "/bin"), ("LC_ALL", "C"), ("CARGO_HOME", "/c"), ("MY_APP", "x"), ("TERM", "xterm")];
        assert_eq!(clean(&base), ["CARGO_HOME=/c", "LC_ALL=C", "PATH=/bin", "TERM=dumb"]);
    }

    #[test]
    fn settings_add_to_the_list_and_a_pattern_takes_no_secret() {
        let base = [("PATH", "/bin"), ("APP_MODE", "x"), ("APP_TOKEN", "s"), ("ONE_KEY", "k"), ("OTHER", "o")];
        let base: Vec<(String, String)> = base.map(|(name, value)| (name.into(), value.into())).into();
        let wanted = Wanted {
            pass: vec!["APP_*".into(), "ONE_KEY".into(), "MISSING".into()],
            set: vec![("PATH".into(), "/own".into()), ("CI".into(), "1".into())],
        };
        let env: Vec<String> = env_with(&base, &wanted).iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["APP_MODE=x", "CI=1", "ONE_KEY=k", "PATH=/own", "TERM=dumb"]);
    }

    #[test]
    fn the_document_names_every_variable_that_is_let_through() {
        let document = include_str!("../../../../docs/sandbox.md");
        let missing = KEPT.iter().chain(PROXIES).find(|name| !document.contains(&format!("`{name}`")));
        assert_eq!(missing, None, "docs/sandbox.md");
    }

    #[test]
    fn secrets_never_pass() {
        let base = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "s"),
            ("LC_TOKEN", "s"),
            ("DB_PASSWORD", "s"),
            ("https_proxy", "http://me:pass@proxy:3128"),
        ];
        assert_eq!(clean(&base), ["PATH=/bin", "TERM=dumb"]);
    }

    #[test]
    fn a_command_always_has_a_path_and_a_proxy_without_password() {
        let env = clean(&[("https_proxy", "http://proxy:3128")]);
        assert!(env.iter().any(|pair| pair.starts_with("PATH=/")), "{env:?}");
        assert!(env.contains(&"https_proxy=http://proxy:3128".to_owned()), "{env:?}");
    }
}
