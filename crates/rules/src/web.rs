//! Patterns for addresses of the web: a host is compared label by label, never letter by letter.
//!
//! `docs.rs` is that host and all below it; `https://docs.rs/tokio/*` is exactly that host, and paths of it. A `*` in a
//! host stands for one label or a part of one, so that nothing can be put behind it.

use crate::wildcard;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The permission whose patterns are addresses.
pub(crate) const PERMISSION: &str = "webfetch";

/// The permission whose patterns are hosts inside this machine or its network.
pub(crate) const PRIVATE: &str = "private_network";

/// Whether a rule with this pattern covers a host: a wildcard covers none that has to be named.
pub(crate) fn covers_host(pattern: &str, host: &str) -> bool {
    !must_be_named(host) || !pattern.contains(['*', '?'])
}

/// Whether a host is one where machines are told their secrets: link-local addresses, and what clouds serve their
/// metadata at. Only a rule that names it allows it.
pub fn must_be_named(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(&host);
    // An address with a zone is one of a link.
    let address = address.split('%').next().unwrap_or(address);
    match address.parse() {
        Ok(address) => tells_secrets(address),
        Err(_) => host.split('.').any(|label| METADATA_LABELS.contains(&label)),
    }
}

/// Labels in the names that clouds give their metadata servers.
const METADATA_LABELS: [&str; 3] = ["metadata", "instance-data", "rancher-metadata"];

/// The same of an address.
pub fn tells_secrets(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => tells_secrets_v4(address),
        IpAddr::V6(address) => match carried(address) {
            Some(inside) => tells_secrets_v4(inside),
            None => {
                let [first, second, ..] = address.segments();
                // Link-local; Amazon's and Google's own places among the private ones.
                (first & 0xffc0) == 0xfe80 || matches!((first, second), (0xfd00, 0x0ec2) | (0xfd20, 0x00ce))
            }
        },
    }
}

fn tells_secrets_v4(address: Ipv4Addr) -> bool {
    // Link-local; Alibaba's, Oracle's and Azure's, which lie elsewhere.
    matches!(address.octets(), [169, 254, ..] | [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16])
}

/// The IPv4 address that an IPv6 address carries: mapped, translated, or of a tunnel.
pub fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(from(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(from(high, low)),
        [0x64, 0xff9b, _, _, _, _, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        // Teredo, which writes it inverted.
        [0x2001, 0, _, _, _, _, high, low] => Some(from(!high, !low)),
        // ISATAP, on whatever network.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(from(high, low)),
        _ => None,
    }
}

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
    fn hosts_that_tell_secrets_must_be_named_in_every_spelling() {
        for host in [
            "169.254.169.254",
            "169.254.0.1",
            "169.254.169.254.",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "[fe80::1]",
            "[febf::1]",
            "fe80::1%eth0",
            "[fd00:ec2::254]",
            "[fd20:ce::254]",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[::a9fe:a9fe]",
            "[64:ff9b::a9fe:a9fe]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[2002:a9fe:a9fe::]",
            "[2002:6464:64c8::1]",
            "[2001:0:1:2:3:4:5601:5601]",
            "[fd00::5efe:a9fe:a9fe]",
            "metadata.google.internal",
            "METADATA.google.internal.",
            "metadata",
            "instance-data",
            "instance-data.ec2.internal",
            "metadata.tencentyun.com",
        ] {
            assert!(must_be_named(host), "{host}");
        }
        for host in
            ["127.0.0.1", "10.0.0.1", "192.168.1.1", "localhost", "printer", "[::1]", "[fd00::1]", "[64:ff9b::7f00:1]"]
        {
            assert!(!must_be_named(host), "{host}");
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
