use std::fs;
use std::time::SystemTime;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::issue::{issue_ca, issue_leaf};
use crate::pair::{PemFile, ServingPair};

/// A CA for client certificates.
struct ClientCa(String, Issuer<'static, KeyPair>);

impl ClientCa {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(pem, Issuer::new(params, key))
    }

    fn client(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.1).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.der().clone(), key)
    }
}

/// A server with a file of client CAs.
struct TestServer {
    dir: TempDir,
    clients: Arc<Clients>,
    config: Arc<ServerConfig>,
    roots: RootCertStore,
}

async fn test_server(client_ca: &ClientCa, names: &[&str]) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    fs::write(&file, &client_ca.0).unwrap();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let clients = Clients::read(file, names).await.unwrap();
    let (now, day) = (SystemTime::now(), Duration::from_hours(24));
    let ca = issue_ca("test CA", now, day).unwrap();
    let leaf = issue_leaf(&ca, &["localhost".to_owned()], &[], now, day).unwrap();
    let pem = |name, bytes| PemFile { name, bytes };
    let pair = ServingPair::from_pem(
        pem("tls.crt", leaf.cert_pem.as_bytes()),
        pem("tls.key", leaf.key_pem.as_bytes()),
    );
    let config = server_config_for(CertResolver::new(pair.unwrap()), Arc::clone(&clients)).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.cert_pem().as_bytes()).unwrap())
        .unwrap();
    TestServer {
        dir,
        clients,
        config: Arc::new(config),
        roots,
    }
}

type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl TestServer {
    /// Connects; the error is that of the server.
    async fn connect(&self, identity: Option<Identity>) -> Result<(), String> {
        let (here, there) = duplex(1 << 16);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        };
        // As Go's client.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let client = async {
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, there).await?;
            stream.write_all(b"x").await?;
            stream.flush().await
        };
        let server = async {
            let mut stream = TlsAcceptor::from(Arc::clone(&self.config)).accept(here).await?;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            stream.read_u8().await
        };
        let (_, server) = tokio::join!(client, server);
        server.map(|_| ()).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_ca_connect() {
    let (ours, theirs) = (ClientCa::new(), ClientCa::new());
    let server = test_server(&ours, &[]).await;
    server.connect(Some(ours.client("apiserver"))).await.unwrap();
    for identity in [None, Some(theirs.client("apiserver"))] {
        server.connect(identity).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_name_that_is_not_allowed_is_rejected_with_both_names_in_the_error() {
    let ours = ClientCa::new();
    let server = test_server(&ours, &["apiserver", "other"]).await;
    server.connect(Some(ours.client("apiserver"))).await.unwrap();
    let error = server.connect(Some(ours.client("kubelet"))).await.unwrap_err();
    assert!(
        error.contains("kubelet") && error.contains("apiserver"),
        "{error}"
    );
}

#[tokio::test]
async fn cas_are_reloaded_and_invalid_files_are_ignored() {
    let (before, after) = (ClientCa::new(), ClientCa::new());
    let server = test_server(&before, &[]).await;
    let file = server.dir.path().join("ca.crt");
    fs::write(&file, "nothing").unwrap();
    let error = server.clients.reload().await.unwrap_err().to_string();
    assert!(
        error.contains("--client-ca-file") && error.contains("ca.crt"),
        "{error}"
    );
    server.connect(Some(before.client("a"))).await.unwrap();
    fs::write(&file, &after.0).unwrap();
    server.clients.reload().await.unwrap();
    server.connect(Some(after.client("a"))).await.unwrap();
    server.connect(Some(before.client("a"))).await.unwrap_err();
}

#[tokio::test]
async fn a_missing_or_empty_file_fails_at_startup() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    assert!(matches!(
        Clients::read(file.clone(), Vec::new()).await,
        Err(ClientCaError::Read { .. })
    ));
    fs::write(&file, "").unwrap();
    assert!(matches!(
        Clients::read(file, Vec::new()).await,
        Err(ClientCaError::Unusable { .. })
    ));
}
