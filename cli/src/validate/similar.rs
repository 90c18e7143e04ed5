//! The name that was probably meant.

/// The most similar of some names, if one is similar enough: with other capitals, or with at most a third of its letters changed.
pub fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let best = known
        .filter(|known| known.len().abs_diff(name.len()) <= 3)
        .map(|known| {
            (
                distance(&name.to_ascii_lowercase(), &known.to_ascii_lowercase()),
                known,
            )
        })
        .min()?;
    (best.0 <= best.1.len() / 3).then_some(best.1)
}

/// How many characters have to be inserted, removed, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let get = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut cost = (get(&last, column) + usize::from(a != b))
                .min(get(&last, column + 1) + 1)
                .min(get(&line, column) + 1);
            let is_swapped =
                row > 0 && column > 0 && one.get(row - 1) == Some(b) && other.get(column - 1) == Some(a);
            if is_swapped {
                cost = cost.min(get(&before, column - 1) + 1);
            }
            line.push(cost);
        }
        before = std::mem::replace(&mut last, line);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn small_mistakes_are_recognized() {
        let known = ["chart", "repo", "version", "values", "valuesFrom", "releaseName"];
        for (name, expected) in [
            ("chrat", Some("chart")),
            ("Chart", Some("chart")),
            ("release_name", Some("releaseName")),
            ("valueFrom", Some("valuesFrom")),
            ("value", Some("values")),
            ("url", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(similar(name, known.into_iter()), expected, "{name}");
        }
    }
}
