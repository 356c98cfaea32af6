//! Rules of purses: who pays, and what is left.

use super::Bed;
use super::bed::request;
use crate::{Batch, Error, Post, RunChange, RunEnd, Session, Used};
use proto::letter::{Allotment, Purse};
use proto::{Body, Outcome, RunId, Usage};

async fn change(bed: &Bed, session: &Session, at: i64, runs: Vec<RunChange>) {
    bed.commit(session, Batch { at, runs, ..Batch::default() }).await.unwrap();
}

/// A prompt whose run spends from that purse.
fn paid(session: &Session, purse: Option<Purse>) -> Post {
    let mut post = request(session);
    if let Body::Prompt(prompt) = &mut post.letter.body {
        prompt.purse = purse;
    }
    post
}

fn spend(run: &RunId, cost_usd: f64, input: u64) -> RunChange {
    RunChange::Spend { run: run.clone(), usage: Usage { input, cost_usd, ..Usage::default() } }
}

fn from(of: &RunId, allotted: Option<Allotment>) -> Option<Purse> {
    Some(Purse { of: of.clone(), allotted, fresh: true, steps: None })
}

async fn used(bed: &Bed, run: &RunId) -> Vec<Used> {
    bed.store.purses(run).await.unwrap().into_iter().map(|purse| purse.used).collect()
}

pub async fn a_purse_is_the_sum_of_what_spends_from_it(bed: Bed) {
    let session = bed.root("a").await;
    let limits = Allotment { cost_usd: Some(5.0), tokens: None, agents: Some(9) };
    let mut first = paid(&session, None);
    let own = first.letter.id.run();
    if let Body::Prompt(prompt) = &mut first.letter.body {
        prompt.purse = Some(Purse { of: own.clone(), allotted: Some(limits), fresh: false, steps: None });
    }
    bed.post(first).await.unwrap();
    let below = bed.post(paid(&session, from(&own, None))).await.unwrap().letter.run();
    change(&bed, &session, 10, vec![spend(&own, 1.0, 10), spend(&below, 0.5, 5), spend(&own, 1.0, 10)]).await;
    let purses = bed.store.purses(&below).await.unwrap();
    assert_eq!((purses.len(), &purses[0].run, purses[0].allotted), (1, &own, limits));
    assert_eq!(purses[0].used, Used { cost_usd: 2.5, tokens: 25, agents: 1 });
    let alone = bed.post(paid(&session, None)).await.unwrap().letter.run();
    assert_eq!(used(&bed, &alone).await, [Used::default()], "without a purse a run has its own");
    assert!(used(&bed, &RunId::new()).await.is_empty());
    assert_eq!(bed.store.run(&own).await.unwrap().unwrap().usage.input, 20);
}

pub async fn what_a_run_gets_for_itself_comes_back_at_its_end(bed: Bed) {
    let session = bed.root("a").await;
    let own = bed.post(paid(&session, None)).await.unwrap().letter.run();
    let part = Allotment { cost_usd: Some(2.0), tokens: Some(100), agents: None };
    let below = bed.post(paid(&session, from(&own, Some(part)))).await.unwrap().letter.run();
    let further = bed.post(paid(&session, from(&below, None))).await.unwrap().letter.run();
    change(&bed, &session, 10, vec![spend(&below, 0.25, 10), spend(&further, 0.25, 10)]).await;
    let spent = Used { cost_usd: 0.5, tokens: 20, agents: 1 };
    assert_eq!(used(&bed, &further).await, [spent, Used { cost_usd: 2.0, tokens: 100, agents: 2 }]);
    let usage = Usage { input: 10, cost_usd: 0.25, ..Usage::default() };
    let end =
        RunEnd { run: below.clone(), outcome: Outcome::Ok, code: None, message: None, hint: None, answer: None, usage };
    change(&bed, &session, 11, vec![RunChange::End(end)]).await;
    assert_eq!(used(&bed, &further).await, [spent, Used { agents: 2, ..spent }]);
    // What it started goes on spending, and still counts.
    change(&bed, &session, 12, vec![spend(&further, 0.5, 10)]).await;
    assert_eq!(used(&bed, &own).await, [Used { cost_usd: 1.0, tokens: 30, agents: 2 }]);
}

pub async fn nobody_gets_more_than_a_purse_holds(bed: Bed) {
    let session = bed.root("a").await;
    let money = |cost| Allotment { cost_usd: Some(cost), ..Allotment::default() };
    let top = RunId::parse("top").unwrap();
    let mut post =
        paid(&session, Some(Purse { of: top.clone(), allotted: Some(money(5.0)), fresh: false, steps: None }));
    post.letter.id = top.letter();
    bed.post(post).await.unwrap();
    bed.post(paid(&session, from(&top, Some(money(3.0))))).await.unwrap();
    let refused = bed.post(paid(&session, from(&top, Some(money(3.0))))).await;
    assert!(matches!(&refused, Err(Error::Overdrawn(why)) if why.contains("$2.00 is left")), "{refused:?}");
    let below = bed.post(paid(&session, from(&top, Some(money(2.0))))).await.unwrap().letter.run();
    let deeper = bed.post(paid(&session, from(&below, Some(money(2.5))))).await;
    assert!(matches!(deeper, Err(Error::Overdrawn(_))), "{deeper:?}");
    bed.post(paid(&session, from(&below, Some(money(2.0))))).await.unwrap();
}
