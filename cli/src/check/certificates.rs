//! The serving certificate of the webhook: how long it is valid, and whether the API server trusts it.

use helmops_certs::trust;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};

use super::{
    finding::{Finding, Group},
    webhook::Hook,
};
use crate::{cluster::api_error, terminal::age};

/// The Secret with the certificate of the manifests.
const SECRET: &str = "helmops-webhook-tls";
const CERTIFICATE: &str = "tls.crt";
/// The webhook renews a certificate when a third of its life is left.
const RENEWED_AT: i64 = 3;
const FIX: &str =
    "the webhook renews it, if it manages it and runs: kubectl helmop logs webhook; see certs/README.md";

/// Checks the certificate in the Secret of the webhook's namespace against the `caBundle` of a webhook. `None` if there is no webhook
/// with a Service, whose name the certificate has to have.
pub async fn check(client: &Client, hook: Option<&Hook>, now: Timestamp) -> Option<Finding> {
    let hook = hook?;
    let service = hook.client.service.as_ref()?;
    let secrets = Api::<Secret>::namespaced(client.clone(), &service.namespace);
    let object = format!("Secret {}/{SECRET}", service.namespace);
    Some(match secrets.get_opt(SECRET).await {
        Ok(Some(secret)) => {
            let certificate = secret.data.as_ref().and_then(|data| data.get(CERTIFICATE));
            let certificate = certificate
                .map(|ByteString(bytes)| bytes.as_slice())
                .unwrap_or_default();
            let bundle = hook
                .client
                .ca_bundle
                .as_ref()
                .map(|ByteString(bytes)| bytes.as_slice());
            let name = format!("{}.{}.svc", service.name, service.namespace);
            judge(&object, certificate, bundle.unwrap_or_default(), &name, now)
        }
        Ok(None) => Finding::skipped(
            Group::Certificates,
            format!("{object} does not exist: the certificate is elsewhere"),
        ),
        Err(error) if api_error::is_forbidden(&error) => {
            Finding::skipped(Group::Certificates, format!("{object}: you may not read it"))
        }
        Err(error) => Finding::error(
            Group::Certificates,
            format!("{object}: {}", api_error::text(&error)),
            "",
        ),
    })
}

fn judge(object: &str, chain: &[u8], bundle: &[u8], name: &str, now: Timestamp) -> Finding {
    let shown = trust::shown(chain);
    let Some(leaf) = shown.first() else {
        return Finding::error(
            Group::Certificates,
            format!("{object} has no certificate in {CERTIFICATE}"),
            FIX,
        );
    };
    let seconds = now.as_second();
    if seconds >= leaf.not_after {
        let since = age::seconds(seconds - leaf.not_after);
        return Finding::error(
            Group::Certificates,
            format!("the certificate in {object} has expired {since} ago"),
            FIX,
        );
    }
    if let Err(error) = trust::check(bundle, chain, name, seconds) {
        let text = format!("no CA in caBundle makes the certificate in {object} valid for {name}: {error}");
        return Finding::error(Group::Certificates, text, FIX);
    }
    let left = leaf.not_after - seconds;
    let text = format!(
        "the certificate in {object} is trusted, and valid for another {}",
        age::seconds(left)
    );
    if left < (leaf.not_after - leaf.not_before) / (2 * RENEWED_AT) {
        Finding::warning(
            Group::Certificates,
            format!("{text}: its renewal is overdue"),
            FIX,
        )
    } else {
        Finding::ok(Group::Certificates, text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use helmops_certs::{issue_ca, issue_leaf};

    use super::*;
    use crate::check::finding::Level;

    #[test]
    fn a_certificate_must_be_trusted_and_last() {
        let begin = SystemTime::now();
        let now = Timestamp::now().as_second();
        let day = Duration::from_hours(24);
        let [ca, other] = ["a", "b"].map(|name| issue_ca(name, begin, 100 * day).unwrap());
        let name = "helmops-webhook.helmops-system.svc";
        let leaf = issue_leaf(&ca, &[name.to_owned()], &[], begin, 10 * day).unwrap();
        for (chain, bundle, later, level, text) in [
            (
                &*leaf.cert_pem,
                ca.cert_pem(),
                60,
                Level::Ok,
                "is trusted, and valid for another 9d",
            ),
            (
                &leaf.cert_pem,
                other.cert_pem(),
                60,
                Level::Error,
                "no CA in caBundle",
            ),
            (&leaf.cert_pem, "", 60, Level::Error, "no CA in caBundle"),
            (
                &leaf.cert_pem,
                ca.cert_pem(),
                9 * 86_400,
                Level::Warning,
                "overdue",
            ),
            (
                &leaf.cert_pem,
                ca.cert_pem(),
                11 * 86_400,
                Level::Error,
                "has expired 24h ago",
            ),
            ("", ca.cert_pem(), 60, Level::Error, "no certificate"),
        ] {
            let at = Timestamp::from_second(now + later).unwrap();
            let finding = judge("Secret a/b", chain.as_bytes(), bundle.as_bytes(), name, at);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }
}
