//! Which addresses are out in the open, and which are this machine, its network, or nobody's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Host;

/// Whether anybody may be asked there.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let hidden = matches!(
        (a, b, c),
        (0 | 10 | 127 | 240..=255, ..)            // this network, private, loopback, reserved and broadcast
            | (100, 64..=127, _)                  // shared by a provider's customers
            | (169, 254, _)                       // link-local, where clouds tell secrets
            | (168, 63, 129)                      // a cloud's own, in the open by its number
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)                     // protocols, documentation
            | (192, 88, 99)                       // old relays
            | (192, 168, _)
            | (198, 18..=19, _)                   // benchmarks
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=239, ..) // many at once
    );
    !hidden
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let inside = rules::carried(address).map(is_public_v4);
    let [first, second, ..] = address.segments();
    // Only this range is given out; documentation, tunnels and the rest of its odd corners are not.
    let given_out = (first & 0xe000) == 0x2000
        && !(first == 0x2001 && second < 0x0200)
        && !(first == 0x2001 && second == 0x0db8)
        && first != 0x3fff;
    match inside {
        Some(inside) => inside && (given_out || matches!(first, 0 | 0x64)),
        None => given_out,
    }
}

/// The host that an address is, as rules name it.
pub(super) fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Whether a host says by itself that it is not out in the open; a person is asked for it by that name.
pub(super) fn is_private(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => !is_public_v4(*address),
        Host::Ipv6(address) => !is_public_v6(*address),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            let last = name.rsplit('.').next().unwrap_or(name);
            // A name without a dot is found by the machine's own search list.
            name == last || matches!(last, "localhost" | "local" | "internal" | "lan" | "home" | "corp" | "intranet")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use url::Url;

    #[test]
    fn t17_every_spelling_of_a_private_address_is_known() {
        for url in [
            "http://127.0.0.1",
            "http://127.1",
            "http://2130706433",
            "http://0x7f000001",
            "http://0177.0.0.1",
            "http://[::1]",
            "http://[::ffff:127.0.0.1]",
            "http://169.254.169.254",
            "http://100.64.0.1",
            "http://[fd00::1]",
            "http://[fe80::1]",
            "http://[64:ff9b::7f00:1]",
            "http://[2002:7f00:1::]",
            "http://0/",
            "http://[::]",
            "http://10.0.0.1",
            "http://172.31.255.255",
            "http://192.168.1.1",
            "http://255.255.255.255",
            "http://224.0.0.1",
            "http://localhost",
            "http://LOCALHOST.",
            "http://a.localhost",
            "http://printer",
            "http://vault.internal",
            "http://１２７.0.0.1",
            "http://[2001:db8::1]",
            "http://[::7f00:1]",
            "http://[2001:0:1:2:3:4:8000:fffe]",
            "http://[2001:0:1:2:3:4:fefe:fefe]",
            "http://[2606:4700::5efe:a00:1]",
        ] {
            let parsed = Url::parse(url).unwrap();
            assert!(is_private(&parsed.host().unwrap()), "{url}");
        }
        for url in [
            "http://1.1.1.1",
            "https://example.org",
            "http://[2606:4700::1111]",
            "http://172.32.0.1",
            "http://a.local.org",
        ] {
            let parsed = Url::parse(url).unwrap();
            assert!(!is_private(&parsed.host().unwrap()), "{url}");
        }
    }
}
