//! The flags.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Parser, ValueEnum};
use helmops_certs::{
    managed::{ManagedArgs, Settings, SettingsError},
    pair::PairPaths,
};
use helmops_shared::runtime::{self, ProcessArgs};
use thiserror::Error;

/// Admission webhook for HelmOps: fills in defaults and denies what could never work, with an exact error.
///
/// It serves HTTPS on /mutate and /validate for AdmissionReview (admission.k8s.io/v1). Access to the API server is needed
/// for Policies and its own certificate, and never while a request is answered. Every flag can be given as an environment variable too.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-webhook", version = runtime::version(), args_override_self = true)]
pub struct Args {
    /// Address that serves the webhooks over HTTPS
    #[arg(
        long,
        env = "HELMOPS_BIND_ADDRESS",
        default_value = "[::]:10250",
        value_name = "IP:PORT"
    )]
    pub bind_address: SocketAddr,

    /// Where the serving certificate comes from: managed issues it, keeps it in a Secret and injects caBundle; files reads it
    /// from files that somebody else keeps
    #[arg(
        long,
        env = "HELMOPS_TLS_SOURCE",
        value_enum,
        default_value = "managed",
        value_name = "managed|files"
    )]
    pub tls_source: TlsSource,

    /// File with the serving certificate and its chain, PEM, with --tls-source=files; a change is taken over without a
    /// restart [default: /etc/helmops/tls/tls.crt]
    #[arg(long, env = "HELMOPS_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// File with the private key of the serving certificate, PEM, with --tls-source=files [default:
    /// /etc/helmops/tls/tls.key]
    #[arg(long, env = "HELMOPS_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// File with the CA of the API server's client certificate, PEM; who has no certificate of it cannot connect. A change is
    /// taken over without a restart [default: anybody may connect]
    #[arg(long, env = "HELMOPS_CLIENT_CA_FILE", value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Common names or DNS names that a client certificate may have, with --client-ca-file [default: any]
    #[arg(
        long,
        env = "HELMOPS_CLIENT_NAME",
        value_delimiter = ',',
        requires = "client_ca_file",
        value_name = "NAMES"
    )]
    pub client_name: Vec<String>,

    /// Kubeconfig file; by default the pod's own ServiceAccount, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Deny what the Policies of a namespace forbid; the controller does not deploy it in any case
    #[arg(
        long,
        env = "HELMOPS_POLICIES",
        default_value_t = true,
        action = ArgAction::Set,
        value_name = "true|false"
    )]
    pub policies: bool,

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
    /// The webhook itself.
    Managed,
    /// Somebody else, in files.
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
        assert!(parse(&["--client-name=apiserver"]).is_err());
        let args = parse(&["--client-ca-file=/ca.crt", "--client-name=a,b"]).unwrap();
        assert_eq!(args.client_name, ["a", "b"]);
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
