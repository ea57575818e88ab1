use super::*;
use crate::{
    address::JobId,
    broker::{Failure, StoredJob},
    envelope::Envelope,
};

fn job(state: JobState) -> JobRecord {
    let mut envelope = Envelope::new("send_mail", b"\x80");
    envelope.tags.insert("order".to_owned(), "17".to_owned());
    let mut stored = StoredJob::new(JobId::given("m-1").unwrap(), state, envelope.encode().unwrap());
    stored.at_ms = Some(1_000_000);
    stored.attempts = 3;
    stored.failures = vec![Failure { at_ms: 1, message: "Connection timed out".to_owned() }];
    JobRecord::new("mail", stored)
}

fn matches(filter: &str, job: &JobRecord) -> bool {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + 3600);
    filter.parse::<Filter>().unwrap_or_else(|error| panic!("{error}")).matches(job, now)
}

#[test]
fn what_looks_into_hidden_values_is_known_however_it_is_written() {
    let asks = |text: &str| text.parse::<Filter>().unwrap().reads_secrets();
    for text in ["payload~x", "payload\"\"~x", "\"payload=x\"", "head\"er\".a~x", "header.a=", "unique~a", "unique!~a", "task=a payload!=x"]
    {
        assert!(asks(text), "{text}");
    }
    for text in ["task~payload=", "tag.header.x=1", "unique=shop-7", "unique!=a", "error~\"header.a=b\""] {
        assert!(!asks(text), "{text}");
    }
}

#[test]
fn a_job_matches_if_it_matches_every_term() {
    let dead = job(JobState::Dead);
    for filter in [
        "",
        "task=send_mail state=dead error~\"timed OUT\" older=59m newer=61m",
        "queue=mail id=m-1 task~MAIL task!=other error!~refused priority=normal payload={}",
        "header.user!=ada host=",
        "id=mail/m-1 id!=orders/m-1 id!=mail/m-2",
        "tag.order=17 tag.order~1 tag.order!=18 tag.line= tag.line!=1",
        "failure=2e0b4a7d6c73428b failure!=0000000000000000",
        "attempts=3 attempts!=2 attempts>2 attempts>=3 attempts<4 attempts<=3",
    ] {
        assert!(matches(filter, &dead), "{filter}");
    }
    for filter in [
        "task=send",
        "state!=dead",
        "error~refused",
        "older=2h",
        "newer=1m",
        "task=send_mail queue=other",
        "id=orders/m-1",
        "id=mail/m-2",
        "id!=mail/m-1",
        "id~mail/m-1",
        "header.user=ada",
        "tag.order=1",
        "tag.order!~7",
        "tag.line=17",
        "failure=0000000000000000",
        "failure=",
        "attempts=2",
        "attempts!=3",
        "attempts>3",
        "attempts>=4",
        "attempts<3",
        "attempts<=2",
    ] {
        assert!(!matches(filter, &dead), "{filter}");
    }
    assert!(!matches("older=1s", &job(JobState::Ready)), "nobody says when it was enqueued");
}

#[test]
fn what_a_filter_excludes_is_not_listed() {
    let filter: Filter = "state!=ready state!=dead state!~e queue~ma".parse().unwrap();
    assert_eq!(filter.states(), []);
    assert!(filter.allows_queue("mail") && !filter.allows_queue("orders"));
    assert_eq!(Filter::default().states(), JobState::ALL);
}

#[test]
fn the_address_of_a_job_is_looked_up_in_its_queue() {
    let filter: Filter = "id=mail/m-1".parse().unwrap();
    assert_eq!(filter.id(), Some(JobId::given("m-1").unwrap()));
    assert!(filter.allows_queue("mail") && !filter.allows_queue("orders"));
    for open in ["id=m-1", "id!=mail/m-1", "id~mail/m-1"] {
        assert!(open.parse::<Filter>().unwrap().allows_queue("orders"), "{open}");
    }
    assert_eq!("id=mail/m-1/x".parse::<Filter>().unwrap().id(), None);
}

#[test]
fn a_filter_is_printed_as_it_is_read() {
    for text in [
        r#"group="the \"A\" team" unique="\"" payload~"\"path\":\"C:\\Temp\"""#,
        r"error~C:\Temp\",
        "task=a error~\"b c\"",
        "older=\"2days\"",
        "header.user!=ada id!~x tag.order=17",
        "attempts>=3 attempts<7 attempts!=4",
    ] {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(filter.to_string(), text);
        assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
    }
}

#[test]
fn mistakes_are_reported_with_advice() {
    for (text, says) in [
        ("send_mail", "has no operator"),
        ("!task", "has no operator"),
        ("taks=a", "did you mean `task`?"),
        ("x-y=a", "use one of task, state"),
        ("state=ded", "dead"),
        ("priority=urgent", "priority"),
        ("failure=timeout", "16 hexadecimal digits"),
        ("older=2", "`older=2d`"),
        ("older~2d", "`older=2d`"),
        ("error~\"open", "not closed"),
        ("tag=17", "write for example `tag.order=17`"),
        ("tag.=17", "write for example `tag.order=17`"),
        ("header=ada", "write for example `header.tenant=ada`"),
        ("tags.order=17", "did you mean `tag.order`?"),
        ("headers.tenant~ada", "did you mean `header.tenant`?"),
        ("attempts~3", "`attempts>=3`"),
        ("attempts>=many", "`attempts>=3`"),
        ("attemps>3", "did you mean `attempts`?"),
        ("task>a", "has no operator"),
    ] {
        let problem = text.parse::<Filter>().unwrap_err().to_string();
        assert!(problem.contains(says), "{text}: {problem}");
    }
    assert!("x".repeat(2000).parse::<Filter>().unwrap_err().to_string().contains("longer than 1024 bytes"));
}
