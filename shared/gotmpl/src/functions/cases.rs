//! Upper and lower case, as in `strings`, `goutils` and `xstrings`.

/// `unicode.ToUpper` of each character, one by one, so `ß` does not change.
pub fn upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

/// `unicode.ToLower` of each character.
pub fn lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

fn upper_char(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

fn lower_char(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// `unicode.ToTitle`, which differs from upper case for the digraphs such as `ǆ`.
fn title_char(c: char) -> char {
    match upper_char(c) {
        'Ǆ' | 'ǅ' => 'ǅ',
        'Ǉ' | 'ǈ' => 'ǈ',
        'Ǌ' | 'ǋ' => 'ǋ',
        'Ǳ' | 'ǲ' => 'ǲ',
        upper => upper,
    }
}

/// `unicode.IsTitle` of the digraphs.
const fn is_title(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

/// `strings.Title`: the first letter of each word in upper case.
pub fn title(text: &str) -> String {
    let mut before = ' ';
    text.chars()
        .map(|c| {
            let is_first = separates(before);
            before = c;
            if is_first { title_char(c) } else { c }
        })
        .collect()
}

fn separates(c: char) -> bool {
    if c.is_ascii() {
        !(c.is_ascii_alphanumeric() || c == '_')
    } else {
        !c.is_alphanumeric() && c.is_whitespace()
    }
}

/// The first letter of each word, in lower case.
pub fn untitle(text: &str) -> String {
    let mut is_first = true;
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                is_first = true;
                c
            } else if std::mem::take(&mut is_first) {
                lower_char(c)
            } else {
                c
            }
        })
        .collect()
}

/// Swaps the case of each letter.
pub fn swap(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_uppercase() || is_title(c) {
                lower_char(c)
            } else if c.is_lowercase() {
                upper_char(c)
            } else {
                c
            }
        })
        .collect()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// `some_words` to `SomeWords`.
pub fn camel(text: &str) -> String {
    let connectors = text.len() - text.trim_start_matches(is_connector).len();
    let (mut out, words) = match text.split_at_checked(connectors) {
        Some((before, words)) => (before.to_owned(), words),
        None => return text.to_owned(),
    };
    let mut chars = words.chars();
    let Some(first) = chars.next() else {
        // Go's function writes the last character twice.
        out.extend(text.chars().next_back());
        return out;
    };
    // After a capital, further capitals become lower case, until a lower-case letter follows.
    let mut after_capital = first.is_uppercase();
    let mut last = upper_char(first);
    for c in chars {
        let mut c = c;
        if is_connector(last) && !is_connector(c) {
            after_capital = c.is_uppercase();
            c = upper_char(c);
        } else {
            if !is_connector(last) && after_capital {
                if c.is_uppercase() {
                    c = lower_char(c);
                } else {
                    after_capital = false;
                }
            }
            out.push(last);
        }
        last = c;
    }
    out.push(last);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// `SomeWords` to `some_words`, with any character between the words.
pub fn separated(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            append(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                (kind, word, rest) = append_alphanumeric(&mut out, (kind, word, rest), connector);
                if !matches!(kind, Word::None | Word::Punctuation | Word::Connector) {
                    out.push(connector);
                }
            }
            Word::Connector => append(&mut out, before, last, connector),
            Word::Punctuation => {}
            Word::None | Word::Upper | Word::Alphabet | Word::Other if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            Word::None | Word::Upper | Word::Alphabet | Word::Other if rest.is_empty() => {}
            Word::None | Word::Upper | Word::Alphabet | Word::Other => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                // A number belongs to the previous word, unless lower-case letters follow it.
                if kind == Word::Alphabet {
                    out.push(connector);
                    append(&mut out, Word::Number, number, connector);
                    (kind, word, rest) = append_alphanumeric(&mut out, (kind, word, rest), connector);
                    if !matches!(kind, Word::None | Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                } else {
                    append(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                }
            }
        }
    }
    append(&mut out, kind, word, connector);
    out
}

type NextWord<'t> = (Word, &'t str, &'t str);

fn append_alphanumeric<'t>(out: &mut String, next: NextWord<'t>, connector: char) -> NextWord<'t> {
    let mut next = next;
    while matches!(next.0, Word::Alphabet | Word::Number) {
        append(out, next.0, next.1, connector);
        next = next_word(next.2);
    }
    next
}

fn append(out: &mut String, kind: Word, word: &str, connector: char) {
    if !matches!(kind, Word::Upper | Word::Connector) {
        out.push_str(word);
        return;
    }
    out.extend(
        word.chars()
            .map(|c| if is_connector(c) { connector } else { lower_char(c) }),
    );
}

/// The first word of a text, and the rest.
fn next_word(text: &str) -> NextWord<'_> {
    let Some(first) = text.chars().next() else {
        return (Word::None, "", "");
    };
    let is_lower = |c: char| c.is_alphabetic() && !c.is_uppercase();
    let (kind, length) = if is_connector(first) {
        (Word::Connector, run(text, is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(text, is_punctuation))
    } else if first.is_uppercase() {
        let capitals = run(text, char::is_uppercase);
        let after = text.get(capitals..).unwrap_or_default();
        let lower = run(after, is_lower);
        let last = text
            .get(..capitals)
            .and_then(|text| text.chars().next_back())
            .map_or(0, char::len_utf8);
        let length = match (capitals > first.len_utf8(), lower > 0) {
            // The last capital starts the next word, as in `HTTPStatus`.
            (true, true) => capitals - last,
            (true, false) => capitals,
            (false, _) => capitals + lower,
        };
        (Word::Upper, length)
    } else if first.is_alphabetic() {
        (Word::Alphabet, run(text, is_lower))
    } else if first.is_numeric() {
        (Word::Number, run(text, char::is_numeric))
    } else {
        let is_other = |c: char| !(is_connector(c) || c.is_alphanumeric() || is_punctuation(c));
        (Word::Other, run(text, is_other))
    };
    let (word, rest) = text.split_at_checked(length).unwrap_or((text, ""));
    (kind, word, rest)
}

/// The length in bytes of the prefix of such characters.
fn run(text: &str, is_one: impl Fn(char) -> bool) -> usize {
    text.len() - text.trim_start_matches(is_one).len()
}

/// `unicode.IsPunct` for ASCII, which treats some characters as symbols instead.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c)
}
