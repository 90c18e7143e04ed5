//! What the Secret holds, parsed and judged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{ServerName, UnixTime};
use thiserror::Error;

use super::bundle::{self, CaCertificate};
use crate::issue::Ca;
use crate::pair::{PairError, PemFile, ServingPair, Validity};

/// The keys of the Secret. The first two are those of every Secret of type `kubernetes.io/tls`.
pub(crate) const LEAF_CERT: &str = "tls.crt";
pub(crate) const LEAF_KEY: &str = "tls.key";
/// What is to be trusted: the authority of the certificate, and those that come or go.
pub(crate) const AUTHORITIES: &str = "ca.crt";
/// The key of the authority that issues.
pub(crate) const ISSUER_KEY: &str = "ca.key";
/// The key of the authority that will issue, while it is made known.
pub(crate) const NEXT_KEY: &str = "ca-next.key";

/// The data of a Secret.
pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// A serving certificate that can be told whom it is trusted by.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) pair: Arc<ServingPair>,
    /// Who signed it.
    pub(crate) authority: CaCertificate,
}

/// An authority with its key.
pub(crate) struct Issuer {
    pub(crate) ca: Ca,
    pub(crate) authority: CaCertificate,
}

/// Why the certificate in the Secret is not to be served.
#[derive(Debug, Error)]
pub(crate) enum Flaw {
    /// It cannot be served at all.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// None of the authorities beside it signed it, or it is not for servers.
    #[error("{LEAF_CERT} was not issued by any CA in {AUTHORITIES} for a server")]
    Foreign,
}

/// What the Secret holds.
pub(crate) struct Stored {
    /// Those that are to be trusted.
    pub(crate) authorities: Vec<CaCertificate>,
    /// What is to be served; its validity and its names are not judged here.
    pub(crate) leaf: Result<Leaf, Flaw>,
    /// The authority that signed it, or would sign another, if its key is there.
    pub(crate) issuer: Option<Issuer>,
    /// The authority that will follow, if there is one.
    pub(crate) next: Option<Issuer>,
}

impl Leaf {
    pub(crate) fn is_valid(&self, now: SystemTime) -> bool {
        self.pair.validity(now) == Validity::Valid && self.authority.is_valid(now)
    }

    /// Whether both are the same certificate.
    pub(crate) fn is(&self, other: &Self) -> bool {
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
    /// Reads the data of a Secret, whatever they are.
    pub(crate) fn read(data: &Data) -> Self {
        let of = |key: &str| data.get(key).map(Vec::as_slice).unwrap_or_default();
        let authorities = bundle::read(of(AUTHORITIES));
        let leaf = read_leaf(of(LEAF_CERT), of(LEAF_KEY), &authorities);
        let signer = leaf.as_ref().ok().map(|leaf| &leaf.authority);
        // Where the certificate is damaged, any of them will do.
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

fn read_leaf(cert: &[u8], key: &[u8], authorities: &[CaCertificate]) -> Result<Leaf, Flaw> {
    let file = |name, bytes| PemFile { name, bytes };
    let pair = ServingPair::from_pem(file(LEAF_CERT, cert), file(LEAF_KEY, key))?;
    let signer = authorities.iter().find(|authority| signed(authority, &pair));
    let authority = signer.ok_or(Flaw::Foreign)?.clone();
    Ok(Leaf {
        pair: Arc::new(pair),
        authority,
    })
}

/// Whether a caller that trusts this authority trusts the certificate, as long as that is valid.
fn signed(authority: &CaCertificate, pair: &ServingPair) -> bool {
    let verify = || {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        let (leaf, issuers) = pair.chain().split_first()?;
        let name = ServerName::try_from(pair.names().first()?.as_str()).ok()?;
        // Its first second: whether it is valid now is another question.
        let begin = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(pair.not_before()).ok()?));
        verifier.verify_server_cert(leaf, issuers, &name, &[], begin).ok()
    };
    verify().is_some()
}

/// The authority with this key, if it is its own.
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
