//! What every backend must do: one test per rule, asked through the door only.
//!
//! A backend writes a function that opens an empty store in a [`Bed`] and says `store::every_rule!(open);`, or
//! `store::conformance!(open: a_lost_race_is_fenced, …);` for some of them.

mod bed;
mod board;
mod held;
mod lists;
mod logs;
mod mail;
mod purses;
mod work;

pub use bed::Bed;
pub use board::*;
pub use held::*;
pub use lists::*;
pub use logs::*;
pub use mail::*;
pub use purses::*;
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
            large_letters_fill_an_inbox_by_their_bytes,
            an_archived_session_gets_no_mail,
            an_inbox_is_read_in_order,
            // board
            tasks_are_numbered_in_their_tree,
            a_stale_version_is_told_what_there_is_now,
            of_many_updates_of_one_version_one_counts,
            a_claim_of_a_claimed_task_names_its_holder,
            of_many_claims_of_a_task_one_counts,
            a_claim_without_a_number_takes_the_first_that_is_free,
            a_blocked_task_cannot_be_claimed,
            tasks_do_not_wait_in_a_circle,
            taking_a_task_up_is_claiming_it,
            a_task_can_be_given_back_and_done_again,
            a_claim_ends_with_its_owner,
            the_end_of_a_claim_is_part_of_the_commit,
            whoever_has_ended_claims_nothing,
            the_same_call_changes_a_board_once,
            a_board_has_limits,
            a_board_is_read_in_pages,
            // held
            a_held_letter_waits_outside_the_inbox,
            an_accepted_letter_is_posted_once,
            a_refused_letter_stays_out_for_good,
            a_letter_is_decided_once,
            nobody_decides_after_the_expiry,
            a_letter_is_held_once,
            held_letters_are_bounded_per_receiver,
            held_letters_come_in_pages,
            letters_between_sessions_are_listed,
            the_outbox_keeps_what_others_do_not_have_yet,
            the_outbox_is_bounded_in_number_and_in_bytes,
            a_watcher_finds_what_a_letter_became,
            // sessions
            keys_and_ids_are_unique,
            a_label_belongs_to_one_live_session,
            a_label_is_given_and_taken_away,
            what_is_put_away_is_out_of_reach_with_all_below,
            a_key_that_was_given_back_is_taken_in_the_same_moment,
            a_name_belongs_to_one_live_agent_of_a_tree,
            a_name_is_found_in_every_tree_that_has_it,
            the_end_of_an_id_finds_its_session,
            an_opened_session_starts_empty,
            relatives_must_exist,
            selectors_find_their_session,
            pages_are_stable_under_inserts,
            every_scope_has_its_pages,
            filters_narrow_a_page,
            archived_sessions_are_not_listed,
            a_tree_is_in_order_of_birth,
            busy_descendants_are_nearest_first,
            a_directory_has_those_who_are_busy_in_it_and_those_who_entered_it,
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
            a_purse_is_the_sum_of_what_spends_from_it,
            what_a_run_gets_for_itself_comes_back_at_its_end,
            nobody_gets_more_than_a_purse_holds,
            checking_finds_nothing_in_a_sound_store,
            checking_names_what_is_wrong,
        }
    };
}
