//! What every backend must do: one test per rule, asked through the door only.
//!
//! A backend writes a function that opens an empty store in a [`Bed`] and says `store::every_rule!(open);`, or
//! `store::conformance!(open: a_lost_race_is_fenced, …);` for some of them.

mod bed;
mod lists;
mod logs;
mod mail;
mod work;

pub use bed::Bed;
pub use lists::*;
pub use logs::*;
pub use mail::*;
pub use work::*;

/// One test per named rule for the backend that `$open` opens.
#[macro_export]
macro_rules! conformance {
    ($open:ident: $($rule:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $rule() {
            $crate::conformance::$rule($open()).await;
        }
    )*};
}

/// All rules.
#[macro_export]
macro_rules! every_rule {
    ($open:ident) => {
        $crate::conformance! { $open:
            // logs
            entries_keep_their_order,
            a_lost_race_is_fenced,
            of_many_claims_the_last_one_holds,
            a_missing_session_is_named,
            a_refused_commit_changes_nothing,
            a_refused_operation_leaves_its_neighbours_intact,
            waking_reads_from_the_base,
            a_tree_is_quiet_when_nobody_in_it_is_busy,
            spans_page_both_ways,
            a_fork_shares_its_prefix,
            a_fork_of_a_fork_reads_through_both,
            a_fork_below_its_parents_prefix_skips_the_parent,
            a_fork_wakes_from_its_own_base,
            a_fork_needs_an_entry_to_stand_on,
            watchers_hear_in_cursor_order,
            what_was_kept_is_read_by_tree,
            row_changes_change_what_they_name,
            a_closed_store_says_so,
            // mail
            a_letter_is_consumed_exactly_once,
            of_two_owners_one_gets_the_letter,
            only_the_receiver_consumes_a_letter,
            a_letter_id_is_good_for_life,
            a_letter_id_is_good_for_one_receiver,
            a_retry_in_the_same_mail_is_one_letter,
            a_call_with_the_same_key_counts_once,
            going_idle_fails_while_letters_are_unread,
            a_persons_text_is_a_request_to_the_idle_and_a_steer_to_the_busy,
            mail_queues_whoever_is_neither_busy_nor_paused,
            control_letters_change_no_status,
            a_letter_to_oneself_is_queued_by_the_commit_that_goes_idle,
            a_full_inbox_refuses,
            an_archived_session_gets_no_mail,
            an_inbox_is_read_in_order,
            // sessions
            keys_and_ids_are_unique,
            a_label_belongs_to_one_live_session,
            an_opened_session_starts_empty,
            relatives_must_exist,
            selectors_find_their_session,
            pages_are_stable_under_inserts,
            every_scope_has_its_pages,
            filters_narrow_a_page,
            archived_sessions_are_not_listed,
            a_tree_is_in_order_of_birth,
            busy_descendants_are_nearest_first,
            live_children_are_counted,
            unfinished_sessions_are_the_busy_and_the_unread,
            // work
            a_prompt_queues_its_run,
            a_run_is_started_and_ended,
            mail_that_opens_a_run_makes_its_row,
            an_alias_leads_to_the_run_it_joined,
            asks_are_open_until_answered_or_withdrawn,
            the_first_answer_stands,
            circles_of_waits_are_seen,
            a_wait_needs_somebody_to_wait_for,
            a_spawn_is_one_commit,
            checking_finds_nothing_in_a_sound_store,
            checking_names_what_is_wrong,
        }
    };
}
