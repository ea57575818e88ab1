//! The options of `#[task(...)]`, on functions and structs alike.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Error, Ident, LitInt, LitStr, Path, Result, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream, Parser},
};

use crate::{from::From, group::Group, limit::Limit, params::Param, schedule::Schedule, suggest::nearest, tag::Tags, unique::Unique};

const KNOWN: [&str; 18] = [
    "name",
    "queue",
    "max_attempts",
    "max_crashes",
    "timeout",
    "backoff",
    "priority",
    "aging",
    "retention",
    "blocking",
    "alias",
    "on_isolation",
    "unique",
    "group",
    "limit",
    "tag",
    "schedule",
    "crate",
];

/// The names of these options in other systems.
const ELSEWHERE: [(&str, &str); 26] = [
    ("age", "aging"),
    ("singleton", "unique"),
    ("unique_for", "unique"),
    ("tags", "tag"),
    ("label", "tag"),
    ("labels", "tag"),
    ("tenant", "group"),
    ("partition", "group"),
    ("concurrency_key", "group"),
    ("limits", "limit"),
    ("rate", "limit"),
    ("rate_limit", "limit"),
    ("throttle", "limit"),
    ("concurrency", "limit"),
    ("cron", "schedule"),
    ("every", "schedule"),
    ("periodic", "schedule"),
    ("retries", "max_attempts"),
    ("retry", "max_attempts"),
    ("max_retries", "max_attempts"),
    ("attempts", "max_attempts"),
    ("aliases", "alias"),
    ("ttl", "retention"),
    ("keep", "retention"),
    ("time_limit", "timeout"),
    ("sync", "blocking"),
];

/// The longest time, as in queue-core.
const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// The longest interval of aging, as in queue-core.
const LONGEST_AGING: Duration = Duration::from_secs(366 * 24 * 3600);

/// The options as written, checked.
#[derive(Default)]
pub(crate) struct Options {
    pub name: Option<String>,
    queue: Option<String>,
    max_attempts: Option<u32>,
    max_crashes: Option<u32>,
    timeout: Option<Duration>,
    backoff: Option<(Option<Duration>, Option<Duration>)>,
    priority: Option<Ident>,
    aging: Option<Duration>,
    retention: Option<Duration>,
    pub blocking: Option<Span>,
    aliases: Vec<String>,
    pub schedules: Vec<Schedule>,
    on_isolation: Option<Ident>,
    pub unique: Option<Unique>,
    pub group: Option<Group>,
    pub limits: Vec<Limit>,
    pub tags: Tags,
    krate: Option<Path>,
    /// The start of a subscription.
    pub from: Option<From>,
    /// Whether events of unknown types are skipped.
    pub skips: bool,
    /// Whether the options are those of `#[subscribe(...)]`.
    subscribes: bool,
}

impl Options {
    /// Reads the options between the parentheses of `#[task(...)]`.
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        Self::parser.parse2(tokens)
    }

    /// Empty options of `#[subscribe(...)]`.
    pub(crate) fn of_subscription() -> Self {
        Options { subscribes: true, ..Options::default() }
    }

    fn parser(input: ParseStream) -> Result<Self> {
        Options::default().read(input)
    }

    pub(crate) fn read(self, input: ParseStream) -> Result<Self> {
        let mut options = self;
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let name = key.to_string();
            if !matches!(&*name, "alias" | "limit" | "schedule") && seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            options.option(&key, &name, input)?;
            seen.push(name);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
        }
        Ok(options)
    }

    fn option(&mut self, key: &Ident, name: &str, input: ParseStream) -> Result<()> {
        if self.subscribes {
            From::refuse(key, name)?;
        }
        match name {
            "unknown" if self.subscribes => self.skips = From::skips(&value(key, input, "\"skip\"")?)?,
            "from" if self.subscribes => self.from = Some(From::parse(&value(key, input, "\"start\"")?)?),
            "ordered" if self.subscribes => self.group = Some(Group::ordered(key, self.group.take())?),
            "group" if self.subscribes => self.group = Some(Group::of_subscription(key, input, self.group.as_ref())?),
            "name" => self.name = Some(checked_name(&value(key, input, "\"mail.send\"")?)?),
            "queue" => self.queue = Some(checked_name(&value(key, input, "\"mail\"")?)?),
            "alias" => {
                let text: LitStr = value(key, input, "\"old_name\"")?;
                let alias = checked_name(&text)?;
                if self.aliases.contains(&alias) {
                    return Err(Error::new(text.span(), format!("the alias `{alias}` is given twice; keep one of the two")));
                }
                self.aliases.push(alias);
            }
            "max_attempts" => {
                let number: LitInt = value(key, input, "5")?;
                match number.base10_parse::<u32>() {
                    Ok(attempts) if attempts > 0 => self.max_attempts = Some(attempts),
                    _ => return Err(Error::new(number.span(), "`max_attempts` is a number from 1: 1 means no retry")),
                }
            }
            "max_crashes" => {
                let number: LitInt = value(key, input, "3")?;
                match number.base10_parse::<u32>() {
                    Ok(crashes) if crashes > 0 => self.max_crashes = Some(crashes),
                    _ => {
                        return Err(Error::new(
                            number.span(),
                            "`max_crashes` is a number from 1: 1 means that the job becomes a dead letter after its first crash",
                        ));
                    }
                }
            }
            "timeout" => self.timeout = Some(duration(&value(key, input, "\"30s\"")?, false)?),
            "aging" => self.aging = Some(interval(&value(key, input, "\"60s\"")?)?),
            "retention" => self.retention = Some(duration(&value(key, input, "\"1h\"")?, false)?),
            "schedule" => self.schedules.push(Schedule::parse(key, input)?),
            "backoff" => self.backoff = Some(backoff(key, input)?),
            "priority" => {
                self.priority = Some(one_of(
                    &value(key, input, "\"high\"")?,
                    "priority",
                    &[("critical", "Critical"), ("high", "High"), ("normal", "Normal"), ("low", "Low")],
                )?);
            }
            "on_isolation" => {
                self.on_isolation =
                    Some(one_of(&value(key, input, "\"cancel\"")?, "on_isolation", &[("continue", "Continue"), ("cancel", "Cancel")])?);
            }
            "blocking" => {
                if input.peek(Token![=]) {
                    return Err(Error::new(input.span(), "`blocking` takes no value; write `#[task(blocking)]`"));
                }
                self.blocking = Some(key.span());
            }
            "unique" => self.unique = Some(Unique::parse(key, input)?),
            "tag" => self.tags = Tags::parse(key, input)?,
            "limit" => self.limits.push(Limit::parse(key, input)?),
            "group" => self.group = Some(Group::parse(key, input)?),
            "crate" => self.krate = Some(value(key, input, "my_crate::queue_core")?),
            _ => return Err(Error::new(key.span(), unknown(name))),
        }
        Ok(())
    }

    /// The name of the task: the name in its options, or the name of the function or struct.
    pub(crate) fn task_name(&self, item: &Ident) -> Result<String> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => item.unraw().to_string(),
        };
        if !is_name(&name) {
            return Err(Error::new(
                item.span(),
                "a task's name has 1 to 128 ASCII letters, digits, `.`, `_` or `-`: give it one with `#[task(name = \"...\")]`",
            ));
        }
        Ok(name)
    }

    /// The path of queue-core.
    pub(crate) fn krate(&self) -> TokenStream {
        self.krate.as_ref().map_or_else(|| quote!(::queue_core), |path| quote!(#path))
    }

    /// Items that check whether the types of parameters are valid for the options that name them.
    pub(crate) fn asks(&self, params: &[Param]) -> TokenStream {
        let group = self.group.as_ref().and_then(|group| group.asks(params));
        let (tags, unique) = (self.tags.asks(params), self.unique.as_ref().map(|unique| unique.asks(params)));
        let limits = self.limits.iter().map(|limit| limit.asks(params));
        quote!(#group #tags #unique #(#limits)*)
    }

    /// Statements that set the fields of a `TaskDef` named `def` from the options.
    pub(crate) fn assignments(&self, core: &TokenStream, task_name: &str, params: &[Param]) -> TokenStream {
        let time = |duration: Duration| {
            let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
            quote!(::core::time::Duration::new(#seconds, #nanos))
        };
        let some = |field: TokenStream, value: Option<TokenStream>| {
            value.map(|value| quote!(__queue_def.#field = ::core::option::Option::Some(#value);))
        };
        let queue = self.queue.as_ref().map(|queue| quote!(__queue_def.queue = #queue;));
        let max_attempts = some(quote!(max_attempts), self.max_attempts.map(|attempts| quote!(#attempts)));
        let max_crashes = some(quote!(max_crashes), self.max_crashes.map(|crashes| quote!(#crashes)));
        let timeout = some(quote!(timeout), self.timeout.map(time));
        let retention = some(quote!(retention), self.retention.map(time));
        let aging = some(quote!(aging), self.aging.map(time));
        let backoff = self.backoff.map(|(base, max)| {
            let base = base.map(time).unwrap_or_else(|| quote!(#core::Backoff::DEFAULT.base));
            let max = max.map(time).unwrap_or_else(|| quote!(#core::Backoff::DEFAULT.max));
            quote!(__queue_def.backoff = ::core::option::Option::Some(#core::Backoff { base: #base, max: #max });)
        });
        let priority = self.priority.as_ref().map(|name| quote!(__queue_def.priority = #core::broker::Priority::#name;));
        let isolation = self.on_isolation.as_ref().map(|name| quote!(__queue_def.on_isolation = #core::OnIsolation::#name;));
        let unique = self.unique.as_ref().map(|unique| unique.assignment(core, params));
        let group = self.group.as_ref().map(|group| group.assignment(core, params));
        let limits = self.limits.iter().map(|limit| limit.definition(core, task_name, params));
        let limits = (!self.limits.is_empty()).then(|| quote!(__queue_def.limits = &[#(#limits),*];));
        let tags = (!self.tags.is_empty()).then(|| self.tags.array(params)).map(|tags| quote!(__queue_def.tags = #tags;));
        let aliases = &self.aliases;
        let aliases = (!aliases.is_empty()).then(|| quote!(__queue_def.aliases = &[#(#aliases),*];));
        quote!(#queue #max_attempts #max_crashes #timeout #aging #retention #backoff #priority #isolation #unique #group #limits #tags #aliases)
    }
}

fn unknown(name: &str) -> String {
    let near = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, known)| *known).or_else(|| nearest(name, &KNOWN));
    match near {
        Some(near) => format!("there is no option `{name}`; did you mean `{near}`?"),
        None => format!("there is no option `{name}`; there are {}", KNOWN.map(|known| format!("`{known}`")).join(", ")),
    }
}

pub(crate) fn value<T: Parse>(key: &Ident, input: ParseStream, example: &str) -> Result<T> {
    let wanted = format!("write `{key} = {example}`");
    if !input.peek(Token![=]) {
        return Err(Error::new(key.span(), wanted));
    }
    input.parse::<Token![=]>()?;
    input.parse().map_err(|error| Error::new(error.span(), wanted))
}

fn backoff(key: &Ident, input: ParseStream) -> Result<(Option<Duration>, Option<Duration>)> {
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(key.span(), "write `backoff(base = \"2s\", max = \"1h\")`; either may be left out"));
    }
    let inner;
    parenthesized!(inner in input);
    let (mut base, mut max) = (None, None);
    while !inner.is_empty() {
        let key = inner.call(Ident::parse_any)?;
        let slot = match key.to_string().as_str() {
            "base" => &mut base,
            "max" => &mut max,
            other => return Err(Error::new(key.span(), format!("`backoff` has no `{other}`; it has `base` and `max`"))),
        };
        if slot.is_some() {
            return Err(Error::new(key.span(), format!("`{key}` is given twice; keep one of the two")));
        }
        let text: LitStr = value(&key, &inner, "\"2s\"")?;
        *slot = Some((duration(&text, true)?, text.span()));
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    if let (Some((base, _)), Some((max, span))) = (base, max)
        && base > max
    {
        return Err(Error::new(span, "`max` is shorter than `base`; the delay grows from `base` to `max`"));
    }
    Ok((base.map(|(base, _)| base), max.map(|(max, _)| max)))
}

/// The aging interval of waiting jobs.
fn interval(text: &LitStr) -> Result<Duration> {
    let every = duration(text, false)?;
    if !(Duration::from_millis(1)..=LONGEST_AGING).contains(&every) {
        return Err(Error::new(text.span(), "`aging` is between 1 ms and a year; write for example \"60s\", or leave the option out"));
    }
    Ok(every)
}

pub(crate) fn duration(text: &LitStr, zero: bool) -> Result<Duration> {
    let value = text.value();
    match humantime::parse_duration(&value) {
        Ok(duration) if duration > LONGEST => Err(Error::new(text.span(), "this is more than a hundred years; write a shorter time")),
        Ok(duration) if zero || !duration.is_zero() => Ok(duration),
        Ok(_) => Err(Error::new(text.span(), "must be greater than zero; write for example \"30s\", or leave the option out")),
        Err(error) => Err(Error::new(
            text.span(),
            format!("`{value}` is not a duration ({error}); write for example \"500ms\", \"30s\", \"5m\" or \"1h 30m\""),
        )),
    }
}

pub(crate) fn one_of(text: &LitStr, option: &str, known: &[(&str, &str)]) -> Result<Ident> {
    let value = text.value();
    match known.iter().find(|(name, _)| *name == value) {
        Some((_, variant)) => Ok(Ident::new(variant, text.span())),
        None => {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            Err(Error::new(text.span(), format!("`{option}` is one of {}", names.join(", "))))
        }
    }
}

pub(crate) fn checked_name(text: &LitStr) -> Result<String> {
    let value = text.value();
    if is_name(&value) { Ok(value) } else { Err(Error::new(text.span(), "a name has 1 to 128 letters, digits, `.`, `_` or `-`")) }
}

pub(crate) fn is_name(value: &str) -> bool {
    (1..=128).contains(&value.len()) && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        match Options::parse(text.parse().unwrap()) {
            Ok(_) => panic!("{text} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_option_is_read() {
        let options = Options::parse(quote!(
            name = "a.b",
            queue = "q",
            max_attempts = 3,
            timeout = "1m 30s",
            backoff(base = "1s", max = "1h"),
            priority = "high",
            retention = "2h",
            blocking,
            alias = "x",
            alias = "y",
            on_isolation = "cancel",
            crate = a::b,
        ))
        .unwrap();
        assert_eq!(options.name.as_deref(), Some("a.b"));
        assert_eq!(options.timeout, Some(Duration::from_secs(90)));
        assert_eq!(options.backoff, Some((Some(Duration::from_secs(1)), Some(Duration::from_secs(3600)))));
        assert_eq!(options.aliases, ["x", "y"]);
        assert!(options.blocking.is_some());
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_nearest_one() {
        assert!(problem("quue = \"a\"").contains("did you mean `queue`"));
        assert!(problem("retries = 3").contains("did you mean `max_attempts`"));
        assert!(problem("colour = 3").contains("there are `name`"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(problem("queue = \"a\", queue = \"b\"").contains("twice"));
        assert!(problem("timeout = \"soon\"").contains("not a duration"));
        assert!(problem("timeout = \"0s\"").contains("greater than zero"));
        assert!(problem("timeout = 30").contains("write `timeout = \"30s\"`"));
        assert!(problem("max_attempts = 0").contains("from 1"));
        assert!(problem("max_crashes = 0").contains("from 1"));
        assert!(problem("priority = \"urgent\"").contains("\"critical\""));
        assert!(problem("queue = \"a b\"").contains("letters"));
        assert!(problem("backoff(base = \"2h\", max = \"1h\")").contains("shorter"));
        assert!(problem("blocking = true").contains("no value"));
        assert!(problem("queue").contains("write `queue ="));
        assert!(problem("unique = true").contains("takes no value"));
        assert!(problem("unique(args = [a])").contains("did you mean `by`"));
        assert!(problem("unique(by = a)").contains("write `by = ["));
        assert!(problem("unique(by = [a, a.b, a])").contains("twice"));
        assert!(problem("unique(until = \"done\")").contains("\"started\""));
        assert!(problem("unique(within = \"10m\", until = \"ended\")").contains("keep one"));
        assert!(problem("unique(within = \"10m\", on_conflict = \"replace\")").contains("skipped"));
        assert!(problem("unique(payload = \"first\")").contains("on_conflict"));
        assert!(problem("unique, unique(by = [a])").contains("twice"));
    }

    /// A row of the reference with a range: the range, the option with `{}` for the value, the
    /// bounds, and the values just beyond.
    type Range = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

    const RANGES: [Range; 11] = [
        ("max_attempts", "from 1", "max_attempts = {}", &["1"], &["0"]),
        ("max_crashes", "from 1", "max_crashes = {}", &["1"], &["0"]),
        ("timeout", "above 0, up to 100 years", "timeout = \"{}\"", &["1ns", "100years"], &["0s", "100years 1ns"]),
        ("retention", "above 0, up to 100 years", "retention = \"{}\"", &["1ns", "100years"], &["0s", "100years 1ns"]),
        ("aging", "1 ms to 366 days", "aging = \"{}\"", &["1ms", "366days"], &["999us", "366days 1ns"]),
        (
            "backoff",
            "up to 100 years; `base` at most `max`",
            "backoff(base = \"1h\", max = \"{}\")",
            &["1h", "100years"],
            &["59min", "101years"],
        ),
        ("cron", "`every`: 1 s to 10 years", "schedule(every = \"{}\")", &["1s", "10years"], &["999ms", "3654days"]),
        ("catch_up", "N: 1 to 1,000", "schedule(every = \"90s\", catch_up = \"all({})\")", &["1", "1000"], &["0", "1001"]),
        ("window", "above 0, up to 100 years", "schedule(every = \"90s\", window = \"{}\")", &["1ns", "100years"], &["0s", "100years 1ns"]),
        ("jitter", "up to 24 h", "schedule(every = \"90s\", jitter = \"{}\")", &["0s", "24h"], &["24h 1ns"]),
        ("pause_after_dead", "from 0", "schedule(every = \"90s\", pause_after_dead = {})", &["0"], &["-1"]),
    ];

    fn expanded(options: &str) -> String {
        crate::function::expand(options.parse().unwrap(), &"async fn report() {}".parse().unwrap()).to_string()
    }

    /// The range and the default in the row of an option in the reference.
    fn documented(option: &str) -> (String, String) {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{option} ")) || line.starts_with(&format!("| `{option}(")));
        let mut cells = row.expect(option).trim_end_matches(" |").rsplit(" | ").map(|cell| cell.trim_start_matches("| ").to_owned());
        let default = cells.next().unwrap();
        (cells.next().unwrap(), default)
    }

    #[test]
    fn the_reference_has_the_ranges_of_the_options() {
        for (option, range, text, bounds, beyond) in RANGES {
            assert_eq!(documented(option).0, range, "{option}");
            for (values, is_valid) in [(bounds, true), (beyond, false)] {
                for options in values.iter().map(|value| text.replace("{}", value)) {
                    assert_eq!(!expanded(&options).contains("compile_error"), is_valid, "{options}");
                }
            }
        }
    }

    #[test]
    fn the_reference_has_the_options_that_are_required() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
        let subscribe =
            |options: &str| crate::subscribe::expand(options.parse().unwrap(), &"async fn bill(paid: Paid) {}".parse().unwrap());
        let event = |options: &str| crate::event::expand(format!("#[event({options})] struct Paid {{}}").parse().unwrap());
        for (attribute, option, with, without) in [
            ("event", "topic", event("topic = \"orders\""), event("name = \"paid\"")),
            ("subscribe", "name", subscribe("name = \"billing\", from = \"now\""), subscribe("from = \"now\"")),
            ("subscribe", "from", subscribe("from = \"now\", name = \"billing\""), subscribe("name = \"billing\"")),
        ] {
            let is_required = [with, without].map(|code| code.to_string().contains("compile_error")) == [false, true];
            assert!(is_required, "`{option}` of `#[{attribute}]`");
            let (_, table) = page.split_once(&format!("| `#[{attribute}]` |")).unwrap();
            let row = table.lines().find(|row| row.contains(&format!("`{option} = \""))).unwrap();
            assert!(row.ends_with("| required |"), "{row}");
        }
    }

    #[test]
    fn the_reference_has_the_defaults_of_a_schedule() {
        let schedule = expanded("schedule(every = \"90s\")");
        for (option, default, code) in [
            ("tz", "`UTC`", "tz : \"UTC\""),
            ("overlap", "`allow`", "overlap : \"allow\""),
            ("catch_up", "`last`", "catch_up : \"last\""),
            ("window", "none", "window : :: core :: option :: Option :: None"),
            ("jitter", "`0s`", "jitter : :: core :: time :: Duration :: from_millis (0u64)"),
            ("pause_after_dead", "`0`: never", "pause_after_dead : 0u32"),
        ] {
            assert!(schedule.contains(code), "{option}: {schedule}");
            assert_eq!(documented(option).1, default, "{option}");
        }
    }
}
