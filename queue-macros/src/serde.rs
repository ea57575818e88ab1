//! The serde attributes on a payload struct and its fields. They are passed on to the struct for
//! which serde derives. This module reads only the parts that the definition of the task needs: the
//! names of the parameters, and which are required.

use syn::{Attribute, Error, Expr, Ident, LitStr, Result, Token, ext::IdentExt, meta::ParseNestedMeta};

/// The serde attributes of a struct.
#[derive(Default)]
pub(crate) struct Container {
    pub attributes: Vec<Attribute>,
    rename_all: Option<LitStr>,
    pub default: bool,
}

/// The serde attributes of a field.
#[derive(Default)]
pub(crate) struct Field {
    pub attributes: Vec<Attribute>,
    rename: Option<LitStr>,
    /// Whether no parameter has its name: it is skipped, or its own fields are parameters.
    pub nameless: bool,
    /// Whether its own fields are parameters.
    pub flat: bool,
    /// Whether a function of the user serializes it, and whether one deserializes it.
    pub writes: bool,
    pub reads: bool,
    /// Whether it has a default, and whether that is `Default::default()`.
    pub default: bool,
    pub own_default: bool,
    /// Whether it has aliases for deserialization.
    pub alias: bool,
    /// `skip_serializing` or `skip_serializing_if`, without a default: it may be missing.
    pub unwritten: Option<Ident>,
}

/// `true` with `= "text"`, or behind `(`.
fn is_value(meta: &ParseNestedMeta<'_>) -> bool {
    meta.input.peek(Token![=]) || meta.input.peek(syn::token::Paren)
}

/// Skips a value.
fn skip(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Expr>().map(drop)
    } else if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| skip(&inner))
    } else {
        Ok(())
    }
}

/// A name: `= "x"`, or the same name for serialization and deserialization, because stored values
/// have to be read.
fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse();
    }
    let mut names: Vec<LitStr> = Vec::new();
    meta.parse_nested_meta(|inner| {
        names.push(inner.value()?.parse()?);
        Ok(())
    })?;
    match &names[..] {
        [one, other] if one.value() == other.value() => Ok(one.clone()),
        _ => Err(meta.error("a payload is read under the names under which it is written: write `= \"..\"`")),
    }
}

fn each(attributes: &[Attribute], mut of: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<Vec<Attribute>> {
    let own: Vec<Attribute> = attributes.iter().filter(|attribute| attribute.path().is_ident("serde")).cloned().collect();
    for attribute in &own {
        attribute.parse_nested_meta(&mut of)?;
    }
    Ok(own)
}

impl Container {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut container = Container::default();
        container.attributes = each(attributes, |meta| {
            let word = meta.path.get_ident().map(|word| word.unraw().to_string()).unwrap_or_default();
            match &*word {
                "rename_all" => container.rename_all = Some(name(&meta)?),
                "default" => {
                    container.default = true;
                    skip(&meta)?;
                }
                "transparent" | "tag" | "untagged" | "content" | "from" | "into" | "try_from" | "remote" | "crate" => {
                    let problem = format!("a payload is a map of these fields, by their names: `{word}` of serde does not go with that");
                    return Err(meta.error(problem));
                }
                _ => skip(&meta)?,
            }
            Ok(())
        })?;
        Ok(container)
    }

    /// The name of a field in the payload, and whether the struct provides a default for it.
    pub(crate) fn name(&self, field: &str, of: &Field) -> (String, bool) {
        let renamed = match (&of.rename, &self.rename_all) {
            (Some(name), _) => name.value(),
            (None, Some(rule)) => by_rule(field, &rule.value()),
            (None, None) => field.to_owned(),
        };
        (renamed, self.default)
    }
}

impl Field {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let (mut field, mut unread) = (Field::default(), None);
        field.attributes = each(attributes, |meta| {
            let word = meta.path.get_ident().map(|word| word.unraw().to_string()).unwrap_or_default();
            match &*word {
                "skip_serializing" | "skip_serializing_if" => field.unwritten = meta.path.get_ident().cloned(),
                "skip_deserializing" => unread = meta.path.get_ident().cloned(),
                "rename" => {
                    field.rename = Some(name(&meta)?);
                    return Ok(());
                }
                "skip" => field.nameless = true,
                "flatten" => (field.nameless, field.flat) = (true, true),
                "with" => (field.writes, field.reads) = (true, true),
                "alias" => field.alias = true,
                "serialize_with" => field.writes = true,
                "deserialize_with" => field.reads = true,
                "default" => (field.default, field.own_default) = (true, is_value(&meta)),
                "getter" => return Err(meta.error("`getter` of serde is for types of other crates")),
                _ => {}
            }
            skip(&meta)
        })?;
        let is_unwritten = field.unwritten.as_ref().is_some_and(|word| word == "skip_serializing");
        let is_skipped = unread.is_some();
        if let Some(word) = unread.filter(|_| !is_unwritten) {
            return Err(Error::new(
                word.span(),
                "a field that is stored must be read, too: write `#[serde(skip)]` to leave it out of the payload",
            ));
        }
        // A skipped field has neither. A flattened map may be empty.
        if is_skipped || field.default || field.nameless && !is_unwritten {
            field.unwritten = None;
        }
        field.nameless |= is_unwritten;
        Ok(field)
    }
}

/// The name of a field by a rule of serde's `rename_all`.
fn by_rule(field: &str, rule: &str) -> String {
    let upper = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    let pascal = || field.split('_').map(upper).collect::<String>();
    match rule {
        "lowercase" | "snake_case" => field.to_owned(),
        "UPPERCASE" | "SCREAMING_SNAKE_CASE" => field.to_ascii_uppercase(),
        "PascalCase" => pascal(),
        "camelCase" => {
            let name = pascal();
            name.chars().next().map(|first| first.to_ascii_lowercase()).into_iter().chain(name.chars().skip(1)).collect()
        }
        "kebab-case" => field.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => field.to_ascii_uppercase().replace('_', "-"),
        // serde reports an error for other rules.
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for (rule, name) in [
            ("lowercase", "order_id"),
            ("UPPERCASE", "ORDER_ID"),
            ("PascalCase", "OrderId"),
            ("camelCase", "orderId"),
            ("snake_case", "order_id"),
            ("SCREAMING_SNAKE_CASE", "ORDER_ID"),
            ("kebab-case", "order-id"),
            ("SCREAMING-KEBAB-CASE", "ORDER-ID"),
        ] {
            assert_eq!(by_rule("order_id", rule), name);
        }
    }
}
