//! The kinds of errors, as the labels of a metric have them.

use super::Error;

impl Error {
    /// The kind of error in one word: the variant's name in lower case with `_`. For the label of a
    /// metric.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Invalid { .. } => "invalid",
            Error::PayloadTooLarge { .. } => "payload_too_large",
            Error::Encode { .. } => "encode",
            Error::Decode { .. } => "decode",
            Error::Refused { .. } => "refused",
            Error::IdConflict(_) => "id_conflict",
            Error::GroupFull { .. } => "group_full",
            Error::Unserved { .. } => "unserved",
            Error::NoSuchQueue { .. } => "no_such_queue",
            Error::NoSuchJob(_) => "no_such_job",
            Error::NoSuchSchedule { .. } => "no_such_schedule",
            Error::NoSuchOperation(_) => "no_such_operation",
            Error::OperationUnderWay(_) => "operation_under_way",
            Error::NotKept(_) => "not_kept",
            Error::ResultDropped { .. } => "result_dropped",
            Error::WrongState { .. } => "wrong_state",
            Error::EditConflict { .. } => "edit_conflict",
            Error::KeyHeld { .. } => "key_held",
            Error::Config(_) => "config",
            Error::FeatureOff { .. } => "feature_off",
            Error::SchemaTooNew { .. } => "schema_too_new",
            Error::FeatureUnknown { .. } => "feature_unknown",
            Error::NoDatabase { .. } => "no_database",
            Error::Evicts { .. } => "evicts",
            Error::AccessDenied { .. } => "access_denied",
            Error::WrongType { .. } => "wrong_type",
            Error::Unavailable { .. } => "unavailable",
            Error::Ambiguous { .. } => "ambiguous",
            Error::BrokerFull { .. } => "broker_full",
            Error::PartlyStored { .. } => "partly_stored",
            Error::Forgotten(_) => "forgotten",
            Error::Old { .. } => "old",
            Error::Unknown(_) => "unknown",
            Error::Internal(_) => "internal",
        }
    }
}
