//! Where a bucket is, from the fields that users write.

use bounded_text::cut;
use helmops_chart::ChartPath;
use thiserror::Error;
use url::{Host, Url};

use crate::BUCKET_PREFIX;

/// The longest text in a message, in bytes.
pub const MAX_SHOWN: usize = 100;
/// The region of S3 where none is written.
const DEFAULT_REGION: &str = "us-east-1";
/// The endpoint of S3 in that region.
const AWS: &str = "s3.amazonaws.com";
/// The domain of Amazon's servers.
const AMAZON: &str = "amazonaws.com";
/// That of Alibaba's servers, which have buckets in the host only.
const ALIBABA: &str = "aliyuncs.com";
/// Domains with servers that have buckets in the host.
const IN_HOST: [&str; 7] = [
    AMAZON,
    "amazonaws.com.cn",
    ALIBABA,
    "myhuaweicloud.com",
    "myqcloud.com",
    "digitaloceanspaces.com",
    "googleapis.com",
];
/// The endpoint of Google Cloud Storage.
const GCP: &str = "storage.googleapis.com";
/// The longest name of a bucket: Google Cloud Storage has names of domains.
const MAX_NAME: usize = 222;
/// The longest region.
const MAX_REGION: usize = 64;

/// Which protocol and which credentials a bucket has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Any server with the protocol of S3.
    #[default]
    Generic,
    /// S3 of Amazon.
    Aws,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcp,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Generic, Self::Aws, Self::Azure, Self::Gcp];

    /// Its name in the field `provider`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
        }
    }
}

/// The fields of a bucket, as they are written. Empty ones are not set.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketFields<'a> {
    /// See [`Provider`].
    pub provider: &'a str,
    /// The name of the bucket; the container of Azure.
    pub name: &'a str,
    /// The host of the server and its port, or a URL.
    pub endpoint: &'a str,
    /// The region of the bucket.
    pub region: &'a str,
    /// The folder that everything is in.
    pub prefix: &'a str,
    /// Whether requests may be sent without TLS.
    pub insecure: bool,
}

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketLocation {
    /// Its protocol.
    pub provider: Provider,
    /// The URL of the server.
    pub endpoint: Url,
    /// Its name.
    pub name: String,
    /// The region, which signatures of S3 contain.
    pub region: String,
    /// The folder that is listed. Everything else is in it.
    pub prefix: ChartPath,
}

/// Why a field says not where a bucket is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field} {text:?} {problem}")]
pub struct BucketFieldError {
    /// The field.
    pub field: &'static str,
    /// Its text, cut, and without what may be a login.
    pub text: String,
    /// What is wrong with it, and the fix.
    pub problem: &'static str,
}

impl BucketLocation {
    /// Reads the fields.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(fields: &BucketFields<'_>) -> Result<Self, BucketFieldError> {
        let provider = provider(fields.provider)?;
        let name = name(fields.name)?;
        let region = region(fields.region)?;
        let prefix = prefix(fields.prefix)?;
        let location = Self {
            endpoint: endpoint(provider, &region, fields)?,
            provider,
            name,
            region,
            prefix,
        };
        if provider == Provider::Azure && location.azure_account().is_none() {
            let problem = "names no storage account; write it as https://ACCOUNT.blob.core.windows.net";
            return Err(error("endpoint", fields.endpoint, problem));
        }
        Ok(location)
    }

    /// The storage account of Azure: the first part of its host, or the path on a server that has all of them.
    pub fn azure_account(&self) -> Option<&str> {
        match self.endpoint.path().trim_matches('/') {
            "" => match self.endpoint.host()? {
                Host::Domain(host) => host.split_once('.').map(|(account, _)| account),
                Host::Ipv4(_) | Host::Ipv6(_) => None,
            },
            path => Some(path),
        }
    }

    /// Whether the host of the endpoint begins with the name of the bucket, so that paths do not. Other servers than those of these clouds may
    /// be named like a bucket.
    pub fn is_in_host(&self) -> bool {
        let host = self.endpoint.host_str().unwrap_or_default();
        let is_of_protocol = matches!(self.provider, Provider::Generic | Provider::Aws);
        let rest = host
            .strip_prefix(&*self.name)
            .and_then(|rest| rest.strip_prefix('.'));
        // The server is named before the domain: a bucket may be named like a part of that name.
        let is_server = |rest: &str| {
            let mut servers = IN_HOST.into_iter().filter_map(|domain| rest.strip_suffix(domain));
            servers.any(|server| server.len() > 1 && server.ends_with('.'))
        };
        is_of_protocol && rest.is_some_and(is_server)
    }

    /// The name of an object at a path below the prefix.
    pub fn object(&self, path: &ChartPath) -> String {
        match path.as_str() {
            "" => self.prefix.as_str().to_owned(),
            path => self.prefix.below(path),
        }
    }

    /// The start of the names of all objects below the prefix.
    pub fn listed_prefix(&self) -> String {
        self.prefix.below("")
    }

    /// Identifies the bucket in records and messages: a URL with `bucket+` before its scheme, and the prefix at its end. It has no credentials.
    pub fn identity(&self) -> String {
        let prefix = self.prefix.as_str();
        let separator = if prefix.is_empty() { "" } else { "/" };
        format!("{BUCKET_PREFIX}{}{separator}{prefix}", self.shown())
    }

    /// Its name for messages.
    pub fn shown(&self) -> String {
        let endpoint = self.endpoint.as_str().trim_end_matches('/');
        if self.is_in_host() {
            endpoint.to_owned()
        } else {
            format!("{endpoint}/{}", self.name)
        }
    }
}

fn error(field: &'static str, text: &str, problem: &'static str) -> BucketFieldError {
    // Before an @ may be a login, and a query may be the signature of Azure.
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let text = text.get(..end).filter(|text| !text.contains('@')).unwrap_or("…");
    BucketFieldError {
        field,
        text: cut(text.to_owned(), MAX_SHOWN),
        problem,
    }
}

fn provider(text: &str) -> Result<Provider, BucketFieldError> {
    if text.is_empty() {
        return Ok(Provider::default());
    }
    let found = Provider::ALL
        .into_iter()
        .find(|provider| provider.as_str() == text);
    found.ok_or_else(|| error("provider", text, "is not known; use generic, aws, azure or gcp"))
}

fn name(text: &str) -> Result<String, BucketFieldError> {
    let inner = text.strip_prefix('$').unwrap_or(text);
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_name = (3..=MAX_NAME).contains(&text.len())
        && inner.chars().all(|c| is_end(c) || "-._".contains(c))
        && inner.starts_with(is_end)
        && inner.ends_with(is_end)
        && !inner.contains("..");
    if is_name {
        return Ok(text.to_owned());
    }
    let problem = "is not the name of a bucket; write the name alone, such as helm-charts, without the server, a path or s3://";
    Err(error("bucketName", text, problem))
}

fn region(text: &str) -> Result<String, BucketFieldError> {
    let is_region = text.len() <= MAX_REGION
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    match text {
        "" => Ok(DEFAULT_REGION.to_owned()),
        text if is_region => Ok(text.to_owned()),
        text => Err(error(
            "region",
            text,
            "is not a region; write it as eu-central-1, or leave it out",
        )),
    }
}

fn prefix(text: &str) -> Result<ChartPath, BucketFieldError> {
    if text.contains(['?', '#', '%']) {
        // They would be something else in the URL that Policies compare.
        return Err(error(
            "prefix",
            text,
            "has ?, # or % in it; name a folder without them",
        ));
    }
    ChartPath::parse(text).map_err(|_| {
        let problem =
            "is no folder of a bucket; write it as charts/team-a, without a slash at its start and without . or .. in it";
        error("prefix", text, problem)
    })
}

fn endpoint(provider: Provider, region: &str, fields: &BucketFields<'_>) -> Result<Url, BucketFieldError> {
    let text = match (fields.endpoint, provider) {
        ("", Provider::Aws) => AWS,
        ("", Provider::Gcp) => GCP,
        (text, _) => text,
    };
    let failed = |problem| Err(error("endpoint", fields.endpoint, problem));
    if text.is_empty() {
        return failed(
            "is missing; write the host of the server, such as minio.example.com:9000, or for azure https://ACCOUNT.blob.core.windows.net",
        );
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return failed("contains a control character or white space; remove it");
    }
    let with_scheme = match (text.contains("://"), fields.insecure) {
        (true, _) => text.to_owned(),
        (false, false) => format!("https://{text}"),
        (false, true) => format!("http://{text}"),
    };
    let Some(url) = Url::parse(&with_scheme).ok().filter(Url::has_host) else {
        return failed(
            "is not the host of a server; write it as s3.example.com, minio.example.com:9000 or https://s3.example.com",
        );
    };
    let has_path = !url.path().trim_matches('/').is_empty();
    let has_host_of_account = url.host_str().is_some_and(|host| host.contains(".blob."));
    let is_account =
        provider == Provider::Azure && !has_host_of_account && !url.path().trim_matches('/').contains('/');
    match url.scheme() {
        "https" => {}
        "http" if fields.insecure => {}
        "http" => return failed("is without TLS; use https, or set insecure: true"),
        _ => return failed("has a scheme that no bucket has; use https, or write the host alone"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return failed("has a login in it; put the credentials into the Secret, and remove what is before @");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return failed(
            "has a query or a fragment; remove what follows ? or #, and put a signature of Azure into key sasKey of the Secret",
        );
    }
    if has_path && !is_account {
        return failed(
            "has a path; write the server alone, the bucket in bucketName, and the folder in prefix",
        );
    }
    Ok(in_cloud(provider, region, fields.name, url))
}

/// Amazon has a server in each region, and that of all knows the buckets of one. Alibaba has a server for each bucket.
fn in_cloud(provider: Provider, region: &str, name: &str, mut url: Url) -> Url {
    let host = url.host_str().unwrap_or_default();
    let host =
        if matches!(provider, Provider::Aws | Provider::Generic) && host == AWS && region != DEFAULT_REGION {
            let end = if region.starts_with("cn-") { ".cn" } else { "" };
            format!("s3.{region}.{AMAZON}{end}")
        } else if provider == Provider::Generic
            && host.ends_with(&format!(".{ALIBABA}"))
            && !host.starts_with(&format!("{name}."))
        {
            format!("{name}.{host}")
        } else {
            return url;
        };
    // A region has no character that a host has not, but an underscore: then the host stays, and its server says what is wrong.
    let _ = url.set_host(Some(&host));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(provider: &'static str, endpoint: &'static str) -> BucketFields<'static> {
        BucketFields {
            provider,
            name: "charts",
            endpoint,
            ..BucketFields::default()
        }
    }

    #[test]
    fn fields_say_where_a_bucket_is() {
        for (fields, expected) in [
            (
                fields("", "minio.example.com:9000"),
                "https://minio.example.com:9000/charts",
            ),
            (fields("aws", ""), "https://s3.amazonaws.com/charts"),
            (
                BucketFields {
                    region: "eu-west-1",
                    ..fields("aws", "s3.amazonaws.com")
                },
                "https://s3.eu-west-1.amazonaws.com/charts",
            ),
            (fields("gcp", ""), "https://storage.googleapis.com/charts"),
            (
                fields("azure", "https://acme.blob.core.windows.net"),
                "https://acme.blob.core.windows.net/charts",
            ),
            (
                BucketFields {
                    insecure: true,
                    ..fields("azure", "http://127.0.0.1:10000/acme")
                },
                "http://127.0.0.1:10000/acme/charts",
            ),
            (
                BucketFields {
                    insecure: true,
                    ..fields("generic", "minio:9000")
                },
                "http://minio:9000/charts",
            ),
            (
                fields("generic", "https://charts.s3.eu-west-1.amazonaws.com"),
                "https://charts.s3.eu-west-1.amazonaws.com",
            ),
            (
                fields("generic", "oss-cn-hangzhou.aliyuncs.com"),
                "https://charts.oss-cn-hangzhou.aliyuncs.com",
            ),
            // A server may be named like the bucket, or a part of it.
            (
                BucketFields {
                    name: "nyc3",
                    ..fields("generic", "nyc3.digitaloceanspaces.com")
                },
                "https://nyc3.digitaloceanspaces.com/nyc3",
            ),
            (
                fields("generic", "https://charts.example.com"),
                "https://charts.example.com/charts",
            ),
            (
                fields("azure", "https://charts.blob.core.windows.net"),
                "https://charts.blob.core.windows.net/charts",
            ),
            (
                BucketFields {
                    region: "cn-north-1",
                    ..fields("aws", "")
                },
                "https://s3.cn-north-1.amazonaws.com.cn/charts",
            ),
        ] {
            assert_eq!(BucketLocation::parse(&fields).unwrap().shown(), expected);
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_its_text_and_the_fix() {
        let with = |change: fn(&mut BucketFields<'static>)| {
            let mut all = fields("generic", "s3.example.com");
            change(&mut all);
            BucketLocation::parse(&all).unwrap_err().to_string()
        };
        for (error, expected) in [
            (
                with(|all| all.provider = "s3"),
                "provider \"s3\" is not known; use generic",
            ),
            (
                with(|all| all.name = "s3://charts"),
                "bucketName \"s3://charts\" is not",
            ),
            (with(|all| all.name = "a..b"), "bucketName"),
            (with(|all| all.name = "ab"), "bucketName"),
            (with(|all| all.region = "eu west"), "region \"eu west\" is not"),
            (with(|all| all.prefix = "team#x"), "has ?, # or % in it"),
            (
                with(|all| all.prefix = "/charts"),
                "prefix \"/charts\" is no folder",
            ),
            (with(|all| all.endpoint = ""), "endpoint \"\" is missing"),
            (
                with(|all| all.endpoint = "http://s3.example.com"),
                "set insecure: true",
            ),
            (with(|all| all.endpoint = "ftp://s3.example.com"), "scheme"),
            (
                with(|all| all.endpoint = "https://s3.example.com/charts"),
                "has a path",
            ),
            (
                with(|all| all.endpoint = "https://s3.example.com?sig=a"),
                "key sasKey",
            ),
            (with(|all| all.endpoint = "a b"), "white space"),
            (
                with(|all| (all.provider, all.endpoint) = ("azure", "https://10.0.0.1")),
                "storage account",
            ),
        ] {
            assert!(error.contains(expected), "{expected:?} is missing in: {error}");
        }
        for (endpoint, expected) in [
            ("https://user:geheim@s3.example.com", "login"),
            ("https://acme.blob.core.windows.net?sp=r&sig=geheim", "key sasKey"),
            ("ftp://s3.example.com?sig=geheim", "scheme"),
        ] {
            let mut all = fields("azure", "");
            all.endpoint = endpoint;
            let error = BucketLocation::parse(&all).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("geheim"), "{error}");
        }
        let with_container = fields("azure", "https://acme.blob.core.windows.net/charts");
        let error = BucketLocation::parse(&with_container).unwrap_err().to_string();
        assert!(error.contains("has a path"), "{error}");
    }

    #[test]
    fn objects_are_below_the_prefix() {
        let at = |prefix| {
            let fields = BucketFields {
                prefix,
                ..fields("aws", "")
            };
            BucketLocation::parse(&fields).unwrap()
        };
        let path = ChartPath::parse("web/Chart.yaml").unwrap();
        assert_eq!(at("").object(&path), "web/Chart.yaml");
        assert_eq!(at("a/b/").object(&path), "a/b/web/Chart.yaml");
        let identity = "bucket+https://s3.amazonaws.com/charts";
        assert_eq!(at("").identity(), identity);
        assert_eq!(at("a/b/").identity(), format!("{identity}/a/b"));
        assert_eq!(
            (&*at("").listed_prefix(), &*at("a/b").listed_prefix()),
            ("", "a/b/")
        );
    }
}
