//! Where a registry answers: the URLs of its API.

use super::reference::Reference;

/// How many tags a page is to hold. Most registries give 100 unasked, and some refuse to give more than 1000.
pub const PAGE_SIZE: u32 = 1000;

/// The media types of manifests, for the header `Accept`. A registry answers with what it has only if it is named: a chart
/// is an OCI manifest, but may be kept behind an index or in Docker's older forms.
pub const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// How a registry is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Over TLS.
    Https,
    /// In the clear, because the Secret says so with `basicHTTP`.
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

/// A repository in a registry, as its API is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint<'a> {
    /// How.
    pub transport: Transport,
    /// Host and port. Not always those of the reference: a registry may answer under another name than its references
    /// have.
    pub host: &'a str,
    /// Name of the repository.
    pub repository: &'a str,
}

impl<'a> Endpoint<'a> {
    /// Where a reference says that its registry is.
    pub const fn of(transport: Transport, reference: &Reference<'a>) -> Self {
        Self {
            transport,
            host: reference.registry,
            repository: reference.repository,
        }
    }

    /// The first page of the tags.
    pub fn tags_url(&self) -> String {
        format!("{}/tags/list?n={PAGE_SIZE}", self.base())
    }

    /// The manifest that a tag or a digest names.
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
    fn urls() {
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
