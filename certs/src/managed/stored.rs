//! The content of the Secret, parsed and checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

use super::bundle::{self, CaCertificate};
use crate::issue::Ca;
use crate::pair::{PairError, PemFile, ServingPair, Validity};
use crate::trust;

/// The keys of the Secret. The first two are those of every Secret with a certificate.
pub(crate) const LEAF_CERT: &str = "tls.crt";
pub(crate) const LEAF_KEY: &str = "tls.key";
/// The CAs to trust: that of the certificate, and those before and after it during a rotation.
pub(crate) const AUTHORITIES: &str = "ca.crt";
/// The key of the CA that issues.
pub(crate) const ISSUER_KEY: &str = "ca.key";
/// The key of the next CA, while its certificate is distributed.
pub(crate) const NEXT_KEY: &str = "ca-next.key";

pub(crate) type SecretData = BTreeMap<String, Vec<u8>>;

/// A serving certificate with the CA that signed it.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) pair: Arc<ServingPair>,
    /// The CA that signed it.
    pub(crate) authority: CaCertificate,
}

/// A CA with its key.
pub(crate) struct Issuer {
    pub(crate) ca: Ca,
    pub(crate) authority: CaCertificate,
}

/// Why the certificate in the Secret cannot be served.
#[derive(Debug, Error)]
pub(crate) enum InvalidLeaf {
    /// The certificate or its key is unusable.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// None of the CAs in the Secret signed it, or it is not for servers.
    #[error("{LEAF_CERT} was not issued by any CA in {AUTHORITIES} for a server")]
    UnknownIssuer,
}

/// The content of the Secret.
pub(crate) struct Stored {
    /// The CAs to trust.
    pub(crate) authorities: Vec<CaCertificate>,
    /// The serving certificate; its validity and its names are not checked here.
    pub(crate) leaf: Result<Leaf, InvalidLeaf>,
    /// The CA that signed it, or can sign the next one, if its key is present.
    pub(crate) issuer: Option<Issuer>,
    /// The next CA, if there is one.
    pub(crate) next: Option<Issuer>,
}

impl Leaf {
    pub(crate) fn is_valid(&self, now: SystemTime) -> bool {
        self.pair.validity(now) == Validity::Valid && self.authority.is_valid(now)
    }

    /// Whether both are the same certificate.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.pair.chain() == other.pair.chain()
    }

    pub(crate) fn is_for(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.pair.names().contains(name))
    }
}

/// Never a key.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("authorities", &self.authorities)
            .field("leaf", &self.leaf.as_ref().map(|leaf| &leaf.pair))
            .field("issues", &self.issuer.is_some())
            .field("next", &self.next.as_ref().map(|next| &next.authority))
            .finish()
    }
}

impl Stored {
    /// Reads the data of a Secret. Never fails: damaged parts are errors or missing in the result.
    pub(crate) fn read(data: &SecretData) -> Self {
        let of = |key: &str| data.get(key).map(Vec::as_slice).unwrap_or_default();
        let authorities = bundle::read(of(AUTHORITIES));
        let leaf = read_leaf(of(LEAF_CERT), of(LEAF_KEY), &authorities);
        let signer = leaf.as_ref().ok().map(|leaf| &leaf.authority);
        // If the certificate is damaged, any of them can issue.
        let mut candidates = authorities
            .iter()
            .filter(|one| signer.is_none_or(|signer| *one == signer));
        let issuer = candidates.find_map(|one| with_key(ISSUER_KEY, of(ISSUER_KEY), one));
        let current = signer.or(issuer.as_ref().map(|issuer| &issuer.authority));
        let mut others = authorities.iter().filter(|one| Some(*one) != current);
        let next = others.find_map(|one| with_key(NEXT_KEY, of(NEXT_KEY), one));
        Self {
            authorities,
            leaf,
            issuer,
            next,
        }
    }
}

fn read_leaf(cert: &[u8], key: &[u8], authorities: &[CaCertificate]) -> Result<Leaf, InvalidLeaf> {
    let file = |name, bytes| PemFile { name, bytes };
    let pair = ServingPair::from_pem(file(LEAF_CERT, cert), file(LEAF_KEY, key))?;
    let signer = authorities.iter().find(|authority| signed(authority, &pair));
    let authority = signer.ok_or(InvalidLeaf::UnknownIssuer)?.clone();
    Ok(Leaf {
        pair: Arc::new(pair),
        authority,
    })
}

/// Whether a client that trusts this CA trusts the certificate during its validity.
fn signed(authority: &CaCertificate, pair: &ServingPair) -> bool {
    let Some(name) = pair.names().first() else {
        return false;
    };
    // Its first second: whether it is valid now is checked elsewhere.
    trust::verify([authority.der().clone()], pair.chain(), name, pair.not_before()).is_ok()
}

/// The CA with this key, if the key matches.
fn with_key(name: &str, key: &[u8], authority: &CaCertificate) -> Option<Issuer> {
    let pem = authority.pem();
    let cert = PemFile {
        name: AUTHORITIES,
        bytes: pem.as_bytes(),
    };
    let ca = Ca::from_pem(cert, PemFile { name, bytes: key }).ok()?;
    Some(Issuer {
        ca,
        authority: authority.clone(),
    })
}
