//! The queue with two processes and one broker.

use std::{
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use queue_core::{Client, broker::JobState};
use queue_tests::{
    folder::folder,
    patience::{self, Lines, wait_for},
    server::{Kind, Server},
};

/// A running `ack-queue`. It is killed when this is dropped, as with `kill -9`.
struct User {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines,
}

impl User {
    fn start(url: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ack-queue"))
            .env("QUEUE_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), Lines::of(child.stdout.take().unwrap()));
        User { child, stdin, stdout }
    }

    fn says(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.stdout.next()
    }

    fn pushes(&mut self, text: &str) -> String {
        self.says(&format!("push {text}")).strip_prefix("pushed ").expect("it is stored").to_owned()
    }

    /// Claims until there is a message.
    fn claims_in_the_end(&mut self, time: &str) -> String {
        wait_for("something to claim", || Some(self.says(&format!("claim {time}"))).filter(|answer| answer != "nothing to claim"))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number of dead letters.
#[tokio::main(flavor = "current_thread")]
async fn set_aside(url: &str) -> u64 {
    let stats = Client::connect(url).await.unwrap().inspector().stats("messages").await.unwrap();
    stats.count(JobState::Dead)
}

fn on_both(story: fn(&str)) {
    let folder = folder();
    story(&format!("sqlite://{}", folder.path().join("queue.db").display()));
    story(&Server::start(Kind::Redis).url());
}

#[test]
fn a_message_is_claimed_once_and_gone_when_acknowledged() {
    on_both(|url| {
        let (mut ada, mut ben) = (User::start(url), User::start(url));
        let id = ada.pushes("buy ink");
        assert_eq!(ben.says("claim 60s"), format!("claimed {id} buy ink"));
        assert_eq!(ada.says("claim 60s"), "nothing to claim");
        assert_eq!(ben.says(&format!("ack {id}")), "acknowledged");
        assert_eq!(ben.says(&format!("ack {id}")), "too late, or not claimed here");
        assert_eq!(ada.says("claim 60s"), "nothing to claim");
    });
}

#[test]
fn what_a_killed_process_had_claimed_comes_back_when_its_time_is_over() {
    on_both(|url| {
        let (mut ada, mut ben) = (User::start(url), User::start(url));
        let id = ada.pushes("buy ink");
        let claimed = Instant::now();
        assert_eq!(ada.says("claim 1s"), format!("claimed {id} buy ink"));
        drop(ada);
        assert_eq!(ben.claims_in_the_end("60s"), format!("claimed {id} buy ink"));
        assert!(claimed.elapsed() >= Duration::from_secs(1), "it came back before its time was over");
        assert_eq!(ben.says(&format!("ack {id}")), "acknowledged");
    });
}

#[test]
fn an_acknowledgement_that_comes_too_late_changes_nothing() {
    on_both(|url| {
        let (mut ada, mut ben) = (User::start(url), User::start(url));
        let id = ada.pushes("buy ink");
        ada.says("claim 300ms");
        assert_eq!(ben.claims_in_the_end("60s"), format!("claimed {id} buy ink"));
        assert_eq!(ada.says(&format!("ack {id}")), "too late, or not claimed here");
        assert_eq!(ben.says(&format!("ack {id}")), "acknowledged");
    });
}

#[test]
fn claiming_another_message_leaves_the_time_of_the_first_as_it_is() {
    on_both(|url| {
        let (mut ada, mut ben) = (User::start(url), User::start(url));
        let first = ada.pushes("first");
        let second = ada.pushes("second");
        assert_eq!(ada.says("claim 500ms"), format!("claimed {first} first"));
        assert_eq!(ada.says("claim 60s"), format!("claimed {second} second"));
        assert_eq!(ben.claims_in_the_end("60s"), format!("claimed {first} first"));
        assert_eq!(ada.says(&format!("ack {second}")), "acknowledged");
    });
}

#[test]
fn a_message_that_nobody_acknowledges_is_set_aside() {
    on_both(|url| {
        let mut ada = User::start(url);
        let id = ada.pushes("poison");
        for _ in 0..ack_queue::MAX_CLAIMS {
            assert_eq!(ada.claims_in_the_end("50ms"), format!("claimed {id} poison"));
        }
        // The message becomes a dead letter at a claim after its last visibility time.
        wait_for("the message to be set aside", || {
            assert_eq!(ada.says("claim 60s"), "nothing to claim");
            (set_aside(url) == 1).then_some(())
        });
        assert_eq!(ada.says("claim soon").split(':').next(), Some("error"));
    });
}

/// `--help` prints help and opens no queue.
#[test]
fn a_question_for_help_starts_nothing() {
    let run = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ack-queue"));
        patience::output(command.arg(argument).env("QUEUE_URL", "redis://127.0.0.1:1")).unwrap()
    };
    for argument in ["--help", "-h"] {
        let help = run(argument);
        assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Usage: ack-queue"), "{help:?}");
    }
    let refused = run("--hlep");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--hlep"), "{refused:?}");
}
