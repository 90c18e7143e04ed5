//! The parser: turns tokens into nodes.

mod pipe;

use std::ops::Range;

use super::{
    budget::Meter,
    delimiters::Delimiters,
    error::{TemplateError, UnsupportedFunction},
    lex,
    lex::{Token, TokenKind},
    node::{Branch, Node, Templates},
};

/// How deep blocks and parentheses may nest: deeper than any practical template, and shallow enough for the stack.
const MAX_DEPTH: usize = 50;

/// Parses a template.
pub fn parse(text: &str, delimiters: Delimiters<'_>, meter: &Meter) -> Result<Templates, TemplateError> {
    parse_with(text, delimiters, meter, None).map(|(templates, _)| templates)
}

/// Parses a template only to find its errors, and returns the unsupported functions that it calls, each once.
pub fn check(
    text: &str,
    delimiters: Delimiters<'_>,
    meter: &Meter,
) -> Result<Vec<UnsupportedFunction>, TemplateError> {
    parse_with(text, delimiters, meter, Some(Vec::new())).map(|(_, unsupported)| unsupported)
}

fn parse_with(
    text: &str,
    delimiters: Delimiters<'_>,
    meter: &Meter,
    unsupported: Option<Vec<UnsupportedFunction>>,
) -> Result<(Templates, Vec<UnsupportedFunction>), TemplateError> {
    meter
        .check_text(text.len())
        .map_err(|message| TemplateError::new(text, 0..0, message))?;
    let tokens = lex::tokens(text, delimiters, meter)?;
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
        ListEnd::Eof => {}
        ListEnd::End(span) => return Err(parser.error(span, "unexpected {{end}}")),
        ListEnd::Else(span) => return Err(parser.error(span, "unexpected {{else}}")),
    }
    parser.templates.main = main;
    Ok((parser.templates, parser.unsupported.unwrap_or_default()))
}

/// What ends a list of nodes.
enum ListEnd {
    Eof,
    End(Range<usize>),
    Else(Range<usize>),
}

/// A node, or the end of the list of nodes.
enum Item {
    Node(Node),
    /// A definition, which is stored under its name.
    Definition,
    End(ListEnd),
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
    /// The variables in scope.
    variables: Vec<String>,
    /// How many `range` blocks are open.
    ranges: usize,
    depth: usize,
    templates: Templates,
    /// Where unsupported functions are collected; without it, the first one is an error.
    unsupported: Option<Vec<UnsupportedFunction>>,
    meter: &'t Meter,
}

type ParseResult<T> = Result<T, TemplateError>;

impl<'t> Parser<'t> {
    fn list(&mut self, is_main: bool) -> ParseResult<(Vec<Node>, ListEnd)> {
        let mut nodes = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                TokenKind::End if is_main => return Ok((nodes, ListEnd::Eof)),
                TokenKind::End => return Err(self.error(token.span, "unexpected EOF; an {{end}} is missing")),
                TokenKind::Left => match self.action(is_main && self.depth == 0)? {
                    Item::Node(node) => nodes.push(node),
                    Item::Definition => {}
                    Item::End(end) => return Ok((nodes, end)),
                },
                _ => nodes.push(Node::Text(token.span)),
            }
        }
    }

    /// An action whose left delimiter is already consumed.
    fn action(&mut self, can_define: bool) -> ParseResult<Item> {
        self.space();
        let token = self.peek();
        let word = if token.kind == TokenKind::Word {
            self.text_of(&token)
        } else {
            ""
        };
        let is_keyword = matches!(
            word,
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template" | "with"
        );
        if is_keyword {
            self.at += 1;
        }
        let node = match word {
            "if" => Node::If(self.branch("if")?),
            "with" => Node::With(self.branch("with")?),
            "range" => Node::Range(self.branch("range")?),
            "end" => {
                self.expect_right("end")?;
                return Ok(Item::End(ListEnd::End(token.span)));
            }
            "else" => {
                self.space();
                let next = self.peek();
                let chained = next.kind == TokenKind::Word && matches!(self.text_of(&next), "if" | "with");
                if !chained {
                    self.expect_right("else")?;
                }
                return Ok(Item::End(ListEnd::Else(token.span)));
            }
            "break" | "continue" => {
                self.expect_right(word)?;
                if self.ranges == 0 {
                    return Err(self.error(token.span, format!("{{{{{word}}}}} outside {{{{range}}}}")));
                }
                if word == "break" {
                    Node::Break
                } else {
                    Node::Continue
                }
            }
            "define" if can_define => {
                self.define()?;
                return Ok(Item::Definition);
            }
            "define" => return Err(self.error(token.span, "unexpected {{define}}")),
            "block" | "template" => self.template(word == "block")?,
            _ => Node::Action(self.pipe("command", TokenKind::Right)?),
        };
        Ok(Item::Node(node))
    }

    fn branch(&mut self, keyword: &str) -> ParseResult<Branch> {
        let outer_variables = self.variables.len();
        let pipe = self.pipe(keyword, TokenKind::Right)?;
        self.enter(&pipe.span)?;
        let is_range = usize::from(keyword == "range");
        self.ranges += is_range;
        let (body, end) = self.list(false)?;
        self.ranges -= is_range;
        let else_body = match end {
            ListEnd::Else(span) => Some(self.else_body(keyword, span)?),
            ListEnd::End(_) | ListEnd::Eof => None,
        };
        self.depth -= 1;
        self.variables.truncate(outer_variables);
        Ok(Branch {
            pipe,
            body,
            else_body,
        })
    }

    fn else_body(&mut self, keyword: &str, span: Range<usize>) -> ParseResult<Vec<Node>> {
        let token = self.peek();
        // `else if` is an `if` in the `else` block, without an `end` of its own.
        if token.kind == TokenKind::Word {
            let word = self.text_of(&token);
            if word != keyword {
                return Err(self.error(span, format!("unexpected {word} after else")));
            }
            self.at += 1;
            let branch = self.branch(keyword)?;
            return Ok(vec![if keyword == "if" {
                Node::If(branch)
            } else {
                Node::With(branch)
            }]);
        }
        let (nodes, end) = self.list(false)?;
        match end {
            ListEnd::End(_) => Ok(nodes),
            ListEnd::Else(span) => Err(self.error(span, "expected end; found {{else}}")),
            ListEnd::Eof => Err(self.error(span, "unexpected EOF")),
        }
    }

    fn define(&mut self) -> ParseResult<()> {
        let (name, span) = self.name("define clause")?;
        self.expect_right("define clause")?;
        let body = self.body(&span, "define clause")?;
        self.add(name, body, span)
    }

    fn template(&mut self, is_block: bool) -> ParseResult<Node> {
        let context = if is_block {
            "block clause"
        } else {
            "template clause"
        };
        let (name, span) = self.name(context)?;
        self.space();
        let pipe = if !is_block && self.peek().kind == TokenKind::Right {
            self.at += 1;
            None
        } else {
            Some(self.pipe(context, TokenKind::Right)?)
        };
        if is_block {
            let body = self.body(&span, context)?;
            self.add(name.clone(), body, span.clone())?;
        }
        Ok(Node::Template { span, name, pipe })
    }

    /// The body of a named template, which has its own scope.
    fn body(&mut self, span: &Range<usize>, context: &str) -> ParseResult<Vec<Node>> {
        let variables = std::mem::replace(&mut self.variables, root_variables());
        let ranges = std::mem::take(&mut self.ranges);
        self.enter(span)?;
        let (body, end) = self.list(false)?;
        self.depth -= 1;
        if let ListEnd::Else(span) = end {
            return Err(self.error(span, format!("unexpected {{{{else}}}} in {context}")));
        }
        (self.variables, self.ranges) = (variables, ranges);
        Ok(body)
    }

    /// A later definition replaces an empty one. Only one may not be empty.
    fn add(&mut self, name: String, body: Vec<Node>, span: Range<usize>) -> ParseResult<()> {
        let earlier = self.templates.named.get(&name);
        if earlier.is_none_or(|earlier| self.is_empty(earlier)) {
            self.templates.named.insert(name, body);
        } else if !self.is_empty(&body) {
            return Err(self.error(span, format!("multiple definition of template {name:?}")));
        }
        Ok(())
    }

    fn is_empty(&self, body: &[Node]) -> bool {
        body.iter().all(|node| match node {
            Node::Text(span) => self
                .text
                .get(span.clone())
                .is_some_and(|text| text.trim().is_empty()),
            _ => false,
        })
    }

    fn enter(&mut self, span: &Range<usize>) -> ParseResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(span.clone(), format!("nests more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    fn expect_right(&mut self, context: &str) -> ParseResult<()> {
        self.space();
        let token = self.next();
        if token.kind == TokenKind::Right {
            return Ok(());
        }
        Err(self.unexpected(&token, context))
    }

    fn space(&mut self) {
        while self.peek().kind == TokenKind::Space {
            self.at += 1;
        }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token {
            kind: TokenKind::End,
            span: self.text.len()..self.text.len(),
        })
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn text_of(&self, token: &Token) -> &'t str {
        self.text.get(token.span.clone()).unwrap_or_default()
    }

    fn unexpected(&self, token: &Token, context: &str) -> TemplateError {
        let text = self.text_of(token);
        self.error(token.span.clone(), format!("unexpected {text:?} in {context}"))
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, span, message)
    }
}

fn root_variables() -> Vec<String> {
    vec!["$".to_owned()]
}
