//! The URLs of a registry's API.

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

/// The API of a repository in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint<'a> {
    /// How to connect.
    pub transport: Transport,
    /// Host and port. Not always those of the reference: the API of a registry may be at another host.
    pub host: &'a str,
    /// Name of the repository.
    pub repository: &'a str,
}

impl<'a> Endpoint<'a> {
    /// The API of the registry that the reference names.
    pub const fn of(transport: Transport, reference: &Reference<'a>) -> Self {
        Self {
            transport,
            host: reference.registry,
            repository: reference.repository,
        }
    }

    /// URL of the first page of the tags.
    pub fn tags_url(&self) -> String {
        format!("{}/tags/list?n={PAGE_SIZE}", self.base())
    }

    /// URL of the manifest of a tag or digest.
    pub fn manifest_url(&self, tag_or_digest: &str) -> String {
        format!("{}/manifests/{tag_or_digest}", self.base())
    }

    /// The scope that a token needs for both.
    pub fn pull_scope(&self) -> String {
        format!("repository:{}:pull", self.repository)
    }

    fn base(&self) -> String {
        format!(
            "{}://{}/v2/{}",
            self.transport.scheme(),
            self.host,
            self.repository
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_the_transport_host_and_repository() {
        let reference = Reference::parse("oci://h:5000/charts/web:1.2.3").unwrap();
        let endpoint = Endpoint::of(Transport::Https, &reference);
        assert_eq!(
            endpoint.tags_url(),
            "https://h:5000/v2/charts/web/tags/list?n=1000"
        );
        assert_eq!(endpoint.pull_scope(), "repository:charts/web:pull");
        let endpoint = Endpoint {
            transport: Transport::PlainHttp,
            host: "api.h",
            ..endpoint
        };
        assert_eq!(
            endpoint.manifest_url("1.2.3_b"),
            "http://api.h/v2/charts/web/manifests/1.2.3_b"
        );
    }
}
