//! What a page can show.

/// The subject of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The list of HelmOps.
    HelmOps,
    /// The list of clusters.
    Clusters,
    /// One HelmOp.
    HelmOp {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Topic {
    /// The topic of a path such as `helmops`, `clusters` or `helmops/NAMESPACE/NAME`; `None` if it has none.
    pub fn parse(path: &str) -> Option<Self> {
        match path {
            "helmops" => return Some(Self::HelmOps),
            "clusters" => return Some(Self::Clusters),
            _ => {}
        }
        let (namespace, name) = path.strip_prefix("helmops/")?.split_once('/')?;
        (is_name(namespace) && is_name(name)).then(|| Self::HelmOp {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Whether a text can be the name of an object: it becomes a part of selectors and paths of the API.
fn is_name(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_at_end = |byte: Option<u8>| byte.is_some_and(is_alphanumeric);
    text.len() <= 253
        && is_at_end(text.bytes().next())
        && is_at_end(text.bytes().next_back())
        && text
            .bytes()
            .all(|byte| is_alphanumeric(byte) || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_topic_and_nothing_else() {
        let helmop = |namespace: &str, name: &str| {
            Some(Topic::HelmOp {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        let long = "a".repeat(254);
        for (path, expected) in [
            ("helmops", Some(Topic::HelmOps)),
            ("clusters", Some(Topic::Clusters)),
            ("helmops/shop/web", helmop("shop", "web")),
            ("helmops/shop/web.v2", helmop("shop", "web.v2")),
            ("", None),
            ("helmops/", None),
            ("helmops/shop", None),
            ("helmops/shop/", None),
            ("helmops/shop/web/x", None),
            ("helmops/shop/a,b=c", None),
            ("helmops/shop/%2e%2e", None),
            ("helmops/Shop/web", None),
            ("helmops/../web", None),
            ("helmops/shop/..", None),
            ("helmops/shop/-web", None),
            (&format!("helmops/shop/{long}"), None),
            ("secrets", None),
        ] {
            assert_eq!(Topic::parse(path), expected, "{path}");
        }
    }
}
