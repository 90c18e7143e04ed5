//! `.helmignore`: which files of a folder are no part of the chart. The rules are those of Helm, which differ from Git's: the first rule
//! that applies decides, and a rule with `!` ignores what it does not match.

use super::glob;

/// The file with the rules.
pub const HELMIGNORE: &str = ".helmignore";
/// Hidden files of templates are always ignored.
const DEFAULT: &str = "templates/.?*";
/// The longest rule, in bytes.
const MAX_RULE: usize = 1024;
/// The largest number of rules: each is compared with each file.
const MAX_RULES: usize = 1000;

/// Rules, in their order.
#[derive(Clone, Debug)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    pattern: String,
    /// It ignores what it does not match.
    is_negated: bool,
    /// It is for folders only.
    is_for_folders: bool,
    /// It is compared with the name only, in any folder.
    is_for_names: bool,
}

impl Rules {
    /// Reads a file with rules, and adds that of Helm.
    ///
    /// # Errors
    /// What is wrong with it, for a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let mut rules = Vec::new();
        for (number, line) in text.lines().chain([DEFAULT]).enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if rules.len() >= MAX_RULES {
                return Err(format!("it has more than {MAX_RULES} rules"));
            }
            let rule = Rule::parse(line).map_err(|problem| format!("line {} {problem}", number + 1))?;
            rules.push(rule);
        }
        Ok(Self(rules))
    }

    /// Whether a file or folder of the chart is ignored.
    pub fn ignore(&self, path: &str, is_folder: bool) -> bool {
        self.0
            .iter()
            .find_map(|rule| rule.decides(path, is_folder))
            .unwrap_or(false)
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, &'static str> {
        if line.contains("**") {
            return Err("has a double star (**), which Helm does not support");
        }
        if line.len() > MAX_RULE {
            return Err("is too long");
        }
        if glob::matches(line, "abc").is_err() {
            return Err("is not a valid pattern");
        }
        let (is_negated, line) = strip(line, str::strip_prefix, "!");
        let (is_for_folders, line) = strip(line, str::strip_suffix, "/");
        let (is_absolute, pattern) = strip(line, str::strip_prefix, "/");
        Ok(Self {
            is_for_names: !is_absolute && !pattern.contains('/'),
            pattern: pattern.to_owned(),
            is_negated,
            is_for_folders,
        })
    }

    /// Whether the path is ignored; `None` if the next rule decides.
    fn decides(&self, path: &str, is_folder: bool) -> Option<bool> {
        let is_for_it = is_folder || !self.is_for_folders;
        let matches = is_for_it && self.matches(path);
        (matches != self.is_negated).then_some(true)
    }

    fn matches(&self, path: &str) -> bool {
        let compared = if self.is_for_names {
            path.rsplit('/').next().unwrap_or_default()
        } else {
            path
        };
        // Without its prefix it is valid too, except for a class that ends there; then it matches nothing.
        glob::matches(&self.pattern, compared).unwrap_or(false)
    }
}

/// Whether a text has a mark, and the rest.
fn strip<'a>(
    text: &'a str,
    by: fn(&'a str, &'static str) -> Option<&'a str>,
    mark: &'static str,
) -> (bool, &'a str) {
    by(text, mark).map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Helm's `pkg/ignore/rules_test.go`. A path that ends with `/` is that of a folder.
    #[test]
    fn rules_ignore_as_in_helm() {
        for (rule, path, expected) in [
            ("helm.txt", "helm.txt", true),
            ("helm.*", "helm.txt", true),
            ("helm.*", "rudder.txt", false),
            ("*.txt", "tiller.txt", true),
            ("*.txt", "cargo/a.txt", true),
            ("cargo/*.txt", "cargo/a.txt", true),
            ("cargo/*.*", "cargo/a.txt", true),
            ("cargo/*.txt", "mast/a.txt", false),
            ("ru[c-e]?er.txt", "rudder.txt", true),
            ("x", "templates/.dotfile", true),
            ("x", "templates/a/.dotfile", false),
            (".*", ".joonix", true),
            (".*", "helm.txt", false),
            ("cargo/", "cargo/", true),
            ("cargo/", "mast/", false),
            ("helm.txt/", "helm.txt", false),
            ("!helm.txt", "helm.txt", false),
            ("!helm.txt", "tiller.txt", true),
            ("!*.txt", "cargo/", true),
            ("!cargo/", "mast/", true),
            ("!cargo/", "file", true),
            ("/a.txt", "a.txt", true),
            ("/a.txt", "cargo/a.txt", false),
            ("/cargo/a.txt", "cargo/a.txt", true),
            ("# comment", "# comment", false),
            ("\u{feff}a.txt", "a.txt", true),
        ] {
            let (name, is_folder) = path.strip_suffix('/').map_or((path, false), |name| (name, true));
            let rules = Rules::parse(rule).unwrap();
            assert_eq!(rules.ignore(name, is_folder), expected, "{rule} {path}");
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let rules = Rules::parse("*.md\n\n!keep.yaml\n").unwrap();
        assert!(rules.ignore("README.md", false) && rules.ignore("other.yaml", false));
        assert!(!rules.ignore("keep.yaml", false));
    }

    #[test]
    fn invalid_rules_are_reported_with_their_line() {
        for (text, expected) in [
            ("a\nfoo/**/bar", "line 2 has a double star"),
            ("[z-", "line 1 is not a valid pattern"),
        ] {
            let error = Rules::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Rules::parse(&"a\n".repeat(MAX_RULES + 1)).is_err());
    }
}
