//! The TCP listener: on this machine alone, unless it speaks TLS or somebody says that a proxy in front does.

use crate::door::{Checks, Door};
use crate::throttle::Throttle;
use crate::tls::Certificate;
use crate::tokens::{self, TokenFile, Tokens};
use proto::{Code, Error};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections the kernel holds until they are accepted.
const BACKLOG: u32 = 4096;

/// Where to listen.
#[derive(Debug, Clone)]
pub struct Listen {
    pub address: IpAddr,
    /// The one this home had last without it.
    pub port: Option<u16>,
    /// Speaks TLS with it, and may then listen beyond this machine.
    pub certificate: Option<Certificate>,
    /// Somebody in front of it speaks TLS, so that it may listen beyond this machine.
    pub behind_proxy: bool,
    /// Further names this gateway is called by.
    pub hosts: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: None,
            certificate: None,
            behind_proxy: false,
            hosts: Vec::new(),
        }
    }
}

/// A bound listener with the tokens it lets in.
pub struct Tcp {
    listener: TcpListener,
    local: SocketAddr,
    token_file: TokenFile,
    certificate: Option<Certificate>,
    checks: Arc<Checks>,
}

impl Tcp {
    /// Binds, and makes sure that there is a token to come in with. The caller must hold the lock of the home's store.
    pub fn bind(state: &Path, listen: &Listen) -> Result<Self, Error> {
        if !listen.address.is_loopback() && !listen.behind_proxy && listen.certificate.is_none() {
            return Err(Error::invalid(format!(
                "`{}` is beyond this machine, where tokens would travel in the clear",
                listen.address
            ))
            .hint(
                "set `tls` in the settings, or put a proxy that speaks TLS in front of it and use `--insecure-behind-proxy`",
            ));
        }
        let token_file = tokens::ensure_admin(state)?;
        let listener = match listen.port {
            Some(port) => bind(SocketAddr::new(listen.address, port))?,
            None => kept_port(state, listen.address)?,
        };
        let local =
            listener.local_addr().map_err(|error| Error::internal(format!("a listener has no address: {error}")))?;
        let certificate = listen.certificate.clone();
        let names = certificate.iter().flat_map(|certificate| certificate.names().to_vec());
        let checks = Checks {
            tokens: Tokens::new(state),
            throttle: Throttle::default(),
            hosts: listen.hosts.iter().cloned().chain(names).collect(),
            secure: certificate.is_some(),
        };
        Ok(Self { listener, local, token_file, certificate, checks: Arc::new(checks) })
    }

    /// How it is reached from this machine.
    pub fn url(&self) -> String {
        let mut local = self.local;
        if local.ip().is_unspecified() {
            local.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{local}")
    }

    /// The file that holds the token of this home's own user.
    pub fn token_file(&self) -> &Path {
        &self.token_file.0
    }

    pub(crate) fn tokens(&self) -> Tokens {
        self.checks.tokens.clone()
    }

    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, Door)> {
        let (stream, peer) = self.listener.accept().await?;
        let local = stream.local_addr()?;
        if let Err(error) = notice_the_dead(&stream) {
            tracing::debug!(%error, "a connection is served without the kernel's watch");
        }
        Ok((stream, Door::Tcp { peer, local, checks: Arc::clone(&self.checks) }))
    }
}

/// A peer that vanished without a word is noticed within a minute or two, and what it holds is given back.
fn notice_the_dead(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    use std::time::Duration;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, 60_000)?;
    Ok(())
}

/// The port this home had last, when nobody took it since; else a new one, which is kept.
fn kept_port(state: &Path, address: IpAddr) -> Result<TcpListener, Error> {
    let file = state.join("port");
    let kept = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u16>().ok());
    if let Some(port) = kept.filter(|port| *port != 0)
        && let Ok(listener) = bind(SocketAddr::new(address, port))
    {
        return Ok(listener);
    }
    let listener = bind(SocketAddr::new(address, 0))?;
    let port = listener.local_addr().map_or(0, |local| local.port());
    tokens::save(&file, port.to_string().as_bytes())?;
    Ok(listener)
}

fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A port is ours again at once after a restart.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error| {
        Error::new(Code::Unavailable, format!("cannot listen at `{address}`: {error}"))
            .hint("choose another address with `--listen`, or use `--no-tcp`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_home_keeps_its_port_while_it_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let first = Tcp::bind(dir.path(), &Listen::default()).unwrap();
        let url = first.url();
        let second = Tcp::bind(dir.path(), &Listen::default()).unwrap();
        assert_ne!(second.url(), url, "somebody else has it");
        let url = second.url();
        drop((first, second));
        assert_eq!(Tcp::bind(dir.path(), &Listen::default()).unwrap().url(), url);
        assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with('/'), "{url}");
    }

    #[tokio::test]
    async fn t04_beyond_this_machine_it_listens_only_behind_a_proxy() {
        let dir = tempfile::tempdir().unwrap();
        for address in ["0.0.0.0", "::", "192.0.2.1"] {
            let listen = Listen { address: address.parse().unwrap(), ..Listen::default() };
            let error = Tcp::bind(dir.path(), &listen).err().unwrap();
            assert!(error.hint.unwrap().contains("--insecure-behind-proxy"), "{address}");
        }
        let listen = Listen { address: "0.0.0.0".parse().unwrap(), behind_proxy: true, ..Listen::default() };
        assert!(Tcp::bind(dir.path(), &listen).unwrap().url().starts_with("http://127.0.0.1:"));
    }
}
