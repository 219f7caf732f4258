//! A network that goes silent holds no read for ever.

use store::StoreError;

use crate::copied::turn;
use crate::relayed::{LIMIT_MS, Relayed};

#[test]
fn reads_over_a_silent_network_end_at_their_limit_and_go_on_after_it() {
    let _turn = turn();
    let relayed = Relayed::new("silent");
    let stopped = || Err(StoreError::Timeout { limit_ms: LIMIT_MS });
    relayed.need_answers();
    for _ in 0..2 {
        relayed.relay.go_silent();
        // On a connection that was there, and on those that are made meanwhile.
        assert_eq!(relayed.read_all(), [stopped(), stopped(), stopped()]);
        relayed.relay.go_on();
        relayed.need_answers();
    }
}

#[test]
fn connections_that_went_silent_are_replaced_and_others_are_kept() {
    let _turn = turn();
    let relayed = Relayed::new("replaced");
    relayed.need_answers();
    relayed.need_answers();
    let before = relayed.relay.connections();
    relayed.relay.go_silent();
    assert!(relayed.read_all()[0].is_err());
    relayed.relay.go_on();
    relayed.need_answers();
    let after = relayed.relay.connections();
    assert!(after > before, "{before} {after}");
}
