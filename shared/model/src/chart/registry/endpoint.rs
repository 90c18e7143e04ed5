//! The URLs of a registry's API.

use url::{ParseError, Url};

use super::reference::Reference;

/// How many tags to request per page. Most registries default to 100, and some reject more than 1000.
pub const PAGE_SIZE: u32 = 1000;

/// The media types of manifests, for the header `Accept`. A registry returns a manifest only if its type is listed: a
/// chart is an OCI manifest, but may be stored behind an index or in Docker's older formats.
pub const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// How to connect to a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Over TLS.
    Https,
    /// In plain text, because the Secret sets `basicHTTP`.
    PlainHttp,
}

impl Transport {
    /// The scheme of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::PlainHttp => "http",
        }
    }
}

/// The name of Docker Hub in references. Its API has another host.
pub const DOCKER_HUB: &str = "docker.io";
/// The host of the API of Docker Hub.
pub const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// The API of a repository in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// How to connect.
    pub transport: Transport,
    /// Name of the repository.
    pub repository: &'a str,
    /// Its path is a prefix of all paths of the API.
    base: Url,
}

impl<'a> Endpoint<'a> {
    /// The API of the registry that the reference names.
    ///
    /// # Errors
    /// If the HTTP client cannot parse the host or the port.
    pub fn of(transport: Transport, reference: &Reference<'a>) -> Result<Self, ParseError> {
        let Reference {
            registry, repository, ..
        } = reference;
        // As Helm does. All other registries have the host that a reference names.
        let registry = if *registry == DOCKER_HUB {
            DOCKER_HUB_API
        } else {
            registry
        };
        let base = Url::parse(&format!("{}://{registry}/v2/{repository}/", transport.scheme()))?;
        Ok(Self {
            transport,
            repository,
            base,
        })
    }

    /// URL of the first page of the tags.
    pub fn tags_url(&self) -> Url {
        let mut url = self.below("tags/list");
        url.set_query(Some(&format!("n={PAGE_SIZE}")));
        url
    }

    /// URL of the manifest of a tag or digest.
    pub fn manifest_url(&self, tag_or_digest: &str) -> Url {
        self.below(&format!("manifests/{tag_or_digest}"))
    }

    /// The URL of a blob, such as the archive of a chart.
    pub fn blob_url(&self, digest: &str) -> Url {
        self.below(&format!("blobs/{digest}"))
    }

    /// The scope that a token needs for both.
    pub fn pull_scope(&self) -> String {
        format!("repository:{}:pull", self.repository)
    }

    /// Its URL; the API has nothing there.
    pub const fn base_url(&self) -> &Url {
        &self.base
    }

    fn below(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_the_transport_host_and_repository() {
        let reference = Reference::parse("oci://H:5000/charts/web:1.2.3").unwrap();
        let endpoint = Endpoint::of(Transport::Https, &reference).unwrap();
        assert_eq!(
            endpoint.tags_url().as_str(),
            "https://h:5000/v2/charts/web/tags/list?n=1000"
        );
        assert_eq!(endpoint.pull_scope(), "repository:charts/web:pull");
        let endpoint = Endpoint::of(Transport::PlainHttp, &reference).unwrap();
        for tag in ["1.2.3_b", "sha256:ab"] {
            assert_eq!(
                endpoint.manifest_url(tag).as_str(),
                format!("http://h:5000/v2/charts/web/manifests/{tag}")
            );
            assert_eq!(
                endpoint.blob_url(tag).as_str(),
                format!("http://h:5000/v2/charts/web/blobs/{tag}")
            );
        }
    }

    #[test]
    fn docker_hub_has_another_host_than_its_name() {
        for (text, host) in [
            ("oci://docker.io/org/web", "registry-1.docker.io"),
            ("oci://registry-1.docker.io/org/web", "registry-1.docker.io"),
            ("oci://other.docker.io/org/web", "other.docker.io"),
        ] {
            let endpoint = Endpoint::of(Transport::Https, &Reference::parse(text).unwrap()).unwrap();
            assert_eq!(endpoint.base_url().host_str(), Some(host), "{text}");
        }
    }

    #[test]
    fn a_host_that_the_client_cannot_parse_is_an_error() {
        for text in ["oci://h%2f.example/web", "oci://1.2.3.4.5/web"] {
            let reference = Reference::parse(text).unwrap();
            assert!(Endpoint::of(Transport::Https, &reference).is_err(), "{text}");
        }
    }
}
