//! `webfetch`: a page of the web.

mod fetch;
mod guard;
mod page;
mod shape;
#[cfg(test)]
mod tests;

use crate::files;
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use fetch::{Page, System, Ways};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub struct WebFetch;

const USUAL: u64 = 30;
const LONGEST: u64 = 120;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The address: `http` or `https`.
    #[serde(alias = "uri", alias = "address", deserialize_with = "tolerant::address")]
    #[schemars(with = "String")]
    url: String,
    /// How the page is shown; `markdown` without it.
    #[serde(default)]
    format: Format,
    /// Seconds it may take: 30 without it, 120 at most.
    #[serde(default)]
    timeout: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Markdown,
    Text,
    Html,
}

/// What a reader of the result can rely on.
#[derive(Debug, Serialize)]
struct Facts {
    url: String,
    status: u16,
    kind: String,
    bytes: usize,
    cut: bool,
}

#[async_trait]
impl Tool for WebFetch {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("webfetch", include_str!("prompt.md")).again().aliases(&["WebFetch"])
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        accesses(&args.url)
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let url = fetch::address(&args.url).map_err(Error::tell)?;
        let limit = Duration::from_secs(args.timeout.unwrap_or(USUAL).clamp(1, LONGEST));
        let may = |url: &url::Url| files::permitted(&accesses(url.as_str()), cx);
        let is_named = |address| cx.leave.has("private_network", &guard::host(address));
        let ways = Ways { names: &System, is_public: guard::is_public, may: &may, is_named: &is_named };
        let page = tokio::select! {
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
            page = tokio::time::timeout(limit, fetch::get(url, &ways)) => page,
        };
        let page = page.map_err(|_| Error::tell(format!("it took longer than {} s", limit.as_secs())))??;
        shown(page, args.format, cx).await
    }
}

/// The address, and the host by itself when it says that it is not out in the open.
pub fn accesses(address: &str) -> Vec<Access> {
    let Ok(url) = fetch::address(address) else { return vec![Access::new("webfetch", address.trim())] };
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut accesses = vec![Access::new("webfetch", url.as_str()).always(&host)];
    if url.host().is_some_and(|host| guard::is_private(&host)) {
        accesses.push(Access::new("private_network", &host).always(&host));
    }
    accesses
}

async fn shown(page: Page, format: Format, cx: &ToolCx) -> Result<Output, Error> {
    let Page { url, status, kind, body, cut } = page;
    let facts = Facts { url: url.to_string(), status, kind: kind.clone(), bytes: body.len(), cut };
    let base = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let readable = base.is_empty()
        || base.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml"].iter().any(|word| base.contains(word));
    if !readable || body.contains(&0) {
        let why =
            format!("`{url}` is no text but `{base}`, {} bytes: download it with `bash` if you need it", body.len());
        return Err(Error::tell(why));
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    let is_page = base.contains("html") || (base.is_empty() && text.trim_start().starts_with('<'));
    let text = match format {
        Format::Markdown if is_page => files::blocking("webfetch", cx, move |_| Ok(page::markdown(&text))).await?,
        Format::Text if is_page => files::blocking("webfetch", cx, move |_| Ok(page::text(&text))).await?,
        _ => text,
    };
    let mut head = format!("{url} ({status})\n\n");
    if cut {
        head = format!("{url} ({status}; only the first {} MiB)\n\n", fetch::MOST >> 20);
    }
    let out = Output::text(output::cut(format!("{head}{text}"), cx).await).with(&facts);
    Ok(if status >= 400 { out.failed() } else { out })
}
