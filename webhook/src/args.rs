//! The flags.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Parser, ValueEnum};
use helmops_certs::{
    managed::{ManagedArgs, Settings, SettingsError},
    pair::PairPaths,
};
use helmops_process::{self as runtime, ProcessArgs};
use helmops_trace::TraceArgs;
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

    /// Flags of the managed certificate.
    #[command(flatten)]
    pub managed: ManagedArgs,

    /// Flags of all processes.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Where traces are sent.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// The source of the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsSource {
    /// The webhook issues and renews it, stores it in a Secret and injects caBundle.
    Managed,
    /// Files that another component renews, such as cert-manager.
    Files,
}

/// The source of the serving certificate, with its settings.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// The webhook manages it with these settings.
    Managed(Box<Settings>),
    Files(PairPaths),
}

/// Flags that conflict or are invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArgsError {
    /// Files that would not be read.
    #[error("--tls-cert-file and --tls-private-key-file require --tls-source=files; set it, or remove them")]
    UnusedFiles,
    /// The settings of the managed certificate are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Args {
    /// The source of the serving certificate.
    ///
    /// # Errors
    /// If flags conflict or are invalid. The error names them.
    pub fn certificate(&self) -> Result<CertificateSource, ArgsError> {
        let files = [&self.tls_cert_file, &self.tls_private_key_file];
        match self.tls_source {
            // A user who sets the files expects them to be served.
            TlsSource::Managed if files.iter().any(|file| file.is_some()) => Err(ArgsError::UnusedFiles),
            TlsSource::Managed => Ok(CertificateSource::Managed(Box::new(self.managed.settings()?))),
            TlsSource::Files => {
                let or_default =
                    |file: &Option<PathBuf>, default: &str| file.clone().unwrap_or_else(|| default.into());
                Ok(CertificateSource::Files(PairPaths {
                    cert: or_default(&self.tls_cert_file, "/etc/helmops/tls/tls.crt"),
                    key: or_default(&self.tls_private_key_file, "/etc/helmops/tls/tls.key"),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(args: &[&str]) -> Result<CertificateSource, ArgsError> {
        Args::try_parse_from([&["x", "--namespace=here"], args].concat())
            .unwrap()
            .certificate()
    }

    #[test]
    fn the_certificate_is_managed_by_default() {
        assert!(matches!(certificate(&[]), Ok(CertificateSource::Managed(_))));
        let files = |args| match certificate(args) {
            Ok(CertificateSource::Files(paths)) => paths,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            files(&["--tls-source=files"]).cert,
            PathBuf::from("/etc/helmops/tls/tls.crt")
        );
        let paths = files(&["--tls-source=files", "--tls-private-key-file=/k"]);
        assert_eq!(paths.key, PathBuf::from("/k"));
    }

    #[test]
    fn allowed_client_names_require_a_client_ca_file() {
        let parse = |args: &[&str]| Args::try_parse_from([&["x", "--namespace=here"], args].concat());
        assert!(parse(&["--allowed-client-names=apiserver"]).is_err());
        let args = parse(&["--client-ca-file=/ca.crt", "--allowed-client-names=a,b"]).unwrap();
        assert_eq!(args.allowed_client_names, ["a", "b"]);
    }

    #[test]
    fn files_without_tls_source_files_are_rejected() {
        let error = certificate(&["--tls-cert-file=/c"]).unwrap_err();
        assert_eq!(error, ArgsError::UnusedFiles);
        assert!(
            certificate(&["--tls-validity=1s"])
                .unwrap_err()
                .to_string()
                .contains("--tls-validity")
        );
    }
}
