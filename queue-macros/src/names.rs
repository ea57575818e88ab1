//! The names that an expansion binds. All of them begin with [`PREFIX`], and names of users must
//! not. A task, a parameter, a default or a constant in scope can therefore have any other name.

use proc_macro2::{TokenStream, TokenTree};
use syn::Error;

/// Upper and lower case: locals and functions have it in lower case, constants in upper case.
const PREFIX: &str = "__queue";

/// The error for a name that begins with [`PREFIX`].
pub(crate) fn reserved(tokens: &TokenStream) -> Option<Error> {
    tokens.clone().into_iter().find_map(|token| match token {
        TokenTree::Group(group) => reserved(&group.stream()),
        TokenTree::Ident(name) if name.to_string().to_ascii_lowercase().starts_with(PREFIX) => Some(Error::new(
            name.span(),
            format!("names that begin with `{PREFIX}` belong to the code that the macro generates: rename it"),
        )),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proc_macro2::Ident;
    use syn::visit::{self, Visit};

    use super::*;

    /// The names that code binds where other code could see them: locals, parameters, free items
    /// and imports. Associated items are accessible only through their type, and fields only
    /// through their value.
    #[derive(Default)]
    struct Bound(BTreeSet<String>);

    impl Bound {
        fn of(code: &TokenStream) -> BTreeSet<String> {
            let mut bound = Bound::default();
            bound.visit_file(&syn::parse2(code.clone()).unwrap());
            bound.0
        }

        fn add(&mut self, name: &Ident) {
            self.0.insert(name.to_string());
        }
    }

    impl<'a> Visit<'a> for Bound {
        fn visit_pat_ident(&mut self, pattern: &'a syn::PatIdent) {
            self.add(&pattern.ident);
            visit::visit_pat_ident(self, pattern);
        }

        fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
            self.add(&item.sig.ident);
            visit::visit_item_fn(self, item);
        }

        fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
            self.add(&item.ident);
            visit::visit_item_const(self, item);
        }

        fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
            self.add(&item.ident);
            visit::visit_item_static(self, item);
        }

        fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
            self.add(&item.ident);
        }

        fn visit_item_type(&mut self, item: &'a syn::ItemType) {
            self.add(&item.ident);
        }

        fn visit_use_name(&mut self, name: &'a syn::UseName) {
            self.add(&name.ident);
        }

        fn visit_use_rename(&mut self, name: &'a syn::UseRename) {
            self.add(&name.rename);
        }
    }

    fn tokens(text: &str) -> TokenStream {
        text.parse().unwrap()
    }

    const OPTIONS: &str = "queue = \"q\", max_attempts = 3, timeout = \"1s\", retention = \"1h\", backoff(base = \"1s\"), priority = \"high\", \
        unique(by = [one, two.x], on_conflict = \"replace\", payload = \"first\"), group(by = one, cap = 2), aging = \"1m\", tag(one), \
        limit(by = [one], concurrency = 1, rate = \"1/1m\"), alias = \"b\", on_isolation = \"cancel\", \
        schedule(every = \"1m\", args(one = 1, two = pair()), window = \"1h\")";
    const PARAMS: &str = "one: u8, two: Pair, #[default] three: u8, #[default(four())] four: u8, five: Option<u8>";

    #[test]
    fn every_name_that_an_expansion_binds_is_the_users_or_has_the_prefix() {
        let event = format!("#[event(topic = \"t\", tag(one))] struct Paid {{ {PARAMS} }}");
        let derived = format!("#[task({OPTIONS})] struct Pay {{ {PARAMS} }}");
        let function = |declared: &str| tokens(&format!("{declared}({PARAMS}, shop: Data<Shop>, ctx: JobContext) -> Outcome {{}}"));
        let subscriber = |declared: &str| tokens(&format!("{declared}(paid: Paid, shop: Data<Shop>) {{}}"));
        let subscription = "name = \"s\", from = \"start\", group(cap = 2), timeout = \"1s\"";
        let expansions = [
            crate::function::expand(tokens(OPTIONS), &function("async fn pay")),
            crate::function::expand(tokens(&format!("blocking, {OPTIONS}")), &function("fn pay")),
            crate::derive::expand(tokens(&derived)),
            crate::event::expand(tokens(&event)),
            crate::subscribe::expand(tokens(subscription), &subscriber("async fn bill")),
            crate::subscribe::expand(tokens(&format!("blocking, {subscription}")), &subscriber("fn bill")),
        ];
        let users = ["one", "two", "three", "four", "five", "shop", "ctx", "paid", "pay", "bill", "self", "_"];
        for expansion in &expansions {
            let text = expansion.to_string();
            assert!(!text.contains("compile_error"), "{text}");
            let bound = Bound::of(expansion);
            assert!(bound.len() > 5, "too few to be all: {bound:?}");
            let open: Vec<_> =
                bound.iter().filter(|name| !users.contains(&name.as_str()) && !name.to_ascii_lowercase().starts_with(PREFIX)).collect();
            assert!(open.is_empty(), "a user may choose {open:?}");
        }
    }

    #[test]
    fn a_name_with_the_prefix_is_refused_wherever_it_is() {
        for item in ["async fn __queue_run() {}", "fn a(#[default(__queue_b())] c: u8) {}", "fn a(__QUEUE_PARAM_0: u8) {}"] {
            assert!(reserved(&tokens(item)).is_some_and(|error| error.to_string().contains("rename it")), "{item}");
        }
        assert!(reserved(&tokens("async fn queue(_queue: u8, call: __Queer) { \"__queue\" }")).is_none());
    }
}
