//! The pages: files of this folder, inside the program.

/// A file that is served.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The path of its URL.
    pub path: &'static str,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The document of all pages.
pub const PAGE: Asset = Asset {
    path: "/",
    content_type: "text/html; charset=utf-8",
    content: include_str!("assets/page.html"),
};

macro_rules! assets {
    ($($content_type:expr => $file:literal,)*) => {
        &[$(Asset {
            path: concat!("/assets/", $file),
            content_type: $content_type,
            content: include_str!(concat!("assets/", $file)),
        },)*]
    };
}

/// All other files.
pub const ASSETS: &[Asset] = assets! {
    "text/css; charset=utf-8" => "style.css",
    "image/svg+xml" => "icon.svg",
    SCRIPT => "main.js",
    SCRIPT => "session.js",
    SCRIPT => "live.js",
    SCRIPT => "dom.js",
    SCRIPT => "words.js",
    SCRIPT => "pictures.js",
    SCRIPT => "listing.js",
    SCRIPT => "helmops.js",
    SCRIPT => "helmop.js",
    SCRIPT => "clusters.js",
};

/// The file at a path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    fn all() -> impl Iterator<Item = &'static Asset> {
        std::iter::once(&PAGE).chain(ASSETS)
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_every_reference_leads_to_one() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui/assets");
        let files = fs::read_dir(folder).unwrap().map(|file| {
            let name = file.unwrap().file_name();
            format!("/assets/{}", name.to_str().unwrap())
        });
        let files: BTreeSet<_> = files.filter(|path| path != "/assets/page.html").collect();
        let served: BTreeSet<_> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(files, served);
        for asset in all() {
            for reference in asset
                .content
                .split('"')
                .filter(|text| text.starts_with("/assets/") || text.starts_with("./"))
            {
                let path = reference.replacen("./", "/assets/", 1);
                assert!(find(&path).is_some(), "{reference} in {}", asset.path);
            }
        }
    }

    /// Texts of the cluster are data: no function that parses HTML or code is called, and nothing is loaded from elsewhere.
    #[test]
    fn texts_cannot_become_markup_or_code_and_nothing_is_loaded_from_elsewhere() {
        for asset in all() {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "DOMParser",
                "createContextualFragment",
                "setHTML",
                "srcdoc",
                "eval(",
                "Function(",
                "setTimeout(\"",
                "javascript:",
                "https://",
                " style=",
                "onclick=",
            ] {
                assert!(
                    !asset.content.contains(forbidden),
                    "{forbidden} in {}",
                    asset.path
                );
            }
            let elsewhere = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://"), "{}", asset.path);
        }
        assert!(!PAGE.content.contains("<script>"), "scripts are files");
    }
}
