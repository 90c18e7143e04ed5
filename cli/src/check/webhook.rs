//! The webhook: its configurations, which CAs the API server trusts, where it sends requests, and whether it gets a response.

use helmops_api::HelmOp;
use helmops_certs::trust;
use helmops_core::admit::ValidHelmOp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Service,
        discovery::v1::EndpointSlice,
    },
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};

use super::finding::{Finding, Group};
use crate::{
    cluster::{api_error, apply::FIELD_MANAGER},
    failure::causes,
};

/// The name of both configurations.
const CONFIGURATION: &str = "helmops";
/// The page about the certificate.
const CERTIFICATES: &str = "certs/README.md";
/// A HelmOp of this name is never stored: it is invalid, and only part of a dry run.
const NEVER_STORED: &str = "helmops-check";
const LOGS: &str = "kubectl helmop logs webhook shows what it does";

/// A webhook of a configuration, as far as it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// Kind of its configuration.
    pub kind: &'static str,
    /// Where the API server sends its requests.
    pub client: WebhookClientConfig,
    /// What happens if it does not respond: `Fail` or `Ignore`.
    pub failure_policy: String,
    /// Whether it is called for some namespaces only.
    pub is_limited: bool,
}

/// What was found of the configurations.
pub struct Configurations {
    pub hooks: Vec<Hook>,
    /// What is wrong with their objects.
    pub findings: Vec<Finding>,
}

pub async fn read(client: &Client) -> Configurations {
    let mut all = Configurations {
        hooks: Vec::new(),
        findings: Vec::new(),
    };
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone());
    let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let (mutating, validating) =
        tokio::join!(mutating.get_opt(CONFIGURATION), validating.get_opt(CONFIGURATION));
    let mutating = mutating.map(|found| {
        let hooks = found?.webhooks?.into_iter().next()?;
        Some(Hook {
            kind: "MutatingWebhookConfiguration",
            client: hooks.client_config,
            failure_policy: hooks.failure_policy.unwrap_or_default(),
            is_limited: hooks
                .namespace_selector
                .is_some_and(|selector| selector != LabelSelector::default()),
        })
    });
    let validating = validating.map(|found| {
        let hooks = found?.webhooks?.into_iter().next()?;
        Some(Hook {
            kind: "ValidatingWebhookConfiguration",
            client: hooks.client_config,
            failure_policy: hooks.failure_policy.unwrap_or_default(),
            is_limited: hooks
                .namespace_selector
                .is_some_and(|selector| selector != LabelSelector::default()),
        })
    });
    all.add("MutatingWebhookConfiguration", mutating);
    all.add("ValidatingWebhookConfiguration", validating);
    all
}

impl Configurations {
    fn add(&mut self, kind: &str, found: Result<Option<Hook>, kube::Error>) {
        let object = format!("{kind} {CONFIGURATION}");
        match found {
            Ok(Some(hook)) => self.hooks.push(hook),
            Ok(None) => self.findings.push(Finding::error(
                Group::Webhook,
                format!("{object} does not exist, or has no webhook"),
                "install it again: kubectl apply --server-side -k manifests",
            )),
            Err(error) if api_error::is_forbidden(&error) => {
                self.findings.push(Finding::skipped(
                    Group::Webhook,
                    format!("{object}: you may not read it"),
                ));
            }
            Err(error) => {
                let text = format!("{object}: {}", api_error::text(&error));
                self.findings.push(Finding::error(Group::Webhook, text, ""));
            }
        }
    }
}

/// Checks the configurations: `caBundle`, and where requests are sent. `now` is in seconds since 1970.
pub async fn check(client: &Client, configurations: &Configurations, now: i64) -> Vec<Finding> {
    let mut findings = configurations.findings.clone();
    findings.extend(configurations.hooks.iter().map(|hook| authorities(hook, now)));
    // Both have the same Service.
    if let Some(hook) = configurations.hooks.last() {
        findings.extend(endpoints(client, hook).await);
    }
    findings
}

fn authorities(hook: &Hook, now: i64) -> Finding {
    let object = format!("{} {CONFIGURATION}", hook.kind);
    let bundle = hook
        .client
        .ca_bundle
        .as_ref()
        .map(|ByteString(bytes)| bytes.as_slice())
        .unwrap_or_default();
    let known = trust::shown(bundle);
    let valid = known
        .iter()
        .filter(|ca| ca.is_ca && ca.not_before <= now && now < ca.not_after)
        .count();
    let error = |text: &str| {
        let fix = format!(
            "the webhook sets it, if it may and runs; see {CERTIFICATES} and: kubectl helmop logs webhook"
        );
        Finding::error(Group::Webhook, format!("{object}: {text}"), fix)
    };
    match (bundle.is_empty(), known.len(), valid) {
        (true, ..) => error("caBundle is empty, so the API server trusts no certificate"),
        (_, 0, _) => error("caBundle has no certificate"),
        (.., 0) => error("caBundle has no CA that is valid now"),
        (_, all, valid) => {
            let text = format!(
                "{object}: caBundle has {valid} of {all} CAs valid, failurePolicy {}",
                hook.failure_policy
            );
            Finding::ok(Group::Webhook, text)
        }
    }
}

async fn endpoints(client: &Client, hook: &Hook) -> Option<Finding> {
    let Some(service) = &hook.client.service else {
        let url = hook.client.url.as_deref().unwrap_or_default();
        return Some(Finding::ok(Group::Webhook, format!("the API server calls {url}")));
    };
    let (namespace, name) = (&service.namespace, &service.name);
    let object = format!("Service {namespace}/{name}");
    let skipped = |what: &str| Finding::skipped(Group::Webhook, format!("{object}: you may not {what}"));
    let failed = |error: &kube::Error| {
        Finding::error(
            Group::Webhook,
            format!("{object}: {}", api_error::text(error)),
            "",
        )
    };
    match Api::<Service>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await
    {
        Ok(Some(found)) => {
            if let Some(target) = external_name(&found) {
                return Some(Finding::ok(Group::Webhook, format!("{object} leads to {target}")));
            }
        }
        Ok(None) => {
            let fix = "install it again: kubectl apply --server-side -k manifests";
            return Some(Finding::error(
                Group::Webhook,
                format!("{object} does not exist"),
                fix,
            ));
        }
        Err(error) if api_error::is_forbidden(&error) => return Some(skipped("read it")),
        Err(error) => return Some(failed(&error)),
    }
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    Some(match slices.list(&params).await {
        Ok(found) => judge_endpoints(&object, &found.items),
        Err(error) if api_error::is_forbidden(&error) => skipped("list EndpointSlices"),
        Err(error) => failed(&error),
    })
}

/// Where a Service without endpoints leads to.
fn external_name(service: &Service) -> Option<&str> {
    let spec = service.spec.as_ref()?;
    spec.external_name
        .as_deref()
        .filter(|_| spec.type_.as_deref() == Some("ExternalName"))
}

fn judge_endpoints(service: &str, slices: &[EndpointSlice]) -> Finding {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let is_ready = |endpoint: &&k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint
            .conditions
            .as_ref()
            .is_none_or(|conditions| conditions.ready != Some(false))
    };
    match endpoints.clone().filter(is_ready).count() {
        0 => Finding::error(
            Group::Webhook,
            format!(
                "{service} has no ready endpoint of {}, so HelmOps are denied",
                endpoints.count()
            ),
            LOGS,
        ),
        ready => Finding::ok(Group::Webhook, format!("{service} has {ready} ready endpoints")),
    }
}

/// An invalid HelmOp, and the first of its errors. The webhook has the same function.
fn invalid() -> (HelmOp, String) {
    let mut helmop = HelmOp::default();
    helmop.metadata.name = Some(NEVER_STORED.to_owned());
    let errors = ValidHelmOp::try_from(&helmop).err();
    let first = errors.as_ref().and_then(|errors| errors.reported().first());
    let text = first.map(|error| error.detail.clone()).unwrap_or_default();
    (helmop, text)
}

/// Checks that the API server calls the webhook, and gets a denial from it: a dry run of an invalid HelmOp in a namespace.
pub async fn probe(client: &Client, namespace: &str, is_limited: bool) -> Finding {
    let (helmop, expected) = invalid();
    let api = Api::<HelmOp>::namespaced(client.clone(), namespace);
    let params = PostParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    };
    let created = api.create(&params, &helmop).await;
    judge_probe(created.err().as_ref(), &expected, namespace, is_limited)
}

fn judge_probe(error: Option<&kube::Error>, expected: &str, namespace: &str, is_limited: bool) -> Finding {
    let Some(error) = error else {
        let text = format!(
            "the API server accepts an invalid HelmOp in namespace {namespace} (dry run): it does not call the webhook"
        );
        return if is_limited {
            Finding::warning(
                Group::Webhook,
                text,
                "webhook.namespaceSelector may exclude this namespace; select another one with --namespace",
            )
        } else {
            Finding::error(
                Group::Webhook,
                text,
                "compare the configuration with manifests/base/validatingwebhook.yaml",
            )
        };
    };
    let text = api_error::text(error);
    if text.contains(expected) {
        return Finding::ok(
            Group::Webhook,
            "it denies an invalid HelmOp (dry run), so the API server reaches and trusts it",
        );
    }
    if text.contains("failed calling webhook") {
        let fix = match () {
            () if text.contains("x509") || text.contains("tls:") => {
                format!("the API server does not trust the certificate: see {CERTIFICATES}")
            }
            () if text.contains("deadline exceeded") || text.contains("i/o timeout") => {
                "a firewall may keep the API server from the pods: docs/install.md#private-clusters"
                    .to_owned()
            }
            () => LOGS.to_owned(),
        };
        return Finding::error(
            Group::Webhook,
            format!("the API server gets no response: {text}"),
            fix,
        );
    }
    match api_error::code(error) {
        Some(403) => Finding::skipped(
            Group::Webhook,
            format!("you may not create HelmOps in namespace {namespace}, so it was not called"),
        ),
        Some(404) => Finding::skipped(Group::Webhook, format!("it was not called: {text}")),
        Some(_) => Finding::warning(
            Group::Webhook,
            format!("an invalid HelmOp is denied by another check: {text}"),
            "",
        ),
        None => Finding::error(
            Group::Webhook,
            format!("the dry run failed: {}", causes(error)),
            "",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::check::finding::Level;
    use serde_json::json;

    fn rejected(code: u16, message: &str) -> kube::Error {
        let status = serde_json::from_value(
            json!({ "status": "Failure", "code": code, "message": message, "reason": "a" }),
        );
        kube::Error::Api(Box::new(status.unwrap()))
    }

    #[test]
    fn only_the_error_of_the_webhook_proves_that_it_responds() {
        let (_, expected) = invalid();
        assert!(!expected.is_empty());
        let denied = format!("HelmOp \"a\" is invalid: {expected}");
        for (error, is_limited, level, text) in [
            (
                Some(rejected(422, &denied)),
                false,
                Level::Ok,
                "reaches and trusts it",
            ),
            (None, false, Level::Error, "does not call the webhook"),
            (None, true, Level::Warning, "does not call the webhook"),
            (
                Some(rejected(
                    500,
                    "failed calling webhook \"v\": x509: certificate signed by unknown authority",
                )),
                false,
                Level::Error,
                "gets no response",
            ),
            (Some(rejected(403, "no")), false, Level::Skipped, "may not create"),
            (
                Some(rejected(404, "no such namespace")),
                false,
                Level::Skipped,
                "was not called",
            ),
            (
                Some(rejected(422, "spec: Required value")),
                false,
                Level::Warning,
                "another check",
            ),
        ] {
            let finding = judge_probe(error.as_ref(), &expected, "default", is_limited);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
        // The URL of every request has a time limit.
        let refused = "failed calling webhook \"v\": Post \"https://a.b.svc:443/validate?timeout=5s\": connect: connection refused";
        assert_eq!(
            judge_probe(Some(&rejected(500, refused)), &expected, "default", false).fix,
            LOGS
        );
        let untrusted = rejected(
            500,
            "failed calling webhook \"v\": tls: failed to verify certificate: x509: no",
        );
        assert!(
            judge_probe(Some(&untrusted), &expected, "default", false)
                .fix
                .contains(CERTIFICATES)
        );
    }

    #[test]
    fn a_ca_bundle_needs_a_valid_ca() {
        let now = UNIX_EPOCH + Duration::from_hours(24 * 365 * 50);
        let ca = |begin: SystemTime| helmops_certs::issue_ca("a", begin, Duration::from_hours(48)).unwrap();
        let seconds = i64::try_from(now.duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let (valid, expired) = (
            ca(now - Duration::from_hours(1)),
            ca(now - Duration::from_hours(72)),
        );
        let both = format!("{}{}", valid.cert_pem(), expired.cert_pem());
        for (bundle, level, text) in [
            ("", Level::Error, "caBundle is empty"),
            ("nothing", Level::Error, "no certificate"),
            (expired.cert_pem(), Level::Error, "no CA that is valid now"),
            (&both, Level::Ok, "1 of 2 CAs valid, failurePolicy Fail"),
        ] {
            let hook = Hook {
                kind: "ValidatingWebhookConfiguration",
                client: WebhookClientConfig {
                    ca_bundle: Some(ByteString(bundle.as_bytes().to_vec())),
                    ..WebhookClientConfig::default()
                },
                failure_policy: "Fail".to_owned(),
                is_limited: false,
            };
            let finding = authorities(&hook, seconds);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn a_service_needs_a_ready_endpoint() {
        let slice = |ready: &[bool]| -> EndpointSlice {
            let endpoints: Vec<_> = ready
                .iter()
                .map(|ready| json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }))
                .collect();
            serde_json::from_value(json!({ "addressType": "IPv4", "endpoints": endpoints })).unwrap()
        };
        assert_eq!(judge_endpoints("a", &[]).level, Level::Error);
        let finding = judge_endpoints("a", &[slice(&[false, false])]);
        assert!(finding.message.contains("no ready endpoint of 2"), "{finding:?}");
        assert_eq!(
            judge_endpoints("a", &[slice(&[false]), slice(&[true])]).level,
            Level::Ok
        );
    }
}
