//! From tokens to nodes.

mod pipe;

use std::ops::Range;

use super::{
    budget::Meter,
    check::UnsupportedFunction,
    error::TemplateError,
    lex,
    lex::{Kind, Token},
    node::{Branch, Node, Templates},
};

/// How deep blocks and parentheses nest: more than anybody writes, and little enough for the stack.
const MAX_DEPTH: usize = 50;

/// Parses a template.
pub fn parse(text: &str, meter: &Meter) -> Result<Templates, TemplateError> {
    parse_with(text, meter, None).map(|(templates, _)| templates)
}

/// Parses a template only to find its errors, and returns the unsupported functions that it calls, each once.
pub fn check(text: &str, meter: &Meter) -> Result<Vec<UnsupportedFunction>, TemplateError> {
    parse_with(text, meter, Some(Vec::new())).map(|(_, unsupported)| unsupported)
}

fn parse_with(
    text: &str,
    meter: &Meter,
    unsupported: Option<Vec<UnsupportedFunction>>,
) -> Result<(Templates, Vec<UnsupportedFunction>), TemplateError> {
    let tokens = lex::tokens(text, meter)?;
    let mut parser = Parser {
        text,
        tokens: &tokens,
        at: 0,
        variables: root_variables(),
        ranges: 0,
        depth: 0,
        templates: Templates::default(),
        unsupported,
        meter,
    };
    let (main, end) = parser.list(true)?;
    match end {
        Close::Text => {}
        Close::End(place) => return Err(parser.error(place, "unexpected {{end}}")),
        Close::Else(place) => return Err(parser.error(place, "unexpected {{else}}")),
    }
    parser.templates.main = main;
    Ok((parser.templates, parser.unsupported.unwrap_or_default()))
}

/// What a list of nodes ends with.
enum Close {
    Text,
    End(Range<usize>),
    Else(Range<usize>),
}

/// A node, or what ends the list that it would be in.
enum Item {
    Node(Node),
    /// It is defined elsewhere.
    Nothing,
    Ends(Close),
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
    /// The variables that can be seen.
    variables: Vec<String>,
    /// How many `range`s this is in.
    ranges: usize,
    depth: usize,
    templates: Templates,
    /// Where unsupported functions are collected; without it, the first one is an error.
    unsupported: Option<Vec<UnsupportedFunction>>,
    meter: &'t Meter,
}

type Parsed<T> = Result<T, TemplateError>;

impl<'t> Parser<'t> {
    fn list(&mut self, is_main: bool) -> Parsed<(Vec<Node>, Close)> {
        let mut nodes = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                Kind::End if is_main => return Ok((nodes, Close::Text)),
                Kind::End => return Err(self.error(token.place, "unexpected EOF; an {{end}} is missing")),
                Kind::Left => match self.action(is_main && self.depth == 0)? {
                    Item::Node(node) => nodes.push(node),
                    Item::Nothing => {}
                    Item::Ends(end) => return Ok((nodes, end)),
                },
                _ => nodes.push(Node::Text(token.place)),
            }
        }
    }

    /// An action; its delimiter is past.
    fn action(&mut self, can_define: bool) -> Parsed<Item> {
        self.space();
        let token = self.peek();
        let word = if token.kind == Kind::Word {
            self.text_of(&token)
        } else {
            ""
        };
        let keyword = matches!(
            word,
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template" | "with"
        );
        if keyword {
            self.at += 1;
        }
        let node = match word {
            "if" => Node::If(self.branch("if")?),
            "with" => Node::With(self.branch("with")?),
            "range" => Node::Range(self.branch("range")?),
            "end" => {
                self.expect_right("end")?;
                return Ok(Item::Ends(Close::End(token.place)));
            }
            "else" => {
                self.space();
                let next = self.peek();
                let chained = next.kind == Kind::Word && matches!(self.text_of(&next), "if" | "with");
                if !chained {
                    self.expect_right("else")?;
                }
                return Ok(Item::Ends(Close::Else(token.place)));
            }
            "break" | "continue" => {
                self.expect_right(word)?;
                if self.ranges == 0 {
                    return Err(self.error(token.place, format!("{{{{{word}}}}} outside {{{{range}}}}")));
                }
                if word == "break" {
                    Node::Break
                } else {
                    Node::Continue
                }
            }
            "define" if can_define => {
                self.define()?;
                return Ok(Item::Nothing);
            }
            "define" => return Err(self.error(token.place, "unexpected {{define}}")),
            "block" | "template" => self.template(word == "block")?,
            _ => Node::Action(self.pipe("command", Kind::Right)?),
        };
        Ok(Item::Node(node))
    }

    fn branch(&mut self, what: &str) -> Parsed<Branch> {
        let seen = self.variables.len();
        let pipe = self.pipe(what, Kind::Right)?;
        self.deeper(&pipe.place)?;
        let is_range = usize::from(what == "range");
        self.ranges += is_range;
        let (then, end) = self.list(false)?;
        self.ranges -= is_range;
        let otherwise = match end {
            Close::Else(place) => Some(self.otherwise(what, place)?),
            Close::End(_) | Close::Text => None,
        };
        self.depth -= 1;
        self.variables.truncate(seen);
        Ok(Branch {
            pipe,
            then,
            otherwise,
        })
    }

    fn otherwise(&mut self, what: &str, place: Range<usize>) -> Parsed<Vec<Node>> {
        let token = self.peek();
        // `else if` stands for an `if` within the `else`, and needs no end of its own.
        if token.kind == Kind::Word {
            let word = self.text_of(&token);
            if word != what {
                return Err(self.error(place, format!("unexpected {word} after else")));
            }
            self.at += 1;
            let branch = self.branch(what)?;
            return Ok(vec![if what == "if" {
                Node::If(branch)
            } else {
                Node::With(branch)
            }]);
        }
        let (nodes, end) = self.list(false)?;
        match end {
            Close::End(_) => Ok(nodes),
            Close::Else(place) => Err(self.error(place, "expected end; found {{else}}")),
            Close::Text => Err(self.error(place, "unexpected EOF")),
        }
    }

    fn define(&mut self) -> Parsed<()> {
        let (name, place) = self.name("define clause")?;
        self.expect_right("define clause")?;
        let body = self.body(&place, "define clause")?;
        self.add(name, body);
        Ok(())
    }

    fn template(&mut self, is_block: bool) -> Parsed<Node> {
        let context = if is_block {
            "block clause"
        } else {
            "template clause"
        };
        let (name, place) = self.name(context)?;
        self.space();
        let pipe = if !is_block && self.peek().kind == Kind::Right {
            self.at += 1;
            None
        } else {
            Some(self.pipe(context, Kind::Right)?)
        };
        if is_block {
            let body = self.body(&place, context)?;
            self.add(name.clone(), body);
        }
        Ok(Node::Template { place, name, pipe })
    }

    /// The body of a template of its own, which sees no variables from outside.
    fn body(&mut self, place: &Range<usize>, context: &str) -> Parsed<Vec<Node>> {
        let variables = std::mem::replace(&mut self.variables, root_variables());
        let ranges = std::mem::take(&mut self.ranges);
        self.deeper(place)?;
        let (body, end) = self.list(false)?;
        self.depth -= 1;
        if let Close::Else(place) = end {
            return Err(self.error(place, format!("unexpected {{{{else}}}} in {context}")));
        }
        (self.variables, self.ranges) = (variables, ranges);
        Ok(body)
    }

    /// A later definition takes the place of an earlier one, unless it is empty.
    fn add(&mut self, name: String, body: Vec<Node>) {
        let is_empty = body.iter().all(|node| match node {
            Node::Text(place) => self
                .text
                .get(place.clone())
                .is_some_and(|text| text.trim().is_empty()),
            _ => false,
        });
        if !is_empty || !self.templates.named.contains_key(&name) {
            self.templates.named.insert(name, body);
        }
    }

    fn deeper(&mut self, place: &Range<usize>) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(place.clone(), format!("nests more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    fn expect_right(&mut self, context: &str) -> Parsed<()> {
        self.space();
        let token = self.next();
        if token.kind == Kind::Right {
            return Ok(());
        }
        Err(self.unexpected(&token, context))
    }

    fn space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.at += 1;
        }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token {
            kind: Kind::End,
            place: self.text.len()..self.text.len(),
        })
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn text_of(&self, token: &Token) -> &'t str {
        self.text.get(token.place.clone()).unwrap_or_default()
    }

    fn unexpected(&self, token: &Token, context: &str) -> TemplateError {
        let text = self.text_of(token);
        self.error(token.place.clone(), format!("unexpected {text:?} in {context}"))
    }

    fn error(&self, place: Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, place, message)
    }
}

fn root_variables() -> Vec<String> {
    vec!["$".to_owned()]
}
