//! The flags.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Parser, ValueEnum};
use helmops_certs::{
    managed::{ManagedArgs, Settings, SettingsError},
    pair::PairPaths,
};
use helmops_shared::runtime::{self, ProcessArgs};
use thiserror::Error;

/// Admission webhook for HelmOps: sets defaults, and denies HelmOps that can never work with an exact error
///
/// Serves AdmissionReview (admission.k8s.io/v1) over HTTPS on /mutate and /validate. It reads Policies and keeps its certificate
/// through the API server, but never calls it during an admission request. Every flag can also be set through an environment
/// variable.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-webhook", version = runtime::version(), args_override_self = true)]
pub struct Args {
    /// Address to serve the webhooks on, over HTTPS
    #[arg(
        long,
        env = "HELMOPS_BIND_ADDRESS",
        default_value = "[::]:10250",
        value_name = "IP:PORT"
    )]
    pub bind_address: SocketAddr,

    /// Source of the serving certificate
    #[arg(
        long,
        env = "HELMOPS_TLS_SOURCE",
        value_enum,
        default_value = "managed",
        value_name = "managed|files"
    )]
    pub tls_source: TlsSource,

    /// PEM file with the serving certificate and its chain, with --tls-source=files; reloaded when it changes [default:
    /// /etc/helmops/tls/tls.crt]
    #[arg(long, env = "HELMOPS_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// PEM file with the private key of the serving certificate, with --tls-source=files [default: /etc/helmops/tls/tls.key]
    #[arg(long, env = "HELMOPS_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// PEM file with the CA of the API server's client certificate; reloaded when it changes. Clients need a certificate of this
    /// CA [default: every client may connect]
    #[arg(long, env = "HELMOPS_CLIENT_CA_FILE", value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Allowed common names or DNS names of client certificates, comma-separated, with --client-ca-file [default: any]
    #[arg(
        long,
        env = "HELMOPS_ALLOWED_CLIENT_NAMES",
        value_delimiter = ',',
        requires = "client_ca_file",
        value_name = "NAMES"
    )]
    pub allowed_client_names: Vec<String>,

    /// Kubeconfig file; by default the ServiceAccount of the pod, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Deny HelmOps that violate the Policies of their namespace; the controller enforces Policies in any case
    #[arg(
        long,
        env = "HELMOPS_ENFORCE_POLICIES",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub enforce_policies: bool,

    /// How the webhook keeps its own certificate.
    #[command(flatten)]
    pub managed: ManagedArgs,

    /// What both processes have in common.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// Who keeps the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsSource {
    /// The webhook issues and renews it, keeps it in a Secret and injects caBundle.
    Managed,
    /// Files, which something else renews, such as cert-manager.
    Files,
}

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// The webhook keeps it, as these settings say.
    Managed(Box<Settings>),
    /// It lies in these files.
    Files(PairPaths),
}

/// Flags that do not go together, or cannot be followed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArgsError {
    /// Files that nobody would read.
    #[error(
        "--tls-cert-file and --tls-private-key-file are read with --tls-source=files alone; give that, or leave them out"
    )]
    UnreadFiles,
    /// What the webhook cannot keep.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Args {
    /// Where the serving certificate comes from.
    ///
    /// # Errors
    /// Names the flags that cannot be followed.
    pub fn certificate(&self) -> Result<Certificate, ArgsError> {
        let files = [&self.tls_cert_file, &self.tls_private_key_file];
        match self.tls_source {
            // Whoever gave them expects them to be served.
            TlsSource::Managed if files.iter().any(|file| file.is_some()) => Err(ArgsError::UnreadFiles),
            TlsSource::Managed => Ok(Certificate::Managed(Box::new(self.managed.settings()?))),
            TlsSource::Files => {
                let or =
                    |file: &Option<PathBuf>, default: &str| file.clone().unwrap_or_else(|| default.into());
                Ok(Certificate::Files(PairPaths {
                    cert: or(&self.tls_cert_file, "/etc/helmops/tls/tls.crt"),
                    key: or(&self.tls_private_key_file, "/etc/helmops/tls/tls.key"),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(args: &[&str]) -> Result<Certificate, ArgsError> {
        Args::try_parse_from([&["x", "--namespace=here"], args].concat())
            .unwrap()
            .certificate()
    }

    #[test]
    fn a_webhook_keeps_its_own_certificate_unless_told_otherwise() {
        assert!(matches!(certificate(&[]), Ok(Certificate::Managed(_))));
        let files = |args| match certificate(args) {
            Ok(Certificate::Files(paths)) => paths,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            files(&["--tls-source=files"]).cert,
            PathBuf::from("/etc/helmops/tls/tls.crt")
        );
        let told = files(&["--tls-source=files", "--tls-private-key-file=/k"]);
        assert_eq!(told.key, PathBuf::from("/k"));
    }

    #[test]
    fn names_of_clients_need_an_authority() {
        let parse = |args: &[&str]| Args::try_parse_from([&["x", "--namespace=here"], args].concat());
        assert!(parse(&["--allowed-client-names=apiserver"]).is_err());
        let args = parse(&["--client-ca-file=/ca.crt", "--allowed-client-names=a,b"]).unwrap();
        assert_eq!(args.allowed_client_names, ["a", "b"]);
    }

    #[test]
    fn files_that_nobody_would_read_are_refused() {
        let error = certificate(&["--tls-cert-file=/c"]).unwrap_err();
        assert_eq!(error, ArgsError::UnreadFiles);
        assert!(
            certificate(&["--tls-validity=1s"])
                .unwrap_err()
                .to_string()
                .contains("--tls-validity")
        );
    }
}
