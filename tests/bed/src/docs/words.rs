//! Words that the project does not use, because nobody searches for them.

use super::{Page, Problem, problem};

/// A word, and what to write instead.
const BANNED: [(&str, &str); 32] = [
    ("tell", "report, show or say which component does it"),
    ("tells", "reports or shows"),
    ("told", "reported"),
    ("telling", "reporting"),
    ("anew", "again"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("whoever", "name the user or component"),
    ("nobody", "name the user or component, or use no"),
    ("somebody", "name the user or component, or use another"),
    ("anybody", "every user, or name the component"),
    ("everybody", "every user, or name the components"),
    ("ask", "request, or name the action"),
    ("asks", "requests, or name the action"),
    ("asked", "requested"),
    ("asker", "client or caller"),
    ("answered", "responded, or the response is"),
    ("for ever", "forever"),
    ("hence", "so"),
    ("thus", "so"),
    ("in vain", "without success"),
    ("twin", "environment variable"),
    ("at the most", "at most"),
    ("at the least", "at least"),
    ("at once", "immediately, or at the same time"),
    ("stands by", "waits for leadership"),
    ("standing by", "waiting for leadership"),
    ("stand by", "wait for leadership"),
    ("begun", "started"),
    ("spared", "rate-limited, or backing off"),
    ("look-up", "resolution or request"),
];

/// Files that name the words.
const EXEMPT: [&str; 2] = ["CONTRIBUTING.md", "tests/bed/src/docs/words.rs"];

/// The beginning of what was released in the words of its time.
const RELEASED: &str = "## [";

/// Banned words in pages, and in comments, texts and names of sources.
pub fn check(pages: &[Page]) -> Vec<Problem> {
    // The glossary and this file name them.
    let pages = pages.iter().filter(|page| !EXEMPT.contains(&&*page.path));
    pages.flat_map(of_page).collect()
}

fn of_page(page: &Page) -> Vec<Problem> {
    let lines = page.lines().take_while(|(_, line)| !line.starts_with(RELEASED));
    lines
        .flat_map(|line| of_line(line.1).map(move |(word, instead)| (line, word, instead)))
        .map(|(line, word, instead)| problem(page, line, format!("{word:?}: write {instead}")))
        .collect()
}

fn of_line(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let words: Vec<_> = line
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty())
        .collect();
    let line = format!(" {} ", words.join(" ").to_lowercase());
    BANNED
        .into_iter()
        .filter(move |(word, _)| line.contains(&format!(" {word} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        check(&[Page::new("docs/a.md", text)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn whole_words_are_found_in_any_case() {
        assert_eq!(words("Intelligent, a teller, foretold."), Vec::<String>::new());
        assert_eq!(
            words("\nTell me."),
            ["docs/a.md:2: \"tell\": write report, show or say which component does it"]
        );
        assert_eq!(words("Ten at the most, at once.").len(), 2);
        assert_eq!(words("Asked once, it runs for ever.").len(), 2);
    }

    #[test]
    fn what_was_released_stays() {
        assert_eq!(
            words("# Changelog\n## [0.1.0]\nIt was told."),
            Vec::<String>::new()
        );
    }
}
