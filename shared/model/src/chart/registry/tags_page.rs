//! A page of a repository's tags: `{"name":"charts/web","tags":["1.2.3"]}`.

use std::{borrow::Cow, fmt};

use helm_index::tags::is_tag;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::error::Category;
use thiserror::Error;

use super::error_body::{self, RegistryError};

/// The longest page that is read, in bytes: the same as in Fleet and Helm.
pub const MAX_LEN: usize = 4 * 1024 * 1024;

/// How many tags a page may have. Some registries return all tags although 1000 are requested.
pub const MAX_TAGS: usize = 100_000;

/// How many pages are read. Bounds a list that a registry never ends.
pub const MAX_PAGES: usize = 100;

/// The tags of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagsPage<'b> {
    /// The tags, in the order of the page. Borrowed from its body if they have no escapes.
    pub tags: Vec<Cow<'b, str>>,
    /// How many elements were skipped because they are not tags.
    pub skipped: u64,
}

/// Why a page has no usable tags.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PageError {
    /// The page is too long.
    #[error("the registry's page of tags is longer than {} MiB", MAX_LEN / (1024 * 1024))]
    TooLong,
    /// The page has too many tags.
    #[error("the registry's page of tags has more than {MAX_TAGS} tags")]
    TooManyTags,
    /// An error with a status of success.
    #[error("the registry responded with an error instead of tags: {0}")]
    Registry(RegistryError),
    /// Not JSON, or truncated.
    #[error(
        "the registry's page of tags is not JSON ({detail}); it begins with {beginning:?}: is this the address of a registry?"
    )]
    NotJson {
        /// The error of the JSON parser.
        detail: String,
        /// The first bytes of the page.
        beginning: String,
    },
    /// JSON without a list of tags.
    #[error("the registry's response has no list of tags: is this the address of a registry?")]
    NotATagList,
}

/// Parses the body of a page of tags.
///
/// Some registries send `"tags": null` for a repository without tags. Elements that are not tags are skipped, and so are all
/// other fields; of several lists the last one is used.
///
/// # Errors
/// When there is no list of tags, or a limit is exceeded.
pub fn decode(body: &[u8]) -> Result<TagsPage<'_>, PageError> {
    if body.len() > MAX_LEN {
        return Err(PageError::TooLong);
    }
    match serde_json::from_slice(body).map(|Body { list }| list) {
        Ok(Some(list)) if list.kept.len() > MAX_TAGS => Err(PageError::TooManyTags),
        Ok(Some(List { kept: tags, skipped })) => Ok(TagsPage { tags, skipped }),
        Ok(None) => Err(not_a_list(body)),
        Err(error) => Err(match error.classify() {
            Category::Data => not_a_list(body),
            Category::Syntax | Category::Eof | Category::Io => PageError::NotJson {
                detail: error.to_string(),
                beginning: beginning(body),
            },
        }),
    }
}

/// The error for JSON without tags.
fn not_a_list(body: &[u8]) -> PageError {
    error_body::decode(body).map_or(PageError::NotATagList, PageError::Registry)
}

/// The first bytes of a body, for messages.
fn beginning(body: &[u8]) -> String {
    // Enough to distinguish a web page from a truncated list.
    const SHOWN: usize = 40;
    let (first, _) = body.split_at(SHOWN.min(body.len()));
    String::from_utf8_lossy(first).into_owned()
}

/// The page: an object, of which only the list of tags is kept.
struct Body<'b> {
    list: Option<List<'b>>,
}

/// The list of tags, with one more than allowed if the page has too many.
#[derive(Default)]
struct List<'b> {
    kept: Vec<Cow<'b, str>>,
    skipped: u64,
}

/// An element of the list; `None` if it is not a tag.
struct Element<'b>(Option<Cow<'b, str>>);

impl<'de> Deserialize<'de> for Body<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
                let mut list = None;
                while let Some(field) = map.next_key::<String>()? {
                    if field == "tags" {
                        list = Some(map.next_value::<Option<List<'_>>>()?.unwrap_or_default());
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Body { list })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for List<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = List<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<'de>, A::Error> {
                let mut list = List::default();
                while let Some(Element(tag)) = seq.next_element()? {
                    match tag {
                        // The caller detects the excess by the one extra tag.
                        Some(tag) if list.kept.len() <= MAX_TAGS => list.kept.push(tag),
                        Some(_) => {}
                        None => list.skipped += 1,
                    }
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

impl<'de> Deserialize<'de> for Element<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Element<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Element<'de>, E> {
                Ok(Element(is_tag(text).then_some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Element<'de>, E> {
                Ok(Element(is_tag(text).then(|| Cow::Owned(text.to_owned()))))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Element<'de>, E> {
                Ok(Element(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Element<'de>, E> {
                Ok(Element(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Element<'de>, E> {
                Ok(Element(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Element<'de>, E> {
                Ok(Element(None))
            }

            fn visit_unit<E>(self) -> Result<Element<'de>, E> {
                Ok(Element(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Element<'de>, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| Element(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Element<'de>, A::Error> {
                IgnoredAny.visit_map(map).map(|_| Element(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(body: &str) -> Result<(Vec<String>, u64), PageError> {
        decode(body.as_bytes())
            .map(|page| (page.tags.into_iter().map(Cow::into_owned).collect(), page.skipped))
    }

    #[test]
    fn tags_are_parsed_and_other_elements_skipped() {
        for (body, tags, skipped) in [
            (
                r#"{"name":"a/b","tags":["1.2.3","latest"]}"#,
                &["1.2.3", "latest"][..],
                0,
            ),
            (r#"{"tags":[]}"#, &[], 0),
            (r#"{"name":"a","tags":null}"#, &[], 0),
            (
                r#"{"manifest":{"sha256:x":{"tag":["y"]}},"tags":["a"],"child":[{"tags":["z"]}]}"#,
                &["a"],
                0,
            ),
            (
                r#"{"tags":["a","",".b","a/b",1,-1,1.5,null,true,["x"],{"y":[1]},"c"]}"#,
                &["a", "c"],
                10,
            ),
            (r#"{"tags":["old"],"tags":["new"]}"#, &["new"], 0),
            (r#"{"ta\u0067s":["\u0061"]}"#, &["a"], 0),
            (" {\"tags\" : [ \"a\" ] }\n", &["a"], 0),
        ] {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            assert_eq!(decoded(body), Ok((tags, skipped)), "{body}");
        }
    }

    #[test]
    fn a_body_without_tags_is_described() {
        for body in [
            "{}",
            "[]",
            "1",
            r#"["a"]"#,
            r#"{"name":"a"}"#,
            r#"{"tags":"a"}"#,
            r#"{"tags":{"a":1}}"#,
        ] {
            assert_eq!(decoded(body), Err(PageError::NotATagList), "{body}");
        }
        for body in [
            "",
            "<html><body>Sign in</body></html>",
            r#"{"tags":["a""#,
            r#"{"tags":["a"]}x"#,
        ] {
            let Err(PageError::NotJson { beginning, .. }) = decoded(body) else {
                panic!("{body}")
            };
            assert!(body.starts_with(&beginning), "{beginning}");
        }
        let error = decoded(r#"{"errors":[{"code":"NAME_UNKNOWN","message":"m"}]}"#).unwrap_err();
        assert!(error.to_string().contains("NAME_UNKNOWN: m"), "{error}");
    }

    #[test]
    fn hostile_bodies_are_bounded() {
        assert_eq!(decode(&vec![b' '; MAX_LEN + 1]), Err(PageError::TooLong));
        let with = |count: usize| format!("{{\"tags\":[\"a\"{}]}}", ",\"a\"".repeat(count - 1));
        assert_eq!(decoded(&with(MAX_TAGS)).unwrap().0.len(), MAX_TAGS);
        assert_eq!(decoded(&with(MAX_TAGS + 1)), Err(PageError::TooManyTags));
        let text = with(MAX_TAGS + 100);
        let Body { list } = serde_json::from_str(&text).unwrap();
        assert_eq!(list.unwrap().kept.len(), MAX_TAGS + 1);
        let deep = format!("{{\"tags\":{}", "[".repeat(1_000_000));
        assert!(matches!(decoded(&deep), Err(PageError::NotJson { .. })));
    }
}
