//! The address at which the server listens.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// `IP:PORT`, or `:PORT` for all addresses of the machine, whichever of IPv4 and IPv6 it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    ip: Option<IpAddr>,
    port: u16,
}

/// The reason why the server could not start.
#[derive(Debug, thiserror::Error)]
#[error("listening on {address}")]
pub struct ListenError {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

/// Opens the port, and returns the one that the system chose for port 0. It is separate from
/// [`super::serve`], so that a taken port ends the process before it does anything else.
pub async fn listen(address: ListenAddress) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = match address.ip {
        Some(ip) => TcpListener::bind((ip, address.port)).await,
        // This takes IPv4 along, unless the machine has no IPv6, or keeps the two apart by
        // configuration.
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, address.port)).await {
            Ok(listener) => Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(error),
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port)).await,
        },
    };
    let listener = listener.map_err(failed)?;
    let actual = listener.local_addr().map_err(failed)?;
    Ok((listener, actual))
}

// === impl ListenAddress ===

impl ListenAddress {
    /// True if only this machine, or the containers of one pod, can reach it.
    pub fn is_loopback(self) -> bool {
        self.ip.is_some_and(|ip| ip.is_loopback())
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
            return Ok(ListenAddress { ip: None, port });
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "expected for example :10259, 127.0.0.1:10259 or [::1]:10259".to_owned()
        })?;
        Ok(ListenAddress { ip: Some(address.ip()), port: address.port() })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read_and_written_alike() {
        for (text, is_loopback) in [
            (":10259", false),
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_loopback()), (text, is_loopback));
        }
        for bad in ["", ":", ":x", "10259", "::1", "localhost:1", ":70000"] {
            assert!(bad.parse::<ListenAddress>().is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn all_addresses_are_those_of_the_families_that_there_are() {
        let (_listener, address) = listen(":0".parse().unwrap()).await.unwrap();
        // IPv4 works in any case, also on a socket for both.
        assert!(
            tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).await.is_ok()
        );
        if address.is_ipv6() {
            assert!(
                tokio::net::TcpStream::connect((Ipv6Addr::LOCALHOST, address.port())).await.is_ok()
            );
        }
        let taken = format!(":{}", address.port()).parse().unwrap();
        assert!(listen(taken).await.is_err());
    }
}
