//! Requests.

use super::{
    advertisement::{Capabilities, Version},
    packet::{push, push_delimiter, push_flush},
    references::ReferenceQuery,
};
use crate::ObjectId;

/// Who sends the request.
const AGENT: &str = concat!("agent=helmops/", env!("CARGO_PKG_VERSION"));

/// What is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchRequest {
    /// A commit without those before it, with its folders, and if the server cannot leave them out, with its files.
    Commit(ObjectId),
    /// The same with its files in any case.
    Whole(ObjectId),
    /// Files, which only a server with filters sends.
    Files(Vec<ObjectId>),
}

/// The body of a request for references, in version 2.
pub fn references_request(capabilities: Capabilities, query: &ReferenceQuery) -> Vec<u8> {
    let mut request = command("ls-refs", capabilities);
    push(&mut request, "peel\n");
    push(&mut request, &format!("ref-prefix {}\n", query.prefix()));
    push_flush(&mut request);
    request
}

/// The body of a request for a pack.
pub fn fetch_request(capabilities: Capabilities, wanted: &FetchRequest) -> Vec<u8> {
    match (capabilities.version, wanted) {
        (Version::Old, wanted) => old_fetch(capabilities, wanted),
        (Version::Two, FetchRequest::Commit(commit)) => {
            let mut request = fetch(capabilities);
            push(&mut request, "deepen 1\n");
            if capabilities.has_filter {
                push(&mut request, "filter blob:none\n");
            }
            want(&mut request, std::slice::from_ref(commit));
            request
        }
        (Version::Two, FetchRequest::Whole(commit)) => {
            let mut request = fetch(capabilities);
            push(&mut request, "deepen 1\n");
            want(&mut request, std::slice::from_ref(commit));
            request
        }
        (Version::Two, FetchRequest::Files(files)) => {
            let mut request = fetch(capabilities);
            want(&mut request, files);
            request
        }
    }
}

fn command(name: &str, capabilities: Capabilities) -> Vec<u8> {
    let mut request = Vec::new();
    push(&mut request, &format!("command={name}\n"));
    push(&mut request, &format!("{AGENT}\n"));
    if capabilities.names_format {
        push(
            &mut request,
            &format!("object-format={}\n", capabilities.format.as_str()),
        );
    }
    push_delimiter(&mut request);
    request
}

fn fetch(capabilities: Capabilities) -> Vec<u8> {
    let mut request = command("fetch", capabilities);
    push(&mut request, "no-progress\n");
    push(&mut request, "ofs-delta\n");
    request
}

fn want(request: &mut Vec<u8>, wanted: &[ObjectId]) {
    for id in wanted {
        push(request, &format!("want {id}\n"));
    }
    // Nothing is there already.
    push(request, "done\n");
    push_flush(request);
}

/// The features are in the line of the first object.
fn old_fetch(capabilities: Capabilities, wanted: &FetchRequest) -> Vec<u8> {
    let wanted = match wanted {
        FetchRequest::Commit(commit) | FetchRequest::Whole(commit) => std::slice::from_ref(commit),
        FetchRequest::Files(files) => files,
    };
    let mut request = Vec::new();
    let mut features = format!(" side-band-64k ofs-delta no-progress {AGENT}");
    if capabilities.names_format {
        features = format!("{features} object-format={}", capabilities.format.as_str());
    }
    for id in wanted {
        push(&mut request, &format!("want {id}{features}\n"));
        features.clear();
    }
    push(&mut request, "deepen 1\n");
    push_flush(&mut request);
    push(&mut request, "done\n");
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectFormat;

    const A: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn server(version: Version, has_filter: bool) -> Capabilities {
        Capabilities {
            version,
            has_filter,
            format: ObjectFormat::Sha1,
            names_format: true,
        }
    }

    #[test]
    fn a_request_has_what_the_server_understands() {
        let commit = ObjectId::from_hex(A).unwrap();
        let text = |request: Vec<u8>| String::from_utf8(request).unwrap();
        let fetch = |version, has_filter, wanted: &FetchRequest| {
            text(fetch_request(server(version, has_filter), wanted))
        };
        let one = &FetchRequest::Commit(commit);
        let filtered = fetch(Version::Two, true, one);
        assert!(filtered.contains("0015filter blob:none\n"), "{filtered}");
        assert!(
            filtered.contains("deepen 1\n") && filtered.ends_with("0009done\n0000"),
            "{filtered}"
        );
        let whole = fetch(Version::Two, false, one);
        assert!(
            !whole.contains("filter") && whole.contains("deepen 1\n"),
            "{whole}"
        );
        assert_eq!(fetch(Version::Two, true, &FetchRequest::Whole(commit)), whole);
        let files = FetchRequest::Files(vec![commit, commit]);
        let files = fetch(Version::Two, true, &files);
        assert!(
            !files.contains("deepen") && files.matches("want ").count() == 2,
            "{files}"
        );
        let old = fetch(Version::Old, false, one);
        assert!(
            old.contains(" side-band-64k ") && old.contains("deepen 1\n00000009done\n"),
            "{old}"
        );
        let list = text(references_request(
            server(Version::Two, true),
            &ReferenceQuery::Tag("v1".to_owned()),
        ));
        assert!(
            list.contains("ref-prefix refs/tags/v1\n") && list.contains("peel\n"),
            "{list}"
        );
    }
}
