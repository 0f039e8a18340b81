//! Every point at which the process can die, for every provider and every way to recover, with its end.

use samekey::Reason::{Holder, Lapse};
use support::Gate;

use crate::ends::End::{ByHand, Probed, Replayed, Runs};
use crate::ends::{End, RECOVERIES, Row, play};
use crate::provider::Behaviour;

const fn same(end: End) -> [End; 3] {
    [end; 3]
}

const UNKNOWN: End = ByHand(Lapse);

/// In the order of the handler. Recovery by hand, by probe, by running again.
const WELL: &[Row] = &[
    ("arrived", same(Runs(1)), [1, 1]),
    // Everything goes through the journal, and nothing is in it.
    ("claimed", same(Runs(2)), [1, 1]),
    // The journal says that it may have been called: neither "nothing of it" nor running again closes that.
    ("charge noted", same(UNKNOWN), [1, 1]),
    ("charge called", same(UNKNOWN), [2, 1]),
    // Charged and not shipped is no answer for a probe to give.
    ("charge ended", [UNKNOWN, UNKNOWN, Runs(2)], [1, 1]),
    ("ship noted", same(UNKNOWN), [1, 1]),
    ("ship called", [UNKNOWN, Probed, UNKNOWN], [1, 1]),
    ("ship ended", [UNKNOWN, Probed, Runs(2)], [1, 1]),
    ("answer made", [UNKNOWN, Probed, Runs(2)], [1, 1]),
    ("answer stored", same(Replayed), [1, 1]),
    ("answer sent", same(Replayed), [1, 1]),
];

/// The charge was made, and nobody was told. Under its own key the provider gives it again, and charges nothing.
const CHARGE_LOST: &[Row] = &[
    ("charge called", same(UNKNOWN), [2, 1]),
    ("charge ended", same(UNKNOWN), [2, 1]),
    ("answer made", same(UNKNOWN), [2, 1]),
    ("answer stored", same(ByHand(Holder)), [2, 1]),
    ("answer sent", same(ByHand(Holder)), [2, 1]),
];

/// Both were made, and nobody was told of the parcel.
const PARCEL_LOST: &[Row] = &[
    ("ship called", [UNKNOWN, Probed, UNKNOWN], [1, 1]),
    ("ship ended", [UNKNOWN, Probed, UNKNOWN], [1, 1]),
    ("answer made", [UNKNOWN, Probed, UNKNOWN], [1, 1]),
    ("answer stored", [ByHand(Holder), Probed, ByHand(Holder)], [1, 1]),
    ("answer sent", [ByHand(Holder), Probed, ByHand(Holder)], [1, 1]),
];

/// The provider said that it shipped nothing, and would now.
const PARCEL_DECLINED: &[Row] = &[
    ("ship called", same(UNKNOWN), [1, 2]),
    ("ship ended", [UNKNOWN, UNKNOWN, Runs(2)], [1, 2]),
    ("answer made", [UNKNOWN, UNKNOWN, Runs(2)], [1, 2]),
    ("answer stored", same(Runs(2)), [1, 2]),
    ("answer sent", same(Runs(2)), [1, 2]),
];

async fn plays(behaviour: Behaviour, rows: &[Row]) {
    let [manual, probe, rerun] = RECOVERIES.map(|recovery| play(behaviour.clone(), rows, recovery));
    tokio::join!(manual, probe, rerun);
}

#[tokio::test]
async fn killed_while_the_provider_is_well() {
    plays(Behaviour::Honest, WELL).await;
}

#[tokio::test]
async fn killed_while_the_provider_is_slow() {
    plays(Behaviour::Slow, WELL).await;
}

#[tokio::test]
async fn killed_around_a_charge_whose_answer_is_lost() {
    plays(Behaviour::LosesCharge, CHARGE_LOST).await;
}

#[tokio::test]
async fn killed_around_a_parcel_whose_answer_is_lost() {
    plays(Behaviour::LosesParcel, PARCEL_LOST).await;
}

#[tokio::test]
async fn killed_together_with_a_provider_that_had_charged() {
    plays(Behaviour::CrashesAfterCharge, CHARGE_LOST).await;
}

#[tokio::test]
async fn killed_together_with_a_provider_that_had_shipped() {
    plays(Behaviour::CrashesAfterParcel, PARCEL_LOST).await;
}

#[tokio::test]
async fn killed_around_a_parcel_that_was_declined() {
    plays(Behaviour::DeclinesParcel, PARCEL_DECLINED).await;
}

#[tokio::test]
async fn killed_while_a_call_is_under_way() {
    let rows: &[Row] = &[("call under way", same(UNKNOWN), [2, 1])];
    plays(Behaviour::Withholds("charge", Gate::new()), rows).await;
    let rows: &[Row] = &[("call under way", [UNKNOWN, Probed, UNKNOWN], [1, 1])];
    plays(Behaviour::Withholds("ship", Gate::new()), rows).await;
}
