//! The option `group` of `#[task(...)]`: which parameter names the group of a job.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, GenericArgument, Ident, LitStr, PathArguments, Result, Token, Type, ext::IdentExt, parse::ParseStream};

use crate::{
    params::{Param, last_segment},
    problems::Problems,
    unique::unknown_parameter,
};

/// `group = tenant`, as it is written.
pub(crate) struct Group(Ident);

impl Group {
    /// Reads what stands behind `group`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        let wanted = "write `group = tenant`: the name of the parameter that names the group";
        if !input.peek(Token![=]) {
            return Err(Error::new(key.span(), wanted));
        }
        input.parse::<Token![=]>()?;
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            let problem = format!("{wanted}; a group that all jobs share is given to each job: `.group({:?})`", text.value());
            return Err(Error::new(text.span(), problem));
        }
        let name = input.call(Ident::parse_any).map_err(|error| Error::new(error.span(), wanted))?;
        if input.peek(Token![.]) {
            return Err(Error::new(input.span(), "a group is named by a parameter, not by a field of one: make the field a parameter"));
        }
        Ok(Group(name))
    }

    /// What does not fit the parameters of the task.
    pub(crate) fn check_params(&self, params: &[Param], problems: &mut Problems) {
        let name = &self.0;
        match params.iter().find(|param| param.name.unraw() == name.unraw()) {
            None => problems.add(name.span(), unknown_parameter(name, params)),
            Some(param) if !param.is_payload() => {
                problems.add(name.span(), format!("`{name}` comes from the worker, and no job has it: name a parameter of the payload"));
            }
            Some(param) => {
                if let Some(problem) = no_group(&param.ty) {
                    let way_out = "name a text, a whole number or a bool, or give each job a group with `.group(..)`";
                    problems.add(name.span(), format!("`{name}` {problem}; {way_out}"));
                }
            }
        }
    }

    /// A statement that sets the field of a `TaskDef` named `def`.
    pub(crate) fn assignment(&self) -> TokenStream {
        let name = self.0.unraw().to_string();
        quote!(def.group = ::core::option::Option::Some(#name);)
    }
}

/// Why a type cannot name a group, as far as its name says.
fn no_group(ty: &Type) -> Option<&'static str> {
    let segment = match ty {
        Type::Tuple(_) | Type::Array(_) => return Some("is a list, which names no group"),
        _ => last_segment(ty)?,
    };
    match segment.ident.to_string().as_str() {
        "f32" | "f64" => Some("is a float, which names no group: floats that look equal need not be"),
        "HashMap" | "BTreeMap" => Some("is a map, which names no group"),
        "Vec" | "VecDeque" | "HashSet" | "BTreeSet" => Some("is a list, which names no group"),
        "Option" | "Box" | "Arc" => {
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => no_group(ty),
                _ => None,
            })
        }
        _ => None,
    }
}
