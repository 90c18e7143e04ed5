//! The flags of traces.

use std::{env, fs, io, path::PathBuf};

use clap::ValueHint;
use helmops_process::{own_namespace, version};
use prometheus::Registry;
use reqwest::{
    Certificate, Client,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
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

    /// File with HTTP headers for the collector, one `NAME: VALUE` in each line, such as a token from a Secret
    #[arg(long, env = "HELMOPS_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,

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
    /// A file cannot be read.
    #[error("{flag} {}: {source}", path.display())]
    Read {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A line of the file with headers is no header. Its text may be a token, so it is not repeated.
    #[error("--otlp-headers-file {}: line {line} is not a header NAME: VALUE", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
    },
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
    /// The tracer of a process, and the exporter of its spans, which the supervisor has to run. `instance` is the name of the replica, by
    /// default the host name.
    /// Without an endpoint the tracer is disabled.
    ///
    /// # Errors
    /// If a file is invalid.
    pub fn tracer(
        &self,
        service: &'static str,
        instance: Option<&str>,
        registry: &Registry,
    ) -> Result<(Tracer, Option<Exporter>), TraceArgsError> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok((Tracer::disabled(), None));
        };
        let metrics = TraceMetrics::register(registry)?;
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
        if let Some(path) = &self.otlp_headers_file {
            builder = builder.default_headers(self.headers(path)?);
        }
        if let Some(path) = &self.otlp_ca_file {
            let pem = read("--otlp-ca-file", path)?;
            let certificates = Certificate::from_pem_bundle(pem.as_bytes()).unwrap_or_default();
            if certificates.is_empty() {
                return Err(TraceArgsError::Certificates { path: path.clone() });
            }
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(TraceArgsError::Client)
    }

    fn headers(&self, path: &PathBuf) -> Result<HeaderMap, TraceArgsError> {
        let text = read("--otlp-headers-file", path)?;
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(index, line)| {
                header(line).ok_or_else(|| TraceArgsError::Header {
                    path: path.clone(),
                    line: index + 1,
                })
            })
            .collect()
    }
}

fn read(flag: &'static str, path: &PathBuf) -> Result<String, TraceArgsError> {
    fs::read_to_string(path).map_err(|source| TraceArgsError::Read {
        flag,
        path: path.clone(),
        source,
    })
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
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
    fn headers_come_from_a_file_and_are_not_repeated_in_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        fs::write(&path, "Authorization: Bearer s3cret\n\nX-Scope: a\n").unwrap();
        let args = TraceArgs::default();
        let headers = args.headers(&path).unwrap();
        assert_eq!(headers.get("authorization").unwrap(), "Bearer s3cret");
        assert!(!format!("{headers:?}").contains("s3cret"));
        assert_eq!(headers.get("x-scope").unwrap(), "a");
        fs::write(&path, "X-Scope: a\ns3cret").unwrap();
        let error = args.headers(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
        let error = args.headers(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("--otlp-headers-file"), "{error}");
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
