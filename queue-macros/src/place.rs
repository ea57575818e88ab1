//! Whether a function is in an `impl` or in a trait. Its tokens do not show that, so the source
//! file is read. This is done only for a task that is indented, and only for the error message. If
//! the file cannot be read, the compiler reports the mistake.

use quote::ToTokens;
use syn::{Attribute, FnArg, ImplItemFn, Signature, TraitItemFn, visit::Visit};

/// The place of the function with this signature, if it is not a free function.
pub(crate) fn of(signature: &Signature) -> Option<&'static str> {
    // A `self` has its own error in every place.
    if !proc_macro::is_available() || signature.inputs.iter().any(|argument| matches!(argument, FnArg::Receiver(_))) {
        return None;
    }
    let span = proc_macro::Span::call_site();
    // A function at the start of a line is a free function.
    if span.column() == 1 {
        return None;
    }
    within(&std::fs::read_to_string(span.local_file()?).ok()?, signature)
}

fn within(source: &str, signature: &Signature) -> Option<&'static str> {
    let file = syn::parse_file(source).ok()?;
    let mut search = Search { signature, found: None };
    search.visit_file(&file);
    search.found
}

struct Search<'s> {
    signature: &'s Signature,
    found: Option<&'static str>,
}

impl Search<'_> {
    fn is(&self, attributes: &[Attribute], signature: &Signature) -> bool {
        let text = |signature: &Signature| signature.to_token_stream().to_string();
        let is_task = |attribute: &Attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "task");
        signature.ident == self.signature.ident && attributes.iter().any(is_task) && text(signature) == text(self.signature)
    }
}

impl<'a> Visit<'a> for Search<'_> {
    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        if self.is(&function.attrs, &function.sig) {
            self.found = Some("`impl`");
        }
        // The body of a function may contain an `impl`.
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if self.is(&function.attrs, &function.sig) {
            self.found = Some("trait");
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: &str, signature: &str) -> Option<&'static str> {
        within(source, &syn::parse_str::<Signature>(signature).unwrap())
    }

    #[test]
    fn a_function_is_found_in_its_impl_or_trait_and_a_free_one_is_not() {
        let source = "
            mod tests {
                #[task] async fn free(a: u8) {}
                impl Shop { #[queue_core::task(queue = \"a\")] async fn close(#[default] a: u8) {} async fn free(a: u8) {} }
                fn main() { trait Mail { #[task] async fn send() {} } }
            }";
        assert_eq!(place(source, "async fn close(#[default] a: u8)"), Some("`impl`"));
        assert_eq!(place(source, "async fn send()"), Some("trait"));
        assert_eq!(place(source, "async fn free(a: u8)"), None);
        assert_eq!(place(source, "async fn close(a: u8)"), None, "it is another function");
        assert_eq!(place("not Rust {", "async fn send()"), None);
    }
}
