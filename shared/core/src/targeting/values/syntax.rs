//! The syntax of templates in values: Go's, with the delimiters that Fleet sets, and without some functions.

use gotmpl::{Delimiters, UnsupportedFunction, UnsupportedReason};

/// Begin and end an action. Braces alone would be flow collections in YAML.
pub const DELIMITERS: Delimiters<'_> = Delimiters::new("${", "}");

/// Why a function that Fleet has is not supported, and what to use instead.
pub fn unsupported(function: &UnsupportedFunction) -> String {
    let UnsupportedFunction { name, reason, .. } = function;
    match reason {
        UnsupportedReason::Random => format!(
            "function {name:?} returns another result each time, so it would deploy again and again; put the result into \
             the values, or into templateValues of the Cluster"
        ),
        UnsupportedReason::Time => format!(
            "function {name:?} depends on the clock or time zone of the controller, so it could deploy again at any time; \
             put the time into the values, or into templateValues of the Cluster"
        ),
        _ => format!(
            "function {name:?} is not supported here; put its result into the values, or into templateValues of the Cluster"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        let found = gotmpl::check(&format!("${{ {name} }}"), DELIMITERS, &gotmpl::Budget::default()).unwrap();
        unsupported(&found[0])
    }

    #[test]
    fn messages_name_the_function_and_a_remedy() {
        assert_eq!(
            message("uuidv4"),
            "function \"uuidv4\" returns another result each time, so it would deploy again and again; put the result into the \
             values, or into templateValues of the Cluster"
        );
        assert_eq!(
            message("now"),
            "function \"now\" depends on the clock or time zone of the controller, so it could deploy again at any time; put \
             the time into the values, or into templateValues of the Cluster"
        );
        for name in ["getHostByName", "derivePassword"] {
            assert_eq!(
                message(name),
                format!(
                    "function {name:?} is not supported here; put its result into the values, or into templateValues of the \
                     Cluster"
                )
            );
        }
    }
}
