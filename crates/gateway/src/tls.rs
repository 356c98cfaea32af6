//! The certificate a gateway shows over TCP, and the handshake that shows it.

use proto::{Code, Error};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a peer may take to agree on a key, as for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A certificate with its key, read and found to belong together.
#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    names: Vec<String>,
}

impl Certificate {
    /// From PEM files: `cert` with those between it and its root behind it, and its `key`.
    pub fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(cert, "tls.cert", &error.to_string()))?;
        let Some(first) = chain.first() else {
            return Err(unusable(cert, "tls.cert", "there is no certificate in it"));
        };
        let names = names(first).map_err(|why| unusable(cert, "tls.cert", &why))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, "tls.key", &error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| unusable(key, "tls.key", &error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), names })
    }

    /// What the certificate says this gateway is called.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Agrees with a peer on how to speak, in time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let shaking = TlsAcceptor::from(self.config.clone()).accept(stream);
        tokio::time::timeout(HANDSHAKE, shaking).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}

fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let read = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    // A wildcard says which names may be given, not which one is ours.
    Ok(read.valid_dns_names().filter(|name| !name.contains('*')).map(str::to_owned).collect())
}

fn unusable(path: &Path, setting: &str, why: &str) -> Error {
    Error::new(Code::InvalidInput, format!("cannot use `{}` ({setting}): {why}", path.display()))
        .hint("name a PEM file with the certificate and one with its key, or leave `tls` out of the settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_certificate_names_its_gateway_and_what_does_not_fit_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["gate.example", "*.example", "127.0.0.1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let other = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let cert = write(dir.path(), "cert.pem", &made.cert.pem());
        let key = write(dir.path(), "key.pem", &made.signing_key.serialize_pem());
        assert_eq!(Certificate::read(&cert, &key).unwrap().names(), ["gate.example"]);
        let foreign = write(dir.path(), "other.pem", &other.signing_key.serialize_pem());
        let empty = write(dir.path(), "empty.pem", "");
        let missing = dir.path().join("missing.pem");
        let damaged = write(dir.path(), "bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        for (cert, key, setting) in [
            (&cert, &foreign, "tls.key"),
            (&cert, &empty, "tls.key"),
            (&cert, &missing, "tls.key"),
            (&key, &key, "tls.cert"),
            (&empty, &key, "tls.cert"),
            (&damaged, &key, "tls.cert"),
            (&missing, &key, "tls.cert"),
        ] {
            let error = Certificate::read(cert, key).unwrap_err();
            assert!(error.message.contains(setting) && error.hint.is_some(), "{error}");
        }
    }
}
