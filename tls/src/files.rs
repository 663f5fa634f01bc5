//! A certificate in files that another program renews, such as cert-manager in a mounted Secret.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use super::{CertificateError, Serving, certified};

/// The pause between two readings of the files. A kubelet takes about a minute to bring a Secret's
/// news.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The paths of a certificate and its key, both PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The reason why files give no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// A file cannot be read.
    #[error("reading {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The files hold no certificate with its key.
    #[error("{} and {}", .files.certificate.display(), .files.key.display())]
    Content {
        /// The files.
        files: CertificateFiles,
        /// The fault in their content.
        #[source]
        source: CertificateError,
    },
}

/// Files that have been read, and are read again and again.
#[derive(Debug)]
pub struct Followed {
    files: CertificateFiles,
    serving: Arc<Serving>,
    last: Content,
}

/// The content of the files: the certificate, and the key.
#[derive(PartialEq, Eq)]
struct Content(Vec<u8>, Vec<u8>);

/// Reads the files and serves their certificate. Fails if they hold none: a path may be wrong.
pub fn open(files: CertificateFiles, serving: Arc<Serving>) -> Result<Followed, FilesError> {
    let last = files.read()?;
    files.serve(&last, &serving)?;
    Ok(Followed { files, serving, last })
}

impl Followed {
    /// Serves each new content of the files, for ever. The last certificate stays until both files
    /// fit together: another program may be in the middle of replacing them.
    pub async fn follow(mut self) {
        loop {
            tokio::time::sleep(READ_EVERY).await;
            match self.look() {
                Ok(false) => {}
                Ok(true) => {
                    let path = self.files.certificate.display();
                    tracing::info!(certificate = %path, "a new certificate is served");
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error)
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    tracing::warn!(%error, cause, "the certificate stays as it was");
                }
            }
        }
    }

    /// Reads the files once more. True if there was something new to serve. The files are few bytes
    /// in memory, so a task may wait for them.
    fn look(&mut self) -> Result<bool, FilesError> {
        let content = self.files.read()?;
        if content == self.last {
            return Ok(false);
        }
        self.files.serve(&content, &self.serving)?;
        self.last = content;
        Ok(true)
    }
}

impl CertificateFiles {
    fn read(&self) -> Result<Content, FilesError> {
        let read = |path: &Path| {
            fs::read(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })
        };
        Ok(Content(read(&self.certificate)?, read(&self.key)?))
    }

    fn serve(&self, content: &Content, serving: &Serving) -> Result<(), FilesError> {
        let failed = |source| FilesError::Content { files: self.clone(), source };
        serving.set(certified(&content.0, &content.1).map_err(failed)?);
        Ok(())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key is never printed.
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificate and key of this server, as PEM.
    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_that_fits_replaces_another_and_half_a_pair_does_not() {
        let dir = std::env::temp_dir().join(format!("fluxqueue-tls-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let files = CertificateFiles { certificate: dir.join("tls.crt"), key: dir.join("tls.key") };
        let write = |certificate: &str, key: &str| {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
        };
        let (first, second) = (made("first"), made("second"));
        write(&first.0, &first.1);
        let serving = Arc::new(Serving::default());
        let served = || serving.current().unwrap().cert[0].clone();
        let mut followed = open(files.clone(), Arc::clone(&serving)).unwrap();
        let at_first = served();
        assert!(!followed.look().unwrap());
        write(&second.0, &first.1);
        assert!(followed.look().is_err());
        write(&second.0, "");
        assert!(followed.look().is_err());
        assert_eq!(served(), at_first);
        write(&second.0, &second.1);
        assert!(followed.look().unwrap());
        assert_ne!(served(), at_first);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_fault_at_the_beginning_is_an_error() {
        let files = CertificateFiles {
            certificate: "/nowhere/tls.crt".into(),
            key: "/nowhere/tls.key".into(),
        };
        let error = open(files, Arc::default()).unwrap_err();
        assert_eq!(error.to_string(), "reading /nowhere/tls.crt");
    }
}
