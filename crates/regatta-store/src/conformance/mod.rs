//! One suite for every backend: it defines the meaning of [`Store`].
//!
//! A case is an ordinary function over a [`Fixture`], which provides independent handles ("machines") on one fresh
//! store. [`conformance!`](crate::conformance!) turns all of them into tests of one backend, with names such as
//! `sqlite::claim::two_sessions_never_hold_one_task`. A case asserts what is true of all backends, plain or behind
//! [`Faulty`](crate::faulty::Faulty), and so compares times and beats only for equality.

pub mod advance;
pub mod claim;
pub mod context;
pub mod dependents;
pub mod document;
pub mod event;
pub mod limits;
pub mod member;
pub mod message;
pub mod newer;
pub mod node;
pub mod operate;
pub mod profiles;
pub mod prompt;
pub mod proposal;
pub mod queue;
pub mod read;
pub mod report;
pub mod session;
pub mod spending;
pub mod train;

use std::sync::Arc;

use async_trait::async_trait;

use crate::Store;

/// A fresh, empty store, and as many independent handles on it as a case asks for.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// A handle as another process would have it.
    async fn machine(&self) -> Arc<dyn Store>;
}

/// Expands every case into a test. `$fixture` is an expression that creates a fresh fixture and is valid in any module.
#[macro_export]
macro_rules! conformance {
    ($fixture:expr) => {
        $crate::conformance_tests! { $fixture;
            session {
                opening_twice_changes_nothing,
                a_session_that_expired_is_never_opened_again,
                a_session_that_was_closed_is_never_opened_again,
                a_session_that_never_was_can_do_nothing,
                expiry_compares_the_beat,
                expiring_twice_names_the_same_tasks,
                expiry_releases_claims_uncharged,
                closing_releases_claims_and_frees_roles,
                an_heir_keeps_attempt_and_token_and_fences_the_old_owner,
                an_heir_that_is_gone_inherits_nothing,
                a_node_joins_with_its_first_engine_and_is_lost_with_its_last,
                two_judges_at_once_lose_a_node_once,
                a_claim_that_races_expiry_never_hangs_on_a_dead_session,
                settling_that_races_expiry_is_whole_or_nothing,
            }
            queue {
                a_repeated_call_changes_nothing,
                an_id_that_is_there_is_refused_and_nothing_of_the_call_happens,
                ids_that_differ_in_case_are_one,
                higher_priority_then_order_of_arrival,
                ready_is_read_page_by_page,
                queues_do_not_mix,
                an_unknown_dependency_refuses_the_whole_call,
                a_cycle_is_refused_and_printed,
                a_value_that_not_every_backend_can_hold_is_refused,
                odd_text_comes_back_as_it_went_in,
                restart_brings_any_task_back_with_a_new_spec,
                resume_keeps_what_is_good_and_what_is_under_way,
                what_waits_for_a_time_is_listed_by_it_and_not_ready,
            }
            claim {
                two_sessions_never_hold_one_task,
                eight_clients_take_every_task_once,
                the_same_request_gets_the_same_claim,
                a_request_is_good_for_one_claim_only,
                what_is_not_ready_is_not_given,
                a_claim_says_all_that_its_holder_needs,
            }
            limits {
                agents_of_all_engines_count,
                slots_are_counted_by_node_and_the_total_over_all,
                a_request_that_was_held_back_may_be_repeated,
                a_group_is_full_whoever_filled_it,
                places_that_are_written_to_elsewhere_are_kept_clear,
                a_spec_that_was_replaced_is_compared_as_it_is_now,
                engines_that_claim_at_once_exceed_nothing,
                the_pause_between_two_starts_is_everybodys,
                what_a_member_holds_is_no_agent,
                what_the_dead_left_is_not_counted_where_somebody_says_so,
                a_task_whose_holders_go_again_and_again_is_blocked,
            }
            advance {
                the_ordinary_way_writes_state_record_and_events,
                a_repeated_step_is_taken_once_even_after_the_claim_ended,
                only_the_exact_claim_moves_a_task,
                a_step_the_state_does_not_allow_is_refused_whole,
                every_outcome_leads_where_it_says_from_every_claimed_state,
                charges_and_environment_failures_are_counted,
                a_wish_to_cancel_outlives_the_claim_it_was_said_to,
            }
            report {
                the_last_verdict_counts,
                a_repeated_word_is_heard_once,
                only_the_worker_of_the_live_attempt_is_heard,
            }
            dependents {
                a_child_is_ready_when_its_last_parent_is_met,
                parents_that_finish_at_once_free_their_child,
                a_child_that_arrives_while_its_parent_finishes_is_ready,
                a_child_that_arrives_while_its_parents_holder_expires_waits,
                a_dead_parent_skips_all_that_descends_from_it,
                a_cancelled_parent_skips_parked_children_too,
                what_was_skipped_comes_back_with_its_parent,
                two_dead_parents_must_both_come_back,
                a_blocked_parent_leaves_its_children_waiting,
                a_met_parent_that_starts_over_makes_its_children_wait_again,
                a_plan_that_is_restarted_whole_starts_from_its_roots,
                new_dependencies_replace_the_old,
                a_skipped_follow_up_waits_for_its_new_dependencies_only,
                a_long_chain_falls_and_rises_whole,
            }
            operate {
                cancel_ends_what_nobody_holds,
                a_holder_is_asked_to_cancel,
                requeue_starts_over_uncharged,
                park_and_due_hold_back_and_let_go,
                a_task_is_assigned_to_one_node_and_to_any_again,
            }
            prompt {
                an_urgent_prompt_interrupts_its_task_and_is_taken_first,
                conversations_that_were_ended_are_marked_on_every_attempt,
                what_is_said_is_kept_in_order_and_taken_one_per_claim,
                the_same_request_says_it_once_and_gets_the_same_answer,
                what_cannot_be_told_is_refused_and_changes_nothing,
                a_task_that_has_ended_starts_again_uncharged,
                what_was_not_told_to_its_end_is_the_next_to_be_told,
                a_session_that_ends_gives_back_what_it_had_taken,
                no_end_is_the_end_while_something_waits_to_be_told,
                what_landed_stands_while_it_is_followed_up,
                what_was_done_stands_while_it_is_followed_up,
                a_car_that_is_refused_goes_on_with_what_was_said,
                sending_that_races_settling_is_never_left_behind,
            }
            event {
                the_same_request_appends_once,
                events_are_read_page_by_page_and_by_task,
                an_event_that_tells_of_a_state_is_not_appended_from_outside,
                a_reader_that_follows_misses_nothing,
                a_change_wakes_its_own_handle,
                a_beat_does_not_wake_its_own_handle,
                a_change_wakes_other_handles_at_once,
            }
            read {
                tasks_are_listed_in_order_of_arrival_and_by_page,
                attempts_of_many_tasks_are_those_of_each,
                tasks_are_found_by_state_queue_and_prefix,
                a_list_says_of_each_task_what_the_task_says,
                of_many_tasks_those_that_changed_last_can_be_listed,
                what_is_not_there_is_not_found,
                counts_follow_the_order_of_a_tasks_life,
            }
            spending {
                sums_are_told_by_task_agent_model_plan_and_quarter,
                sums_are_over_what_was_asked_for,
                what_an_attempt_under_way_has_said_counts,
                a_task_that_is_put_in_anew_begins_with_nothing_spent,
            }
            train {
                one_holder_at_a_time_and_terms_grow,
                a_car_goes_its_way_and_leaves_with_its_task_landed,
                a_step_that_contradicts_the_car_is_a_conflict,
                a_rejected_car_leaves_and_its_task_is_blocked,
                work_that_is_in_already_counts_as_landed,
                a_lander_that_was_replaced_moves_nothing,
                a_role_lands_on_its_own_target_only,
                a_car_can_be_cancelled_until_its_gate_has_passed,
                cars_keep_the_order_of_their_approval,
                a_batch_of_steps_is_taken_whole_or_not_at_all,
                a_bounced_car_goes_back_to_its_agent_with_what_it_conflicts_with,
                what_is_done_or_was_blocked_on_its_way_can_be_landed_after_all,
                a_tree_that_passed_is_remembered_for_its_gate,
            }
            proposal {
                a_pull_request_goes_its_way_and_lands_its_task,
                a_person_may_merge_at_any_time,
                steps_of_a_pull_request_contradict_others,
                what_is_said_takes_a_proposed_change_back_to_its_agent,
                a_declined_change_can_board_again,
            }
            profiles {
                whoever_was_used_last_has_the_highest_turn,
                a_profile_cools_per_agent_and_limit_for_every_machine,
                a_profile_that_was_warmed_has_run_into_nothing,
            }
            member {
                a_member_is_there_while_its_session_is_open,
                a_name_belongs_to_one_at_a_time,
                a_task_and_a_member_do_not_share_a_name,
                who_leaves_gives_back_what_it_held,
                there_is_one_leader_and_its_term_grows,
                a_blocked_task_is_taken_up_in_one_step,
                a_failed_task_is_retried_as_often_as_it_may,
            }
            message {
                a_repeated_message_is_delivered_once,
                everybody_is_who_is_there_and_who_is_at_work,
                an_inbox_is_read_by_page_and_marked,
                whoever_looks_sees_the_last_messages_of_all,
                only_who_has_the_right_writes_under_a_name,
                what_cannot_be_delivered_is_refused_whole,
            }
            context {
                versions_grow_and_deletions_count,
                a_repeated_write_is_one_version,
                of_writers_that_compare_none_is_lost,
                who_follows_changes_misses_no_key,
                a_leader_that_was_replaced_writes_nothing,
                what_is_too_long_is_refused,
            }
            document {
                a_document_is_written_compared_and_deleted,
                documents_are_listed_by_kind_and_prefix,
                a_document_under_a_role_needs_its_term,
                of_many_who_create_it_one_succeeds,
                a_document_wakes_others_unless_it_is_a_status,
                a_long_document_comes_back_and_a_longer_one_is_refused,
            }
            newer {
                a_spec_keeps_what_this_version_does_not_know,
                an_attempt_keeps_what_this_version_does_not_know,
                a_bounced_attempt_and_its_car_keep_what_this_version_does_not_know,
                a_session_of_a_newer_version_is_read_and_ended,
            }
        }
    };
}

/// One module of tests per module of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($fixture:expr; $($module:ident { $($case:ident,)* })*) => {
        $(mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = $fixture;
                    $crate::conformance::$module::$case(&fixture).await;
                }
            )*
        })*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_list() {
        let list = include_str!("mod.rs");
        for (module, text) in [
            ("session", include_str!("session.rs")),
            ("queue", include_str!("queue.rs")),
            ("claim", include_str!("claim.rs")),
            ("limits", include_str!("limits.rs")),
            ("advance", include_str!("advance.rs")),
            ("report", include_str!("report.rs")),
            ("dependents", include_str!("dependents.rs")),
            ("operate", include_str!("operate.rs")),
            ("prompt", include_str!("prompt.rs")),
            ("event", include_str!("event.rs")),
            ("read", include_str!("read.rs")),
            ("spending", include_str!("spending.rs")),
            ("train", include_str!("train.rs")),
            ("profiles", include_str!("profiles.rs")),
            ("member", include_str!("member.rs")),
            ("message", include_str!("message.rs")),
            ("context", include_str!("context.rs")),
            ("document", include_str!("document.rs")),
            ("newer", include_str!("newer.rs")),
        ] {
            for line in text.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
                let case = rest.split('(').next().unwrap_or_default();
                assert!(
                    list.contains(&format!("                {case},\n")),
                    "add `{case}` to `{module}` in the list of conformance!"
                );
            }
        }
    }
}
