//! Clients that have to show a certificate.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;

/// An authority, and its certificate as PEM.
fn authority() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// A certificate for localhost with its key, both as PEM.
fn issued_by(authority: &Issuer<'_, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, authority)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Returns the answer to a client that shows this certificate, if any; `None` if it is not served.
async fn answer(
    address: SocketAddr,
    trusted: &str,
    shown: Option<(String, String)>,
) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match shown {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(
                    chain,
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    // In TLS 1.3 a client believes that it is connected before the server has looked at its
    // certificate.
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    Some(text)
}

#[tokio::test]
async fn clients_of_other_authorities_and_without_a_certificate_are_not_served() {
    let ((ours, trusted), (others, _)) = (authority(), authority());
    let serving = Arc::new(Serving::default());
    let (certificate, key) = issued_by(&ours);
    serving.set(certified(certificate.as_bytes(), key.as_bytes()).unwrap());
    let config = serving.configuration(Some(clients_of(trusted.as_bytes()).unwrap())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/", get(async || "served"));
    tokio::spawn(serve(listener, Some(config), Connections::with_places(4), routes));

    let known = answer(address, &trusted, Some(issued_by(&ours))).await;
    assert!(known.as_ref().is_some_and(|text| text.ends_with("served")), "{known:?}");
    assert_eq!(answer(address, &trusted, None).await, None);
    assert_eq!(answer(address, &trusted, Some(issued_by(&others))).await, None);
}

#[test]
fn a_file_without_an_authority_is_an_error() {
    assert!(matches!(clients_of(b""), Err(CertificateError::Authority(_))));
    assert!(clients_of(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
}
