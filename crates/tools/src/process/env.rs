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
    let upper = name.to_uppercase();
    if SECRET.iter().any(|part| upper.contains(part)) {
        return false;
    }
    KEPT.contains(&name) || name.starts_with("LC_") || (PROXIES.contains(&upper.as_str()) && !value.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::clean_env;

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
