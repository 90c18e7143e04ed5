//! The certificates, keys and tokens of the API server.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::KeyPair;

use crate::private_ca::PrivateCa;
use crate::random;

/// The administrator of each control plane.
pub const ADMINISTRATOR: (&str, &str) = ("admin", "system:masters");
/// The CA certificate that clients trust.
pub const CA: &str = "ca.crt";
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

/// Writes all credentials to a folder, for an API server with these names or addresses; returns the tokens of the users, each with its
/// name and its group. The first one is the administrator.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, names: &[&str], users: &[(&str, &str)]) -> Result<Vec<String>> {
    let ca = PrivateCa::new("testbed")?;
    let serving = ca.issue(names)?;
    let signing = KeyPair::generate()?;
    let tokens: Vec<String> = users.iter().map(|_| random::word()).collect();
    let lines = tokens.iter().zip(users);
    let lines = lines.map(|(token, (user, group))| format!("{token},{user},{user},{group}\n"));
    let files = [
        (CA, ca.pem().to_owned()),
        (SERVING_CERTIFICATE, serving.certificate),
        (SERVING_KEY, serving.key),
        (TOKEN_KEY, signing.serialize_pem()),
        (TOKEN_PUBLIC_KEY, signing.public_key_pem()),
        (TOKENS, lines.collect()),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(tokens)
}
