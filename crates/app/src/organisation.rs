//! The settings of an organisation: fetched now and then, kept below the home, and never worth waiting long for.

use config::{Environment, Paths};
use std::path::Path;
use std::time::Duration;

/// How old what was fetched may get before it is asked for again.
const FRESH: Duration = Duration::from_secs(600);

/// How long after a failure nobody tries again.
const PAUSE: Duration = Duration::from_secs(60);

/// How long a command waits for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// As for every settings file.
const LARGEST: usize = 1 << 20;

/// Fetches the organisation's settings when it is time. What went wrong is a warning: what was fetched last counts on.
pub(crate) fn refresh(paths: &Paths, env: &Environment) -> Option<String> {
    // Settings that cannot be read are told where they are read.
    let address = config::organisation(paths, env).ok()??;
    let kept = paths.organisation(&address);
    let failed = kept.with_extension("failed");
    if younger(&kept, FRESH) || younger(&failed, PAUSE) {
        return None;
    }
    let told = |why: String| {
        let rest = if kept.exists() { "what was fetched last counts" } else { "its settings do not count" };
        let _ = std::fs::write(&failed, "");
        format!("the settings of the organisation cannot be fetched from {address}: {why}; {rest}")
    };
    if let Err(error) = paths.ensure() {
        return Some(told(error.message));
    }
    let text = match fetch(&address) {
        Ok(text) => text,
        Err(why) => return Some(told(why)),
    };
    config::keep_organisation(paths, &address, &text).err().map(|error| told(error.message))
}

fn younger(file: &Path, age: Duration) -> bool {
    let changed = file.metadata().and_then(|meta| meta.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|since| since < age))
}

fn fetch(address: &str) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        // Not elsewhere: whoever answers for the organisation is who was named.
        let client = reqwest::Client::builder().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none()).build();
        let asked = client.map_err(plain)?.get(address).send().await.map_err(plain)?;
        if !asked.status().is_success() {
            return Err(format!("it answered {}", asked.status()));
        }
        let mut response = asked;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST {
                return Err("it is larger than 1 MiB".into());
            }
        }
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
    })
}

/// The reason at the bottom, without the address again.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn plain(error: reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_timeout() { "it takes too long".into() } else { cause.to_string() }
}
