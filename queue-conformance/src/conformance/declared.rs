//! The group rules that code declares. They apply where an operator has set nothing.

use std::collections::BTreeSet;

use queue_core::{
    __private::declare_groups,
    Error,
    broker::{Enqueued, GroupSet, GroupsRecord, SetGroup},
    inspect::{GroupOrder, GroupRule, RuleOf},
};

use super::{
    bed::Bed,
    groups::{cap, groups, job, put, rule, sound},
};

fn declared(change: impl Fn(&mut GroupRule)) -> GroupRule {
    let mut rule = GroupRule::new();
    change(&mut rule);
    rule
}

async fn declare(bed: &Bed, release: &str, change: impl Fn(&mut GroupRule)) -> Option<GroupRule> {
    declare_groups(&bed.broker, &bed.queue, release, &declared(change)).await.expect("it can be declared")
}

async fn claimed(bed: &Bed) -> Vec<char> {
    let mut claimed: Vec<char> = groups(&bed.lane().await.claim(20).await).chars().collect();
    claimed.sort_unstable();
    claimed
}

/// The declared rule applies to each group from the next claim on. The settings of an operator, for
/// all groups or for one, override it field by field.
pub async fn what_code_declares_holds_where_nothing_is_set(bed: Bed) {
    for of in ["a", "b", "c"] {
        put(&bed, of, 4).await;
    }
    assert_eq!(declare(&bed, "v1", |rule| (rule.cap, rule.max_size) = (Some(1), Some(4))).await.map(|rule| rule.cap), Some(Some(1)));
    assert_eq!(declare(&bed, "v1", |rule| (rule.cap, rule.max_size) = (Some(1), Some(4))).await, None, "it is declared already");
    cap(&bed, "b", 2).await;
    assert_eq!(claimed(&bed).await, ['a', 'b', 'b', 'c']);
    rule(&bed, &RuleOf::Others, |rule| rule.cap = Some(2)).await;
    assert_eq!(claimed(&bed).await, ['a', 'c'], "the groups that were full are served at the next claim");
    let page = bed.inspector().groups(&bed.queue, None, 10).await.expect("groups can be listed");
    assert_eq!((page.others.cap, page.declared().cap, page.defaults().cap), (Some(2), Some(1), Some(2)));
    assert_eq!((page.defaults().max_size, page.groups.len()), (Some(4), 3));
    let mut producer = bed.producer().await;
    let answers = producer.send(vec![job("a"), job("a"), job("a"), job("")]).await;
    assert_eq!(answers[2..], [Enqueued::GroupFull, Enqueued::Stored], "what nobody has set is as code declares it");
    sound(&bed).await;

    rule(&bed, &RuleOf::Others, |rule| *rule = GroupRule::new()).await;
    assert_eq!(bed.inspector().forget_declared_groups(&bed.queue).await.expect("it is forgotten").cap, Some(1));
    assert_eq!(bed.inspector().forget_declared_groups(&bed.queue).await.expect("nothing is left"), GroupRule::new());
    assert_eq!(claimed(&bed).await, ['-', 'a', 'a', 'a', 'a', 'c', 'c'], "all but those of `b`, which has a rule of its own");
    sound(&bed).await;
}

/// Code may declare that groups are in order; a job that waits for its retry blocks the group line.
pub async fn code_declares_an_order(bed: Bed) {
    declare(&bed, "v1", |rule| rule.order = Some(GroupOrder::Ordered)).await;
    put(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    assert_eq!(lane.claim(5).await.len(), 1);
    rule(&bed, &RuleOf::Others, |rule| rule.order = Some(GroupOrder::Any)).await;
    assert_eq!(lane.claim(5).await.len(), 2, "a person lets them run at once");
    sound(&bed).await;
}

/// If releases disagree, the one that was first seen last applies. A release without a live worker
/// is forgotten, so that a rollback takes effect.
pub async fn of_releases_that_disagree_the_latest_holds(bed: Bed) {
    let mut record = GroupsRecord::default();
    let live: BTreeSet<String> = ["v1".to_owned(), "v2".to_owned()].into();
    record.declare("v1", &declared(|rule| rule.cap = Some(1)), &live, 10);
    record.declare("v2", &declared(|rule| rule.cap = Some(2)), &live, 20);
    let request = SetGroup::declared(bed.queue.clone(), "", &record.encode());
    assert_eq!(bed.broker.set_group(&request).await.expect("it is set"), GroupSet::Set);
    assert_eq!(bed.broker.set_group(&request).await.expect("it is what was wanted"), GroupSet::Set);
    put(&bed, "a", 4).await;
    assert_eq!(claimed(&bed).await, ['a', 'a']);
    // No worker of `v2` is alive.
    assert_eq!(declare(&bed, "v1", |rule| rule.cap = Some(1)).await, Some(declared(|rule| rule.cap = Some(1))));
    let page = bed.inspector().groups(&bed.queue, None, 10).await.expect("groups can be listed");
    assert_eq!(page.declared().cap, Some(1));
    assert!(!page.stored_declared.contains("v2"), "{}", page.stored_declared);
    sound(&bed).await;
}

/// Two concurrent declarations do not undo each other. Other bytes are not accepted as a
/// declaration.
pub async fn what_is_declared_is_changed_by_who_has_read_it(bed: Bed) {
    let mut record = GroupsRecord::default();
    record.declare("v1", &declared(|rule| rule.cap = Some(1)), &BTreeSet::new(), 10);
    let first = record.encode();
    record.declare("v2", &declared(|rule| rule.cap = Some(1)), &["v1".to_owned()].into(), 20);
    let (mine, other) = (SetGroup::declared(bed.queue.clone(), "", &first), SetGroup::declared(bed.queue.clone(), "", &record.encode()));
    assert_eq!(bed.broker.set_group(&mine).await.expect("it is set"), GroupSet::Set);
    assert_eq!(
        bed.broker.set_group(&other).await.expect("it is answered"),
        GroupSet::Stale,
        "the rule is the same, and who declares it is not"
    );
    let page = bed.inspector().groups(&bed.queue, None, 10).await.expect("groups can be listed");
    assert_eq!(page.stored_declared, first);
    let bare = SetGroup::new(bed.queue.clone(), RuleOf::Declared, GroupRule::new(), declared(|rule| rule.cap = Some(1)));
    assert!(matches!(bed.broker.set_group(&bare).await, Err(Error::Invalid { .. })));
    let closed = bed.inspector().set_group_rule(&bed.queue, &RuleOf::Declared, |rule| rule.cap = Some(3)).await;
    assert!(closed.unwrap_err().to_string().contains("set the rule of all groups, `*`"));
    put(&bed, "a", 2).await;
    assert_eq!(claimed(&bed).await, ['a']);
}
