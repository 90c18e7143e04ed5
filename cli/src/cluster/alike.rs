//! Names that are alike, for messages about one that does not exist.

/// How many are shown.
const MAX: usize = 5;

/// The names that are like `wanted`, best first: it differs in a few letters, or one contains the other.
pub fn alike(wanted: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    let names = names.into_iter().map(Into::into);
    let mut found: Vec<_> = names
        .filter_map(|name| Some((distance(wanted, &name)?, name)))
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(MAX).map(|(_, name)| name).collect()
}

/// The number of letters that differ; `None` if there are too many. A part of a name is next to it.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, name) = (&*wanted.to_lowercase(), &*name.to_lowercase());
    let typed = strsim::osa_distance(wanted, name);
    let is_part = wanted.len() >= 3 && name.contains(wanted) || name.len() >= 3 && wanted.contains(name);
    let few = wanted.chars().count().div_ceil(3).min(3);
    (is_part || typed <= few).then_some(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_few_differences_or_a_common_part_are_alike() {
        let names = ["web", "web-shop", "shop", "redis", "ewb", "weba"];
        for (wanted, expected) in [
            ("wbe", vec!["web"]),
            ("web", vec!["web", "ewb", "weba", "web-shop"]),
            ("shop", vec!["shop", "web-shop"]),
            ("redsi", vec!["redis"]),
            ("postgres", vec![]),
            ("x", vec![]),
        ] {
            assert_eq!(alike(wanted, names), expected, "{wanted}");
        }
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let names = (0..100).map(|number| format!("web-{number}"));
        assert_eq!(alike("web", names).len(), MAX);
    }
}
