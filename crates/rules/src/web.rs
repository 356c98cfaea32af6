//! Patterns for addresses of the web: a host is compared label by label, never letter by letter.
//!
//! `docs.rs` is that host and all below it; `https://docs.rs/tokio/*` is exactly that host, and paths of it. A `*` in a
//! host stands for one label or a part of one, so that nothing can be put behind it.

use crate::wildcard;

/// The permission whose patterns are addresses.
pub(crate) const PERMISSION: &str = "webfetch";

/// Whether a pattern takes an address, as browsers write one and without a user.
pub(crate) fn matches(pattern: &str, address: &str) -> bool {
    if wildcard::is_everything(pattern) {
        return true;
    }
    let Some((scheme, place)) = address.split_once("://") else { return wildcard::matches(pattern, address) };
    let (authority, path) = split(place);
    let (wanted_scheme, wanted_place) = match pattern.split_once("://") {
        Some((scheme, place)) => (Some(scheme), place),
        None => (None, pattern),
    };
    let (wanted_authority, wanted_path) = split(wanted_place);
    wanted_scheme.is_none_or(|wanted| wildcard::matches(wanted, scheme))
        && host_fits(wanted_authority, authority, wanted_scheme.is_none())
        && (wanted_path.is_empty() || wildcard::matches(wanted_path, path))
}

/// The host with its port, and the rest from its slash on.
fn split(place: &str) -> (&str, &str) {
    place.find('/').map_or((place, ""), |slash| place.split_at(slash))
}

fn host_fits(wanted: &str, found: &str, also_below: bool) -> bool {
    let (wanted, wanted_port) = port(wanted);
    let (found, found_port) = port(found);
    if wanted_port != found_port && !(wanted_port.is_empty() && also_below) {
        return false;
    }
    let labels = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    let (wanted, found) = (labels(wanted), labels(found));
    let (mut wanted, mut found) = (wanted.rsplit('.'), found.rsplit('.'));
    loop {
        match (wanted.next(), found.next()) {
            (Some(wanted), Some(found)) if wildcard::matches(wanted, found) => {}
            (None, None) => return true,
            (None, Some(_)) => return also_below,
            _ => return false,
        }
    }
}

fn port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, taken: &[&str], left: &[&str]) {
        for address in taken {
            assert!(matches(pattern, address), "`{pattern}` takes {address}");
        }
        for address in left {
            assert!(!matches(pattern, address), "`{pattern}` leaves {address}");
        }
    }

    #[test]
    fn t20_a_host_is_itself_and_what_is_below_it_and_nothing_that_looks_like_it() {
        check(
            "docs.python.org",
            &[
                "https://docs.python.org/3/",
                "http://docs.python.org/",
                "https://en.docs.python.org/",
                "https://docs.python.org:8443/",
            ],
            &[
                "https://docs.python.org.evil.com/",
                "https://evil.com/docs.python.org",
                "https://xdocs.python.org/",
                "https://python.org/",
                "https://docs-python.org/",
                "https://evil.com/?docs.python.org",
            ],
        );
        check("DOCS.PYTHON.ORG.", &["https://docs.python.org/"], &["https://docs.python.org.evil.com/"]);
    }

    #[test]
    fn an_address_is_that_host_and_paths_of_it() {
        check(
            "https://docs.rs/tokio/*",
            &["https://docs.rs/tokio/latest"],
            &[
                "http://docs.rs/tokio/latest",
                "https://docs.rs/serde",
                "https://a.docs.rs/tokio/x",
                "https://docs.rs:444/tokio/x",
            ],
        );
        // Letters behind the host are no host.
        check("https://docs.rs*", &["https://docs.rs/"], &["https://docs.rs.evil.com/"]);
        check("*.rs", &["https://docs.rs/", "https://a.docs.rs/"], &["https://rs/", "https://docs.rs.com/"]);
        check("http://localhost:3000", &["http://localhost:3000/x"], &["http://localhost:3001/", "http://localhost/"]);
        check("[::1]", &["http://[::1]/", "http://[::1]:80/"], &["http://[::2]/"]);
        check("*", &["https://anything.example/", "whatever"], &[]);
    }
}
