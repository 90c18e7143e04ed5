//! Computes the changes of the Secret for a step.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::bundle::{self, CaCertificate};
use super::lifetimes::until;
use super::plan::{Desired, Step};
use super::stored::{AUTHORITIES, ISSUER_KEY, Issuer, LEAF_CERT, LEAF_KEY, NEXT_KEY, Stored};
use crate::issue::{BACKDATED, CA_COMMON_NAME, Ca, IssueError, Leaf, issue_ca, issue_leaf};

/// Most CAs beside the newest: enough for two losses of the Secret during a rotation.
const MAX_RETAINED: usize = 4;

/// Keys of a Secret with their new values; `None` removes the key.
pub(crate) type Changes = BTreeMap<&'static str, Option<Vec<u8>>>;

/// The changes of the Secret for a step.
///
/// # Errors
/// If a name is invalid.
pub(crate) fn changes_for(
    step: &Step,
    stored: Option<&Stored>,
    desired: &Desired,
    now: SystemTime,
) -> Result<Changes, IssueError> {
    let mut changes = Changes::new();
    let authorities = || valid(stored, now);
    let issuer = stored.and_then(|stored| stored.issuer.as_ref());
    let next = stored.and_then(|stored| stored.next.as_ref());
    match (step, issuer, next) {
        (Step::Renew { names }, Some(issuer), _) => {
            renew(&mut changes, &issuer.ca, &issuer.authority, names, desired, now)?;
            set_authorities(&mut changes, &authorities());
        }
        (Step::Prepare, ..) => prepare(&mut changes, stored, &authorities(), desired, now)?,
        (Step::Switch, _, Some(Issuer { ca, authority })) => {
            renew(&mut changes, ca, authority, &[], desired, now)?;
            set_key(&mut changes, ca);
            set_authorities(&mut changes, &first(authority, &authorities()));
        }
        (Step::Retire, ..) => {
            let leaf = stored.and_then(|stored| stored.leaf.as_ref().ok());
            let retained: Vec<_> = leaf.iter().map(|leaf| leaf.authority.clone()).collect();
            set_authorities(&mut changes, &retained);
            changes.insert(NEXT_KEY, None);
        }
        (Step::IssueAll { retained }, ..) => issue_all(&mut changes, retained, desired, now)?,
        // The plan was for another state; the next plan is for the current one.
        (Step::Renew { .. }, None, _) | (Step::Switch, _, None) => {}
    }
    Ok(changes)
}

/// The valid CAs in the Secret.
fn valid(stored: Option<&Stored>, now: SystemTime) -> Vec<CaCertificate> {
    let authorities = stored.iter().flat_map(|stored| &stored.authorities);
    authorities
        .filter(|authority| authority.is_valid(now))
        .cloned()
        .collect()
}

fn issue_all(
    changes: &mut Changes,
    retained: &[CaCertificate],
    desired: &Desired,
    now: SystemTime,
) -> Result<(), IssueError> {
    let (ca, authority) = new_authority(desired, now)?;
    renew(changes, &ca, &authority, &[], desired, now)?;
    set_key(changes, &ca);
    set_authorities(changes, &first(&authority, &newest(retained)));
    Ok(())
}

fn prepare(
    changes: &mut Changes,
    stored: Option<&Stored>,
    authorities: &[CaCertificate],
    desired: &Desired,
    now: SystemTime,
) -> Result<(), IssueError> {
    let (ca, authority) = new_authority(desired, now)?;
    // The CA of the certificate must not be left out.
    let current = stored.and_then(|stored| stored.leaf.as_ref().ok());
    let current = current.map(|leaf| &leaf.authority);
    let others: Vec<_> = authorities
        .iter()
        .filter(|one| Some(*one) != current)
        .cloned()
        .collect();
    let all: Vec<_> = current
        .into_iter()
        .cloned()
        .chain([authority])
        .chain(newest(&others))
        .collect();
    changes.insert(NEXT_KEY, Some(ca.key_pem().into_bytes()));
    set_authorities(changes, &all);
    Ok(())
}

fn renew(
    changes: &mut Changes,
    ca: &Ca,
    authority: &CaCertificate,
    names: &[String],
    desired: &Desired,
    now: SystemTime,
) -> Result<(), IssueError> {
    // It expires with its CA at the latest.
    let lifetime = desired.lifetimes.leaf().min(until(now, authority.not_after()));
    let Leaf { cert_pem, key_pem } = leaf(ca, desired.names.iter().chain(names), now, lifetime)?;
    changes.insert(LEAF_CERT, Some(cert_pem.into_bytes()));
    changes.insert(LEAF_KEY, Some(key_pem.into_bytes()));
    Ok(())
}

fn leaf(
    ca: &Ca,
    names: impl Iterator<Item = impl AsRef<str>>,
    now: SystemTime,
    lifetime: Duration,
) -> Result<Leaf, IssueError> {
    let (mut dns_names, mut addresses) = (Vec::new(), Vec::new());
    for name in names {
        let name = name.as_ref();
        match name.parse::<IpAddr>() {
            Ok(address) => addresses.push(address),
            Err(_) => dns_names.push(name.to_owned()),
        }
    }
    let (dns_names, addresses) = (bundle::distinct(dns_names), bundle::distinct(addresses));
    issue_leaf(ca, &dns_names, &addresses, now - BACKDATED, lifetime + BACKDATED)
}

fn new_authority(desired: &Desired, now: SystemTime) -> Result<(Ca, CaCertificate), IssueError> {
    let lifetime = desired.lifetimes.authority() + BACKDATED;
    let ca = issue_ca(CA_COMMON_NAME, now - BACKDATED, lifetime)?;
    let authority = CaCertificate::of(&ca).ok_or_else(|| IssueError::NotACa {
        file: AUTHORITIES.to_owned(),
    })?;
    Ok((ca, authority))
}

/// Sets the key of the CA that issues from now on, and removes that of the next CA.
fn set_key(changes: &mut Changes, ca: &Ca) {
    changes.insert(ISSUER_KEY, Some(ca.key_pem().into_bytes()));
    changes.insert(NEXT_KEY, None);
}

fn set_authorities(changes: &mut Changes, authorities: &[CaCertificate]) {
    changes.insert(AUTHORITIES, Some(bundle::pem(authorities).into_bytes()));
}

fn first(authority: &CaCertificate, others: &[CaCertificate]) -> Vec<CaCertificate> {
    bundle::distinct([authority].into_iter().chain(others).cloned())
}

fn newest(authorities: &[CaCertificate]) -> Vec<CaCertificate> {
    let mut newest = authorities.to_vec();
    newest.sort_by_key(|authority| std::cmp::Reverse(authority.not_before()));
    newest.truncate(MAX_RETAINED);
    newest
}
