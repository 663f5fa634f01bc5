//! The certificates: when each is due, and how it is made. This module knows no clock and no API
//! server.
//!
//! A certificate is replaced when a third of its life is left. A new authority is trusted for a
//! while before it signs anything, and an old one for as long as it lives: so any replica's answer
//! is trusted by an API server that knows any of the last states.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Seconds by which certificates are valid before they are made: clocks differ.
const BACKDATED_SECS: i64 = 300;

/// The longest time, in seconds, for which a new authority is only trusted: until every API server
/// has heard of it.
const SETTLE_SECS_MAX: i64 = 300;

/// The most authorities that are trusted at once. One is replaced long before its successor is.
const AUTHORITIES_MAX: usize = 3;

/// The line that ends each certificate in a text.
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----\n";

/// The lifetimes of new certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// The lifetime of an authority, in seconds.
    pub authority_secs: i64,
    /// The lifetime of a certificate that it signs, in seconds.
    pub serving_secs: i64,
}

/// The content of the Secret, as PEM. It contains keys, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// Certificates of the authorities that are to be trusted, the newest first.
    pub authorities: String,
    /// The key of the newest.
    pub authority_key: String,
    /// The certificate that is served.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The facts that a certificate states about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The time at which it was made, in seconds since the epoch.
    pub made: i64,
    /// The time at which it expires.
    pub expires: i64,
    /// The names of servers that it is for.
    pub names: Vec<String>,
}

/// An authority that can sign.
struct Authority {
    pem: String,
    facts: Facts,
    key: KeyPair,
}

/// Returns the content that is to be kept from now on; `None` if nothing is due. Whatever cannot be
/// used is replaced.
pub fn renewed(
    kept: Option<&Material>,
    names: &[String],
    lifetimes: Lifetimes,
    now: i64,
) -> Result<Option<Material>, rcgen::Error> {
    let standing = kept
        .and_then(|kept| Some((kept, Authority::of(kept).filter(|it| !it.facts.is_expired(now))?)));
    let Some((kept, authority)) = standing else {
        let authority = Authority::make(lifetimes, now)?;
        return authority.sign(&authority.pem, names, lifetimes, now).map(Some);
    };
    if authority.facts.is_due(now) {
        let next = Authority::make(lifetimes, now)?;
        let mut authorities = vec![next.pem.clone()];
        authorities.extend(
            certificates(&kept.authorities)
                .filter(|pem| facts(pem).is_some_and(|it| !it.is_expired(now))),
        );
        authorities.truncate(AUTHORITIES_MAX);
        let authority_key = next.key.serialize_pem();
        return Ok(Some(Material {
            authorities: authorities.concat(),
            authority_key,
            ..kept.clone()
        }));
    }
    let due = match serving_facts(kept, names) {
        // No client would trust it: there is nothing to wait for.
        None => true,
        Some(facts) if facts.is_expired(now) => true,
        Some(facts) => facts.is_due(now) && (authority.has_settled(now) || facts.is_due_twice(now)),
    };
    if due { authority.sign(&kept.authorities, names, lifetimes, now).map(Some) } else { Ok(None) }
}

/// Returns the facts of the served certificate, if it fits its key, is for these names, and one of
/// the authorities signed it.
pub fn serving_facts(material: &Material, names: &[String]) -> Option<Facts> {
    fluxqueue_tls::certified(material.certificate.as_bytes(), material.key.as_bytes()).ok()?;
    let der = CertificateDer::from_pem_slice(material.certificate.as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    let is_signed = certificates(&material.authorities).any(|pem| {
        let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
        X509Certificate::from_der(&der)
            .is_ok_and(|(_, by)| parsed.verify_signature(Some(by.public_key())).is_ok())
    });
    let facts = read(&parsed);
    (is_signed && names.iter().all(|name| facts.names.contains(name))).then_some(facts)
}

/// Returns the facts of the first certificate in a text.
pub fn facts(pem: &str) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    Some(read(&X509Certificate::from_der(&der).ok()?.1))
}

fn read(certificate: &X509Certificate<'_>) -> Facts {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names =
        names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    Facts {
        made: certificate.validity().not_before.timestamp() + BACKDATED_SECS,
        expires: certificate.validity().not_after.timestamp(),
        names: names.collect(),
    }
}

/// Returns the certificates of a text, one by one.
fn certificates(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(END_OF_CERTIFICATE)
        .map(str::to_owned)
        .filter(|pem| pem.ends_with(END_OF_CERTIFICATE))
}

impl Facts {
    fn is_expired(&self, now: i64) -> bool {
        now >= self.expires
    }

    /// True if a third of its life is left.
    fn is_due(&self, now: i64) -> bool {
        self.expires - now <= (self.expires - self.made) / 3
    }

    /// True if a sixth of its life is left: then it is replaced even by an authority that has not
    /// settled.
    fn is_due_twice(&self, now: i64) -> bool {
        self.expires - now <= (self.expires - self.made) / 6
    }
}

impl Authority {
    /// Returns the newest authority that is kept, if its key is there.
    fn of(kept: &Material) -> Option<Self> {
        let pem = certificates(&kept.authorities).next()?;
        let key = KeyPair::from_pem(&kept.authority_key).ok()?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let is_its_key =
            parsed.public_key().subject_public_key.data.as_ref() == key.public_key_raw();
        let facts = read(&parsed);
        is_its_key.then_some(Authority { pem, facts, key })
    }

    fn make(lifetimes: Lifetimes, now: i64) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        // Each has a name of its own, so that a client knows which one to check against.
        params.distinguished_name.push(DnType::CommonName, format!("fluxqueue-webhook-ca@{now}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.not_before = instant(now - BACKDATED_SECS);
        params.not_after = instant(now + lifetimes.authority_secs);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let facts = Facts { made: now, expires: now + lifetimes.authority_secs, names: Vec::new() };
        Ok(Authority { pem, facts, key })
    }

    /// True if every API server has had the time to learn of it.
    fn has_settled(&self, now: i64) -> bool {
        let lifetime = self.facts.expires - self.facts.made;
        now - self.facts.made >= SETTLE_SECS_MAX.min(lifetime / 10)
    }

    /// Makes a certificate for these names, to be kept with all authorities that are trusted.
    fn sign(
        &self,
        authorities: &str,
        names: &[String],
        lifetimes: Lifetimes,
        now: i64,
    ) -> Result<Material, rcgen::Error> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "fluxqueue-webhook");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = instant(now - BACKDATED_SECS);
        params.not_after = instant((now + lifetimes.serving_secs).min(self.facts.expires));
        let issuer = Issuer::from_ca_cert_pem(&self.pem, &self.key)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(Material {
            authorities: authorities.to_owned(),
            authority_key: self.key.serialize_pem(),
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// Converts seconds since the epoch. Years that no certificate can state come from a clock that is
/// wrong.
fn instant(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material")
            .field("certificate", &facts(&self.certificate))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
