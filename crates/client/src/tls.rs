//! Making sure that the gateway that answers is the one that is meant, before it is told a token.

use crate::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn new(host: &str, ca: Option<&Path>) -> Result<Self, Error> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare)
            .map_err(|_| Error::Address(format!("`{host}` is not a name that a certificate could have")))?;
        let roots = match ca {
            Some(ca) => given(ca)?,
            None => trusted()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Address(format!("cannot speak TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config), name })
    }

    /// A certificate that does not fit is told as such: trying again does not help.
    pub(crate) async fn secure(&self, stream: TcpStream, address: &str) -> Result<TlsStream<TcpStream>, Error> {
        let connector = TlsConnector::from(self.config.clone());
        connector.connect(self.name.clone(), stream).await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                Error::Address(format!("`{address}` is not the gateway it should be: {error}"))
            }
            _ => Error::Unreachable { address: address.to_owned(), source: error },
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn given(ca: &Path) -> Result<RootCertStore, Error> {
    let unusable = |why: String| Error::Address(format!("cannot use `{}` as a `ca`: {why}", ca.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in it".into()));
    }
    Ok(roots)
}

/// Whom this machine trusts.
fn trusted() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Old stores hold a few that nobody can read any more.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::Address("this machine trusts no certificates: give a `ca`".into()));
    }
    Ok(roots)
}
