//! Whether the type of a parameter fits. The expansion asks here, once for each parameter, so that a type that does not fit gives
//! one message, and the message says what the type lacks.

use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Data,
    inject::{Inject, Injected},
    payload::{Param, Payload},
};

/// What a type has, as constants. The compiler takes the constant of this type where its bound holds, and that of [`Lacks`]
/// where it does not.
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
    /// A worker can give it.
    pub const INJECT: bool = true;
}

impl<T: ?Sized> Has<Data<T>> {
    /// It is a [`Data`], under whatever name.
    pub const DATA: bool = true;
}

/// What a type does not have.
#[allow(missing_docs, reason = "they are described at `Has`")]
pub trait Lacks {
    const SERIALIZE: bool = false;
    const DESERIALIZE: bool = false;
    const INJECT: bool = false;
    const DATA: bool = false;
}

impl<T> Lacks for Has<T> {}

/// The usual bound: [`Payload`] or [`Inject`].
const FITS: u8 = 0;

/// What is to be asked of the type of a payload parameter: a number, since [`Access`] has one implementation for each. A type that
/// lacks both halves of serde is told so by [`Payload`].
pub const fn of_payload(serialize: bool, deserialize: bool, injected: bool) -> u8 {
    match (serialize, deserialize) {
        (true, true) => FITS,
        _ if injected => 3,
        (true, false) => 1,
        (false, true) => 2,
        (false, false) => FITS,
    }
}

/// What is to be asked of the type of an injected parameter.
pub const fn of_injected(inject: bool, data: bool) -> u8 {
    if data && !inject { 4 } else { FITS }
}

/// The access to a parameter of type `T`, with the one bound that `ASK` stands for.
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

impl<T: ?Sized> Access<Data<T>, 4> {
    /// Does not compile.
    pub const fn injected() -> Injected<Data<T>>
    where
        T: Shared,
    {
        unreachable!()
    }
}

/// Told of a type that is serialisable only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task: it cannot be read back",
    label = "`serde::Deserialize` is missing",
    note = "derive `serde::Deserialize` for `{Self}`, or for the type inside it that lacks it"
)]
pub trait Readable {}

/// Told of a type that is deserialisable only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task: it cannot be stored",
    label = "`serde::Serialize` is missing",
    note = "derive `serde::Serialize` for `{Self}`, or for the type inside it that lacks it"
)]
pub trait Writable {}

/// Told of a type that the worker gives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` comes from the worker, not from the payload: put `#[inject]` before the parameter",
    label = "write `#[inject]` before the name of this parameter",
    note = "without `#[inject]`, the macro knows only `Data<T>` and `JobContext` by these names"
)]
pub trait PayloadNotInjected {}

/// Told of a value that only one thread may use.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a `Data`: it is not `Send` and `Sync`, and jobs on several threads use the value at once",
    label = "not a value for several threads",
    note = "put what changes into a `std::sync::Mutex` or an atomic number, instead of a `Cell` or `RefCell`; share with `Arc` instead of `Rc`",
    note = "of a trait object, write `Data<dyn Trait + Send + Sync>`, or let the trait require both: `trait Trait: Send + Sync`"
)]
pub trait Shared {}
