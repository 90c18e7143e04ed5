//! The certificates, keys and tokens of the API server.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::KeyPair;

use crate::private_ca::PrivateCa;
use crate::random;

/// The CA certificate that clients trust.
pub(crate) const CA: &str = "ca.crt";
pub(crate) const SERVING_CERTIFICATE: &str = "apiserver.crt";
pub(crate) const SERVING_KEY: &str = "apiserver.key";
/// Signs the tokens of ServiceAccounts.
pub(crate) const TOKEN_KEY: &str = "service-accounts.key";
pub(crate) const TOKEN_PUBLIC_KEY: &str = "service-accounts.pub";
/// The bearer tokens of users.
pub(crate) const TOKENS: &str = "tokens.csv";

/// The token of the administrator of a control plane that keeps its files in `folder`.
pub(crate) fn admin_token(folder: &Path) -> Result<String> {
    let path = folder.join(TOKENS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let token = text.split(',').next().context("the file has no tokens")?;
    Ok(token.to_owned())
}

/// Writes all credentials to a folder; returns the token of the administrator.
pub(crate) fn write(folder: &Path) -> Result<String> {
    let ca = PrivateCa::new("testbed")?;
    let serving = ca.issue(&["127.0.0.1", "localhost"])?;
    let signing = KeyPair::generate()?;
    let token = random::word();
    let files = [
        (CA, ca.pem().to_owned()),
        (SERVING_CERTIFICATE, serving.certificate),
        (SERVING_KEY, serving.key),
        (TOKEN_KEY, signing.serialize_pem()),
        (TOKEN_PUBLIC_KEY, signing.public_key_pem()),
        (TOKENS, format!("{token},admin,admin,system:masters\n")),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(token)
}
