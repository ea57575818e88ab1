//! Bounds on the types of parameters. The expansion refers to them once for each parameter, so an
//! unsuitable type gives one compiler error, which names the missing trait.

use std::{collections::HashSet, fmt::Display, marker::PhantomData};

use serde::{Deserializer, Serialize, Serializer, de::DeserializeOwned};

use crate::{
    codec::Form,
    context::{Data, completion::Done},
    handler::{Handler, Returned},
    inject::{Inject, Injected},
    outcome::{ReadBack, read_back},
    payload::{Param, Payload},
};

/// The properties of a type as constants. The compiler selects the constant of this type if its
/// bound holds, and that of [`Lacks`] otherwise.
#[derive(Debug)]
pub struct Has<T>(PhantomData<T>);

impl<T: Serialize> Has<T> {
    /// It can be written.
    pub const SERIALIZE: bool = true;
}

impl<T: DeserializeOwned> Has<T> {
    /// It can be read back.
    pub const DESERIALIZE: bool = true;
}

impl<T: Inject> Has<T> {
    /// A worker can provide it.
    pub const INJECT: bool = true;
}

impl<T> Has<Option<T>> {
    /// It is an `Option`, even under another name. The same applies to the following constants.
    pub const OPTION: bool = true;
}

impl<T> Has<Option<Option<T>>> {
    /// It is an `Option` of an `Option`.
    pub const NESTED: bool = true;
}

impl Has<Vec<u8>> {
    /// It is written as binary.
    pub const BYTES: bool = true;
}

impl Has<Option<Vec<u8>>> {
    /// The same.
    pub const BYTES: bool = true;
}

impl<T, S> Has<HashSet<T, S>> {
    /// It is written in the order of its elements.
    pub const SORTED: bool = true;
}

impl<T, S> Has<Option<HashSet<T, S>>> {
    /// The same.
    pub const SORTED: bool = true;
}

impl<T: DeserializeOwned, E> Has<Result<T, E>> {
    /// Checks that a result can be read back.
    pub const READ_BACK: Option<ReadBack> = Some(read_back::<T>);
}

impl<T, E> Has<Result<Done<T>, E>> {
    /// It is the return type of a task whose effects commit with its ending.
    pub const COMMITS: bool = true;
}

impl<H: Handler<Output = Result<Done<T>, E>>, T, E> Has<Returned<H>> {
    /// The same of a struct.
    pub const COMMITS: bool = true;
}

impl<T: ?Sized> Has<Data<T>> {
    /// It is a [`Data`], even under another name.
    pub const DATA: bool = true;
}

macro_rules! floats {
    ($($ty:ty),+) => {$(
        impl Has<$ty> {
            /// It is a float: floats that look equal may differ.
            pub const FLOAT: bool = true;
        }

        impl Has<Option<$ty>> {
            /// The same.
            pub const FLOAT: bool = true;
        }
    )+};
}

floats!(f32, f64);

impl<T: Display> Has<T> {
    /// It is shown as one text.
    pub const DISPLAY: bool = true;
}

impl<T: Display> Has<Option<T>> {
    /// The same for the type in an `Option`.
    pub const OPTIONAL_DISPLAY: bool = true;
}

/// The constants of a type without the property.
#[allow(missing_docs, reason = "they are described at `Has`")]
pub trait Lacks {
    const SERIALIZE: bool = false;
    const DESERIALIZE: bool = false;
    const INJECT: bool = false;
    const DATA: bool = false;
    const OPTION: bool = false;
    const NESTED: bool = false;
    const BYTES: bool = false;
    const SORTED: bool = false;
    const FLOAT: bool = false;
    const DISPLAY: bool = false;
    const OPTIONAL_DISPLAY: bool = false;
    const READ_BACK: Option<ReadBack> = None;
    const COMMITS: bool = false;
}

impl<T> Lacks for Has<T> {}

/// The usual bound: [`Payload`] or [`Inject`].
const FITS: u8 = 0;

/// The bound that is required of the type of a payload parameter: a number, because [`Access`] has
/// one implementation for each. `Payload` reports a type that lacks both traits of serde.
pub const fn of_payload(serialize: bool, deserialize: bool, injected: bool, nested: bool) -> u8 {
    match (serialize, deserialize) {
        (true, true) if nested => 5,
        (true, true) => FITS,
        _ if injected => 3,
        (true, false) => 1,
        (false, true) => 2,
        (false, false) => FITS,
    }
}

/// The bound that is required of the type of an injected parameter.
pub const fn of_injected(inject: bool, data: bool) -> u8 {
    if data && !inject { 4 } else { FITS }
}

/// The access to a parameter of type `T`, with the one bound that `ASK` selects.
#[derive(Debug)]
pub struct Access<T, const ASK: u8>(PhantomData<T>);

impl<T> Access<T, 0> {
    /// The access to a payload parameter.
    pub const fn payload() -> Param<T>
    where
        T: Payload,
    {
        Param::of()
    }

    /// The access to an injected parameter.
    pub const fn injected() -> Injected<T>
    where
        T: Inject,
    {
        Injected::of()
    }
}

impl<T> Access<T, 1> {
    /// Does not compile.
    pub const fn payload() -> Param<T>
    where
        T: Readable,
    {
        unreachable!()
    }
}

impl<T> Access<T, 2> {
    /// Does not compile.
    pub const fn payload() -> Param<T>
    where
        T: Writable,
    {
        unreachable!()
    }
}

impl<T> Access<T, 3> {
    /// Does not compile.
    pub const fn payload() -> Param<T>
    where
        T: PayloadNotInjected,
    {
        unreachable!()
    }
}

impl<T> Access<T, 5> {
    /// Does not compile.
    pub const fn payload() -> Param<T>
    where
        T: OnceOptional,
    {
        unreachable!()
    }
}

impl<T: ?Sized> Access<Data<T>, 4> {
    /// Does not compile.
    pub const fn injected() -> Injected<Data<T>>
    where
        T: Shared,
    {
        unreachable!()
    }
}

/// Reported for a type that can only be serialized.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task: it cannot be read back",
    label = "`serde::Deserialize` is missing",
    note = "derive `serde::Deserialize` for `{Self}`, or for the type inside it that lacks it"
)]
pub trait Readable {}

/// Reported for a type that can only be deserialized.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task: it cannot be stored",
    label = "`serde::Serialize` is missing",
    note = "derive `serde::Serialize` for `{Self}`, or for the type inside it that lacks it"
)]
pub trait Writable {}

/// Reported for a type that the worker provides.
#[diagnostic::on_unimplemented(
    message = "`{Self}` comes from the worker, not from the payload: put `#[inject]` before the parameter",
    label = "write `#[inject]` before the name of this parameter",
    note = "without `#[inject]`, the macro knows only `Data<T>` and `JobContext` by these names"
)]
pub trait PayloadNotInjected {}

/// Reported for an `Option` of an `Option`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task: `Some(None)` and `None` are the same value in a payload",
    label = "an `Option` of an `Option`",
    note = "a parameter that is `None` is left out, and one that is missing is `None`: take an enum of your own with the three cases"
)]
pub trait OnceOptional {}

/// Encodes and decodes a field of a struct: by the derive of serde if `FITS`, and otherwise not at
/// all, because [`Access`] reports the error.
#[derive(Debug)]
pub struct Field<T, const FITS: bool>(PhantomData<T>);

impl<T> Field<T, true> {
    /// Writes it.
    ///
    /// # Errors
    /// Those of the value and the serializer.
    pub fn write<S: Serializer>(value: &T, serializer: S, bytes: bool, sorted: bool) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
    {
        Form::of(bytes, sorted).pass(value, serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Those of the type and the deserializer.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        T: DeserializeOwned,
    {
        T::deserialize(deserializer)
    }
}

impl<T> Field<T, false> {
    /// This compiles, and the program does not.
    ///
    /// # Errors
    /// Never.
    pub fn write<S: Serializer>(_: &T, _: S, _: bool, _: bool) -> Result<S::Ok, S::Error> {
        unreachable!("a field that cannot be stored does not compile")
    }

    /// The same.
    ///
    /// # Errors
    /// Never.
    pub fn read<'de, D: Deserializer<'de>>(_: D) -> Result<T, D::Error> {
        unreachable!("a field that cannot be stored does not compile")
    }
}

/// Reported for a value that only one thread may use.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a `Data`: it is not `Send` and `Sync`, and jobs on several threads use the value at once",
    label = "not safe to share between threads",
    note = "put what changes into a `std::sync::Mutex` or an atomic number, instead of a `Cell` or `RefCell`; share with `Arc` instead of `Rc`",
    note = "for a trait object, write `Data<dyn Trait + Send + Sync>`, or let the trait require both: `trait Trait: Send + Sync`"
)]
pub trait Shared {}

/// Whether values of a type may be a text, an integer or a bool, as far as its implementations
/// show. Serde shows it only for a value. `Display` is implemented by texts, numbers, ids and
/// dates, but not by lists, maps, tuples and most structs.
pub const fn is_word(float: bool, display: bool, optional_display: bool) -> bool {
    !float && (display || optional_display)
}

/// The check whether a parameter can name a group; `FIT` if its type may.
#[derive(Debug)]
pub struct Group<T, const FIT: bool>(PhantomData<T>);

impl<T> Group<T, true> {
    /// It may.
    pub const fn check() {}
}

impl<T> Group<T, false> {
    /// Does not compile.
    pub const fn check()
    where
        T: NamesGroup,
    {
    }
}

/// The question whether a parameter can be the value of a tag.
#[derive(Debug)]
pub struct Tag<T, const FIT: bool>(PhantomData<T>);

impl<T> Tag<T, true> {
    /// It may.
    pub const fn check() {}
}

impl<T> Tag<T, false> {
    /// Does not compile.
    pub const fn check()
    where
        T: TagValue,
    {
    }
}

/// Reported for a type that cannot name a group.
#[diagnostic::on_unimplemented(
    message = "a group cannot be named by a `{Self}`",
    label = "this parameter is a float, or its type lacks `std::fmt::Display`",
    note = "name a parameter that serde writes as a string, an integer or a bool, or give each job a group with `.group(..)`",
    note = "a type of your own that serde writes as one of these, such as an enum without fields, needs an `impl std::fmt::Display`"
)]
pub trait NamesGroup {}

/// Reported for a type that cannot be the value of a tag.
#[diagnostic::on_unimplemented(
    message = "a tag cannot have a `{Self}` as its value",
    label = "this parameter is a float, or its type lacks `std::fmt::Display`",
    note = "name a parameter that serde writes as a string, an integer or a bool, or give each job a tag with `.tag(..)`",
    note = "a type of your own that serde writes as one of these, such as an enum without fields, needs an `impl std::fmt::Display`"
)]
pub trait TagValue {}
