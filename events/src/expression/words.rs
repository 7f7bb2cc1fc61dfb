//! The filters and tests that expressions name.

use minijinja::ErrorKind;
use minijinja::machinery::{Token, tokenize};

use super::context::ENVIRONMENT;

/// Returns a sentence for each undefined name in an expression or a template. Empty if it cannot be parsed.
pub(crate) fn unknown(source: &str, is_expression: bool) -> Vec<String> {
    let tokens = tokenize(source, is_expression, ENVIRONMENT.syntax().clone());
    let tokens: Vec<_> = tokens.map_while(|token| token.ok().map(|(token, _)| token)).collect();
    let mut unknown = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let found = match (token, &tokens[i + 1..]) {
            (Token::Pipe, [Token::Ident(name), ..]) => {
                is_unknown("|", name).then(|| format!("there is no filter `{name}`"))
            }
            (Token::Ident("is"), [Token::Ident("not"), Token::Ident(name), ..] | [Token::Ident(name), ..]) => {
                is_unknown(" is ", name).then(|| format!("there is no test `{name}`"))
            }
            _ => None,
        };
        unknown.extend(found.filter(|found| !unknown.contains(found)));
    }
    unknown
}

/// Whether evaluating `none` with it says that it is not there, which is said before anything else.
fn is_unknown(operator: &str, name: &str) -> bool {
    let source = format!("none{operator}{name}");
    let evaluated = ENVIRONMENT.compile_expression(&source).and_then(|expression| expression.eval(()));
    evaluated.is_err_and(|error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest))
}
