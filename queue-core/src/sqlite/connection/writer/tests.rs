//! Tests of shared commits and of undone operations.

use std::sync::mpsc as std_mpsc;

use super::*;
use crate::sqlite::connection::doorbell::Listeners;

fn add(tx: &mut Tx<'_>, name: &str) -> Result<(), Failed> {
    tx.queue_or_create(name)?;
    Ok(())
}

/// Operations of one commit: they arrive while the first of them runs.
async fn run_in_one_commit(writer: &Writer, refused: impl Fn() -> Failed + Send + 'static) -> [Result<()>; 3] {
    let (begun, has_begun) = oneshot::channel();
    let (go, may_go) = std_mpsc::channel::<()>();
    let mut begun = Some(begun);
    let first = writer.call(Commit::Synced, move |tx| {
        add(tx, "first")?;
        if let Some(begun) = begun.take() {
            begun.send(()).expect("the test waits");
            may_go.recv().expect("the test lets it go");
        }
        Ok(())
    });
    let rest = async {
        has_begun.await.expect("the first is run");
        let second = writer.call(Commit::Synced, move |tx| {
            add(tx, "second")?;
            tx.count(1, "second", 1);
            tx.hint("second", 0);
            Err(refused())
        });
        let third = writer.call(Commit::Synced, |tx| add(tx, "third"));
        let both = futures_util::future::join(second, third);
        tokio::pin!(both);
        // Both are sent after the first poll.
        assert!(futures_util::poll!(&mut both).is_pending());
        go.send(()).expect("the first waits");
        both.await
    };
    let (first, (second, third)) = futures_util::future::join(first, rest).await;
    [first, second, third]
}

/// While one read runs, its caller commits something and reads it.
#[tokio::test]
async fn a_read_sees_what_was_committed_before_it_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queue.db");
    std::fs::File::create(&path).expect("an empty file");
    let opened = || {
        let connection = schema::open_writer(Some(&path)).expect("a database");
        Opened { connection, file: None, location: schema::display_path(Some(&path)) }
    };
    let (writer, writes) = Writer::start(opened(), Ballast::none(), Durability::ProcessCrash, Bell::silent()).expect("a thread");
    let (reader, reads) = Writer::start_reader(opened()).expect("a thread");
    let count = |tx: &mut Tx<'_>| Ok(tx.sql("SELECT count(*) FROM queue_queues")?.query_row([], |row| row.get::<_, i64>(0))?);
    for before in 0..10 {
        let (begun, has_begun) = oneshot::channel();
        let (go, may_go) = std_mpsc::channel::<()>();
        let mut begun = Some(begun);
        let first = reader.call(Commit::Soon, move |tx| {
            let counted = count(tx)?;
            if let Some(begun) = begun.take() {
                begun.send(()).expect("the test waits");
                may_go.recv().expect("the test lets it go");
            }
            Ok(counted)
        });
        let second = async {
            has_begun.await.expect("the first is run");
            writer.call(Commit::Soon, move |tx| add(tx, &format!("queue-{before}"))).await.expect("it is committed");
            let second = reader.call(Commit::Soon, count);
            tokio::pin!(second);
            assert!(futures_util::poll!(&mut second).is_pending());
            go.send(()).expect("the first waits");
            second.await
        };
        let (first, second) = futures_util::future::join(first, second).await;
        assert_eq!((first.expect("it reads"), second.expect("it reads")), (before, before + 1));
    }
    drop((writer, reader));
    for thread in [writes, reads] {
        thread.join().expect("the thread ends");
    }
}

#[tokio::test]
async fn a_refused_operation_undoes_what_it_wrote_and_no_more() {
    let refusals: [fn() -> Failed; 2] = [
        || Failed::Refused(Error::Forgotten("second".to_owned())),
        || Failed::Sqlite(rusqlite::Error::InvalidColumnType(0, "value".to_owned(), rusqlite::types::Type::Text)),
    ];
    for refused in refusals {
        let connection = schema::open_writer(None).expect("a database in memory");
        let listeners = Listeners::default();
        let mut hints = listeners.of("second");
        let bell = Bell::new(listeners);
        let (writer, thread) = Writer::start(
            Opened { connection, file: None, location: schema::display_path(None) },
            Ballast::none(),
            Durability::PowerLoss,
            bell,
        )
        .expect("a thread");
        let [first, second, third] = run_in_one_commit(&writer, refused).await;
        first.expect("it was not refused");
        second.expect_err("it was refused");
        third.expect("it was not refused");
        let stored = |tx: &mut Tx<'_>| {
            let names: Vec<String> = tx
                .sql("SELECT name FROM queue_queues UNION ALL SELECT name FROM queue_counters ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(names)
        };
        assert_eq!(writer.call(Commit::Soon, stored).await.expect("it reads"), ["first", "third"]);
        assert!(futures_util::poll!(Box::pin(hints.next())).is_pending(), "nobody hears of what was undone");
        drop(writer);
        thread.join().expect("the thread ends");
    }
}
