//! The flags of a webhook that manages its own certificate.

use std::net::IpAddr;
use std::time::Duration;

use helmops_process::own_namespace;
use rustls::pki_types::DnsName;
use thiserror::Error;

use super::lifetimes::{LifetimeError, Lifetimes};
use super::plan::Desired;

/// The namespace of the manifests.
const NAMESPACE: &str = "helmops-system";

/// The flags.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Certificate, with --tls-source=managed")]
pub struct ManagedArgs {
    /// Secret with the certificate, its CA and their keys, shared by all replicas
    #[arg(
        long,
        env = "HELMOPS_TLS_SECRET",
        default_value = "helmops-webhook-tls",
        value_name = "NAME"
    )]
    pub tls_secret: String,

    /// Namespace of the Secret and the Service; by default the namespace of the pod's ServiceAccount, or else helmops-system
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Service through which the API server reaches the webhook; the certificate is issued for SERVICE.NAMESPACE.svc
    #[arg(
        long,
        env = "HELMOPS_TLS_SERVICE",
        default_value = "helmops-webhook",
        value_name = "NAME"
    )]
    pub tls_service: String,

    /// Additional DNS names and IP addresses of the certificate, comma-separated, for a webhook that is reached by URL
    #[arg(
        long,
        env = "HELMOPS_TLS_EXTRA_NAMES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub tls_extra_names: Vec<String>,

    /// Name of the ValidatingWebhookConfiguration and MutatingWebhookConfiguration whose caBundle is kept up to date
    #[arg(
        long,
        env = "HELMOPS_WEBHOOK_CONFIGURATION",
        default_value = "helmops",
        value_name = "NAME"
    )]
    pub webhook_configuration: String,

    /// Validity of a certificate; it is renewed after two thirds of that time
    #[arg(long, env = "HELMOPS_TLS_VALIDITY", default_value = "2160h", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub tls_validity: Duration,

    /// Validity of a CA; the next CA is issued after two thirds of that time
    #[arg(long, env = "HELMOPS_TLS_CA_VALIDITY", default_value = "43800h", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub tls_ca_validity: Duration,
}

/// The settings from the flags, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) namespace: String,
    pub(crate) secret: String,
    pub(crate) configuration: String,
    pub(crate) desired: Desired,
}

/// Invalid flags.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// Lifetimes that contradict each other.
    #[error(transparent)]
    Lifetime(#[from] LifetimeError),
    /// Neither a DNS name nor an IP address.
    #[error(
        "{0:?} is neither a DNS name nor an IP address; see --tls-service, --namespace and --tls-extra-names"
    )]
    Name(String),
}

impl ManagedArgs {
    /// The settings from the flags.
    ///
    /// # Errors
    /// Names the invalid flags.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let namespace = self.namespace.clone().or_else(own_namespace);
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let service = format!("{}.{namespace}.svc", self.tls_service);
        let mut names = vec![service.clone(), format!("{service}.cluster.local")];
        names.extend(self.tls_extra_names.iter().map(|name| canonical(name)));
        if let Some(invalid) = names.iter().find(|name| !is_name(name)) {
            return Err(SettingsError::Name(invalid.clone()));
        }
        let lifetimes = Lifetimes::new(self.tls_validity, self.tls_ca_validity, fastrand::f64())?;
        Ok(Settings {
            namespace,
            secret: self.tls_secret.clone(),
            configuration: self.webhook_configuration.clone(),
            desired: Desired { names, lifetimes },
        })
    }
}

/// The spelling that a certificate uses: addresses have more than one.
fn canonical(name: &str) -> String {
    name.parse::<IpAddr>()
        .map_or_else(|_| name.to_owned(), |address| address.to_string())
}

fn is_name(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || DnsName::try_from(name).is_ok()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        managed: ManagedArgs,
    }

    fn settings(args: &[&str]) -> Result<Settings, SettingsError> {
        let args = [&["x", "--namespace", "here"], args].concat();
        Cli::try_parse_from(args).unwrap().managed.settings()
    }

    #[test]
    fn the_certificate_has_the_names_of_the_service_and_the_extra_names() {
        let names = |args| settings(args).unwrap().desired.names;
        assert_eq!(
            names(&[]),
            [
                "helmops-webhook.here.svc",
                "helmops-webhook.here.svc.cluster.local"
            ]
        );
        let extra = [
            "--tls-service=hook",
            "--tls-extra-names=127.0.0.1,a.example.com,0:0::1",
        ];
        assert_eq!(
            names(&extra),
            [
                "hook.here.svc",
                "hook.here.svc.cluster.local",
                "127.0.0.1",
                "a.example.com",
                "::1"
            ]
        );
    }

    #[test]
    fn invalid_names_and_lifetimes_are_rejected() {
        let error = settings(&["--tls-extra-names=a b"]).unwrap_err().to_string();
        assert!(
            error.starts_with("\"a b\" is neither a DNS name nor an IP address"),
            "{error}"
        );
        let error = settings(&["--tls-validity=1h", "--tls-ca-validity=2h"]).unwrap_err();
        assert!(matches!(error, SettingsError::Lifetime(_)), "{error}");
        assert!(Cli::try_parse_from(["x", "--tls-validity=90d"]).is_err());
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let variable = match long {
                "namespace" => "POD_NAMESPACE".to_owned(),
                long => format!("HELMOPS_{}", long.to_uppercase().replace('-', "_")),
            };
            assert_eq!(
                arg.get_env().and_then(|env| env.to_str()),
                Some(variable.as_str())
            );
        }
    }
}
