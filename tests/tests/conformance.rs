//! The conformance suite, on every broker.

use queue_core::{broker::DynBroker, redis::RedisBroker, sqlite::SqliteBroker};
use queue_tests::server::{Kind, shared};

async fn server(kind: Kind) -> DynBroker {
    RedisBroker::connect(&shared(kind)).await.unwrap()
}

fn file() -> DynBroker {
    let folder = tempfile::tempdir().unwrap().keep();
    SqliteBroker::open_path(folder.join("queue.db")).unwrap()
}

queue_tests::conformance!(on_redis, server(Kind::Redis).await);
queue_tests::conformance!(on_valkey, server(Kind::Valkey).await);
queue_tests::conformance!(on_sqlite_file, file());
queue_tests::conformance!(on_sqlite_memory, SqliteBroker::open("sqlite::memory:").unwrap());
