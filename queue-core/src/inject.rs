//! Values that a worker provides to a handler in addition to the payload: [`Inject`], which users
//! may implement.

use std::{fmt, marker::PhantomData};

use crate::{
    context::{Data, DataNeed, JobContext},
    outcome::Outcome,
};

/// The values that a worker provides to a handler in addition to the payload: [`Data<T>`],
/// [`JobContext`], and each type of your own that implements this.
///
/// Put `#[inject]` before a parameter of such a type:
///
/// ```
/// use queue_core::{DataNeed, Inject, prelude::*};
///
/// struct Prices {
///     today: u64,
/// }
///
/// /// The tenant for whom a job was enqueued, and today's price.
/// struct Order {
///     tenant: String,
///     price: u64,
/// }
///
/// impl Inject for Order {
///     fn inject(context: &JobContext) -> Result<Self, Outcome> {
///         let tenant = context.header("tenant").ok_or_else(|| Outcome::Bury("the job has no header `tenant`".to_owned()))?;
///         let prices = Data::<Prices>::inject(context)?;
///         Ok(Order { tenant: tenant.to_owned(), price: prices.today })
///     }
///
///     fn needs() -> Vec<DataNeed> {
///         vec![DataNeed::of::<Prices>()]
///     }
/// }
///
/// #[task]
/// async fn bill(articles: u64, #[inject] order: Order) {
///     println!("{} owes {}", order.tenant, articles * order.price);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a worker cannot provide a `{Self}`",
    label = "neither `queue_core::Data<T>` nor `queue_core::JobContext`",
    note = "another crate's type of this name is in scope: write `queue_core::Data<T>` or `queue_core::JobContext`, or rename a payload type that is called `Data` or `Context`"
)]
pub trait Inject: Sized {
    /// Makes the value for one attempt, before the handler starts. It must not block.
    ///
    /// # Errors
    /// The outcome of the attempt, in place of the handler's: `Outcome::Failed` is retried,
    /// `Outcome::Bury` is not.
    fn inject(context: &JobContext) -> Result<Self, Outcome>;

    /// The values that the worker needs for it. A worker without one of them refuses to start.
    /// Default: none.
    fn needs() -> Vec<DataNeed> {
        Vec::new()
    }
}

impl Inject for JobContext {
    fn inject(context: &JobContext) -> Result<Self, Outcome> {
        Ok(context.clone())
    }
}

impl<T: ?Sized + Send + Sync + 'static> Inject for Data<T> {
    fn inject(context: &JobContext) -> Result<Self, Outcome> {
        context.data().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Outcome::Failed(format!("the worker has no value of type `{name}`; give it one with `worker.data(..)`").into())
        })
    }

    fn needs() -> Vec<DataNeed> {
        vec![DataNeed::of::<T>()]
    }
}

/// The access of generated code to an injected parameter of type `T`.
pub struct Injected<T> {
    get: fn(&JobContext) -> Result<T, Outcome>,
    needs: fn() -> Vec<DataNeed>,
    of: PhantomData<fn() -> T>,
}

impl<T> Injected<T> {
    /// The access.
    pub const fn of() -> Self
    where
        T: Inject,
    {
        Injected { get: T::inject, needs: T::needs, of: PhantomData }
    }

    /// Takes it from the context.
    ///
    /// # Errors
    /// When the worker does not have it.
    pub fn get(&self, context: &JobContext) -> Result<T, Outcome> {
        (self.get)(context)
    }

    /// The values that have to be there.
    pub fn needs(&self) -> Vec<DataNeed> {
        (self.needs)()
    }
}

impl<T> fmt::Debug for Injected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Injected<{}>", std::any::type_name::<T>())
    }
}
