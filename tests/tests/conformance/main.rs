//! The conformance suite, on every broker.

mod access;

use queue_conformance::conformance;
use queue_tests::{
    server::Kind,
    storages::{Server, SqliteFile, SqliteMemory, Wrapped},
};

conformance!(on_redis, || Server::new(Kind::Redis));
conformance!(on_redis_by_full_scripts, || Server::by_full_scripts(Kind::Redis));
conformance!(on_valkey, || Server::new(Kind::Valkey));
conformance!(on_redis_sentinel, || Server::sentinel(Kind::Redis));
conformance!(on_valkey_sentinel, || Server::sentinel(Kind::Valkey));
conformance!(on_redis_cluster, || Server::cluster(Kind::Redis));
conformance!(on_valkey_cluster, || Server::cluster(Kind::Valkey));
conformance!(on_sqlite_file, SqliteFile::new);
conformance!(on_sqlite_memory, SqliteMemory::new);
conformance!(on_a_wrapped_broker, Wrapped::new);
