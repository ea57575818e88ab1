//! All valid forms of tasks.

use std::collections::BTreeMap;

use queue_core::{self as jobs, prelude::*};
use queue_core::{Data as Shared, JobContext as Run};

pub struct Shop(u64);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    number: u64,
}

/// With a doc comment.
#[task]
pub async fn nothing() {}

#[task(
    name = "mail.send",
    queue = "mail",
    max_attempts = 5,
    timeout = "1m 30s",
    backoff(base = "2s", max = "1h"),
    priority = "high",
    retention = "1h",
    alias = "send_mail",
    alias = "mail",
    on_isolation = "cancel",
    crate = queue_core
)]
pub async fn all_options(
    to: String,
    #[default(default_copies())] mut copies: u8,
    #[default] urgent: bool,
    cc: Option<String>,
) -> Result<Receipt, Failure> {
    copies += u8::from(urgent) + u8::from(cc.is_some());
    Ok(Receipt { number: u64::from(copies) + to.parse::<u64>()? })
}

fn default_copies() -> u8 {
    1
}

#[task(crate = crate::shapes::jobs)]
async fn injected(
    shop: Data<Shop>,
    ctx: JobContext,
    #[inject] again: Shared<Shop>,
    #[inject] run: Run,
    other: jobs::Data<Shop>,
) -> Outcome {
    if shop.0 + again.0 + other.0 > 0 && ctx.id() == run.id() { Outcome::Done } else { Outcome::Snooze(Duration::from_secs(1)) }
}

#[task]
async fn explicit(r#type: String, map: BTreeMap<String, Vec<[u8; 4]>>) -> Result<Outcome, std::io::Error> {
    Ok(Outcome::Bury(format!("{} {}", r#type, map.len())))
}

#[task(blocking)]
fn hashes(path: std::path::PathBuf, shop: Data<Shop>) -> Result<u64, std::io::Error> {
    Ok(std::fs::read(path)?.len() as u64 + shop.0)
}

#[task(blocking)]
fn sync_nothing() {}

mod inner {
    use queue_core::prelude::*;

    #[task]
    pub(crate) async fn visible(_unused: u8) {}
}

#[derive(Task)]
#[task(queue = "mail", max_attempts = 5)]
pub struct SendMail {
    pub to: String,
    #[default(default_copies())]
    pub copies: u8,
    #[default]
    pub urgent: bool,
    pub cc: Option<String>,
}

impl Handler for SendMail {
    type Output = Result<Receipt, Failure>;

    async fn run(self, ctx: JobContext) -> Self::Output {
        let shop = ctx.data::<Shop>().ok_or("no shop")?;
        Ok(Receipt { number: shop.0 + u64::from(self.copies) + self.to.len() as u64 })
    }
}

#[derive(Task)]
struct Tick;

impl Handler for Tick {
    type Output = Outcome;

    async fn run(self, _: JobContext) -> Outcome {
        Outcome::Repeat(Duration::from_secs(1))
    }
}

async fn use_them(client: &Client) -> queue_core::Result<()> {
    nothing().await;
    let _: Job<nothing> = nothing::job();
    let sent: Handle<all_options> = all_options::job("7".to_owned(), 2, false, None).delay(Duration::from_secs(1)).enqueue(client).await?;
    let result: JobResult<Receipt> = sent.result().await?;
    if let JobResult::Done(receipt) = result {
        println!("{}", receipt.number);
    }
    drop(injected::job());
    drop(explicit::job("a".to_owned(), BTreeMap::new()));
    drop(hashes::job("/".into()));
    drop(sync_nothing::job());
    sync_nothing();
    drop(inner::visible::job(1));
    let mail = SendMail { to: "Ada".to_owned(), copies: 1, urgent: true, cc: None }.job().enqueue(client).await?;
    let _: JobResult<Receipt> = mail.result().await?;
    drop(Tick.job());
    Ok(())
}

#[test]
fn tasks_may_have_any_shape() {
    let _ = use_them;
    assert_eq!(all_options::definition().aliases, ["send_mail", "mail"]);
    assert_eq!(explicit::definition().params[0].name, "type");
    assert_eq!(injected::definition().params.len(), 0);
    assert_eq!((<injected as queue_core::__private::Runnable>::handler().needs)().len(), 3);
    let required: Vec<bool> = SendMail::definition().params.iter().map(|param| param.required).collect();
    assert_eq!(required, [true, false, false, false]);
}
