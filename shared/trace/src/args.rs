//! The flags of traces.

use std::{env, fs, io, path::PathBuf};

use clap::ValueHint;
use helmops_process::{Supervisor, own_namespace, version};
use prometheus::Registry;
use reqwest::{
    Certificate, Client,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use url::Url;

use crate::{
    export::{Exporter, TIMEOUT},
    metrics::TraceMetrics,
    otlp::Resource,
    tracer::Tracer,
};

/// The flags of traces, named as OpenTelemetry names its settings.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Traces")]
pub struct TraceArgs {
    /// Base URL of an OpenTelemetry collector, such as <http://otel-collector:4318>; spans are sent to its path /v1/traces. Traces
    /// are off without it
    #[arg(long, env = "HELMOPS_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint, value_hint = ValueHint::Url)]
    pub otlp_endpoint: Option<Url>,

    /// HTTP headers for the collector, comma-separated NAME=VALUE; set it through the environment from a Secret if it has a token
    #[arg(
        long,
        env = "HELMOPS_OTLP_HEADERS",
        hide_env_values = true,
        value_name = "HEADERS"
    )]
    pub otlp_headers: Option<SecretString>,

    /// File with certificates (PEM) to trust for the collector, besides those of the system
    #[arg(long, env = "HELMOPS_OTLP_CA_FILE", value_name = "FILE")]
    pub otlp_ca_file: Option<PathBuf>,

    /// Part of the traces that is recorded, from 0 to 1. All processes must have the same
    #[arg(long, env = "HELMOPS_TRACE_RATIO", default_value = "1", value_name = "PART", value_parser = ratio)]
    pub trace_ratio: f64,
}

/// Why spans cannot be exported.
#[derive(Debug, Error)]
pub enum TraceArgsError {
    /// The file with certificates cannot be read.
    #[error("--otlp-ca-file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A part of the headers is no header. Its text may be a token, so it is not repeated.
    #[error("--otlp-headers: part {0} is not a header NAME=VALUE")]
    Header(usize),
    /// The file has no certificates.
    #[error("--otlp-ca-file {}: no PEM certificates; it needs -----BEGIN CERTIFICATE----- blocks", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client for --otlp-endpoint")]
    Client(#[source] reqwest::Error),
    /// The metrics are registered already.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

impl TraceArgs {
    /// A tracer that knows all traces and exports none, for tests of programs.
    ///
    /// # Errors
    /// Never in practice.
    pub fn unexported() -> Result<Tracer, TraceArgsError> {
        let metrics = TraceMetrics::register(&Registry::new())?;
        Ok(Tracer::new(1.0, 1, metrics).0)
    }

    /// The tracer of a process; it starts the export of its spans. `instance` is the name of the replica, by default the host name.
    /// Without an endpoint the tracer is disabled.
    ///
    /// # Errors
    /// If a flag is invalid.
    pub fn start(
        &self,
        service: &'static str,
        instance: Option<&str>,
        registry: &Registry,
        supervisor: &mut Supervisor,
    ) -> Result<Tracer, TraceArgsError> {
        let (tracer, exporter) = self.tracer(service, instance, registry)?;
        if let Some(exporter) = exporter {
            supervisor.spawn("traces", exporter.run(supervisor.stop_token()));
        }
        Ok(tracer)
    }

    fn tracer(
        &self,
        service: &'static str,
        instance: Option<&str>,
        registry: &Registry,
    ) -> Result<(Tracer, Option<Exporter>), TraceArgsError> {
        let metrics = TraceMetrics::register(registry)?;
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok((Tracer::disabled(), None));
        };
        let (tracer, spans) = Tracer::new(self.trace_ratio, fastrand::u64(1..), metrics.clone());
        let resource = Resource {
            service,
            version: version().to_owned(),
            instance: instance.map_or_else(|| env::var("HOSTNAME").unwrap_or_default(), str::to_owned),
            namespace: own_namespace(),
        };
        let exporter = Exporter {
            client: self.client()?,
            url: traces_url(endpoint),
            resource,
            spans,
            metrics,
        };
        Ok((tracer, Some(exporter)))
    }

    fn client(&self) -> Result<Client, TraceArgsError> {
        // Without a default provider the client panics; the process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never());
        if let Some(headers) = &self.otlp_headers {
            builder = builder.default_headers(parse_headers(headers.expose_secret())?);
        }
        if let Some(path) = &self.otlp_ca_file {
            let pem = fs::read(path).map_err(|source| TraceArgsError::Read {
                path: path.clone(),
                source,
            })?;
            let certificates = Certificate::from_pem_bundle(&pem).unwrap_or_default();
            if certificates.is_empty() {
                return Err(TraceArgsError::Certificates { path: path.clone() });
            }
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(TraceArgsError::Client)
    }
}

fn parse_headers(text: &str) -> Result<HeaderMap, TraceArgsError> {
    let parts = text
        .split(',')
        .enumerate()
        .filter(|(_, part)| !part.trim().is_empty());
    parts
        .map(|(index, part)| header(part).ok_or(TraceArgsError::Header(index + 1)))
        .collect()
}

fn header(part: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = part.split_once('=')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

/// The URL that spans are sent to: a path of the endpoint is kept.
fn traces_url(endpoint: &Url) -> Url {
    let mut url = endpoint.clone();
    let path = format!("{}/v1/traces", endpoint.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .map_err(|error| format!("{error}; give a URL such as http://otel-collector:4318"))?;
    match url.scheme() {
        "http" | "https" if url.query().is_none() => Ok(url),
        "http" | "https" => Err("the URL must not have a query".to_owned()),
        // `collector:4317` parses as a URL with the scheme `collector`.
        scheme => Err(format!(
            "the scheme {scheme:?} is not supported; give http:// or https://, and the port for OTLP over HTTP, usually 4318"
        )),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("must be a number from 0 to 1, such as 0.1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_sent_to_the_path_of_the_protocol() {
        for (text, url) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("https://host/otlp/", "https://host/otlp/v1/traces"),
        ] {
            assert_eq!(traces_url(&endpoint(text).unwrap()).as_str(), url);
        }
    }

    #[test]
    fn an_address_that_is_no_url_names_the_fix() {
        let error = endpoint("collector:4317").unwrap_err();
        assert!(error.contains("http://") && error.contains("4318"), "{error}");
        assert!(
            endpoint("collector")
                .unwrap_err()
                .contains("http://otel-collector:4318")
        );
        assert!(endpoint("http://host/?a=b").unwrap_err().contains("query"));
    }

    #[test]
    fn a_ratio_is_between_0_and_1() {
        assert_eq!(
            (ratio("0"), ratio("0.25"), ratio("1")),
            (Ok(0.0), Ok(0.25), Ok(1.0))
        );
        for text in ["-0.1", "1.1", "NaN", "half", ""] {
            assert!(ratio(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_secret() {
        let headers = parse_headers("Authorization=Bearer s3cret=, X-Scope=a").unwrap();
        assert_eq!(headers.get("authorization").unwrap(), "Bearer s3cret=");
        assert_eq!(headers.get("x-scope").unwrap(), "a");
        assert!(!format!("{headers:?}").contains("s3cret"));
        let error = parse_headers("X-Scope=a,s3cret").unwrap_err().to_string();
        assert!(error.contains("part 2") && !error.contains("s3cret"), "{error}");
        let args = TraceArgs {
            otlp_headers: Some("s3cret".into()),
            ..TraceArgs::default()
        };
        assert!(!format!("{args:?}").contains("s3cret"));
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let args = TraceArgs {
            otlp_ca_file: Some(path.clone()),
            ..TraceArgs::default()
        };
        let error = args.client().unwrap_err().to_string();
        assert!(
            error.starts_with("--otlp-ca-file") && error.contains("ca.crt"),
            "{error}"
        );
        fs::write(&path, "nothing").unwrap();
        let error = args.client().unwrap_err().to_string();
        assert!(error.contains("no PEM certificates"), "{error}");
    }

    #[test]
    fn without_an_endpoint_there_is_no_trace() {
        let registry = Registry::new();
        let (tracer, exporter) = TraceArgs::default().tracer("x", None, &registry).unwrap();
        assert!(exporter.is_none() && tracer.root("uid", 1, 0).is_none());
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(tracer.parent(Some(traceparent)), None);
    }
}
