//! What every store must do, as cases that know the `Store` trait only.
//!
//! Each case gets a place of its own in which no store was ever opened.

#![allow(
    dead_code,
    reason = "each integration test that mounts this module uses a part of it"
)]

mod catalogue;
mod constraints;
pub mod db;
mod groups;
pub mod history_write;
mod matching;
mod previews;
pub mod related;
mod rows;
pub mod schema;
pub mod search;
mod swaps;
mod time;

use db::Place;

/// A case and its name.
pub type Case = (&'static str, fn(&dyn Place));

macro_rules! cases {
    ($($module:ident: $($case:ident)*;)*) => {
        /// Every case.
        pub const CASES: &[Case] = &[$($((
            concat!(stringify!($module), "::", stringify!($case)),
            $module::$case,
        )),*),*];
    };
}

cases! {
    rows:
        every_value_comes_back
        columns_may_be_null
        large_rows_come_back_without_a_body
        insert_refuses_a_row_that_is_there
        update_merges_and_keeps_the_rest
        update_and_delete_refuse_an_absent_row
        put_merges_or_inserts_or_says_why_not
        delete_takes_the_row_and_frees_its_unique_value
        what_changes_nothing_takes_no_mark
        stamps_replace_the_commits_own_time
        a_unique_index_is_named
        guards_are_judged_by_the_grants_of_the_row
        grants_change_without_a_version
        sequence_belongs_to_the_id
        changes_carry_both_images;
    swaps:
        unique_values_change_places_within_a_batch
        a_unique_value_is_handed_over_within_a_batch
        a_batch_that_ends_in_a_duplicate_names_index_row_and_period
        rows_that_match_shift_their_unique_values
        writes_over_a_period_and_from_now_on_change_places;
    matching:
        all_that_match_are_changed_at_one_mark
        what_matches_nothing_or_changes_nothing_takes_no_mark
        matches_are_found_when_the_batch_runs
        a_matching_operation_stops_behind_so_many_bytes
        a_batch_is_bounded_in_bytes
        changes_of_one_row_are_bounded_in_bytes
        large_changes_wait_for_the_next_group
        previews_look_at_the_clock_between_batches
        order_limit_offset_and_cursor_choose_the_rows
        more_matches_than_may_be_left_are_refused
        the_searches_of_a_batch_find_so_many_rows_together
        a_change_that_moves_rows_meets_each_once
        one_row_that_cannot_be_changed_stops_all
        deleted_matches_are_reported_as_they_were
        many_matches_report_tables
        matches_under_another_catalogue_are_refused
        rows_that_moved_are_left_alone
        operators_compute_from_the_row_that_is_there;
    previews:
        a_preview_shows_what_would_be_and_leaves_nothing
        a_preview_leaves_out_what_a_commit_would_refuse;
    search:
        an_index_of_words_comes_and_goes
        words_are_found_as_long_as_they_stand
        words_are_found_at_their_time
        words_that_stay_are_not_lost
        an_index_of_words_goes_with_its_table
        patterns_match_parts_of_texts;
    groups:
        marks_rise_and_name_their_batches
        a_refused_batch_leaves_nothing_and_takes_nothing
        later_batches_see_earlier_ones
        a_dropped_group_leaves_nothing
        each_of_many_groups_takes_back_what_came_to_nothing
        readers_see_a_group_after_its_commit
        large_batches_report_tables
        ten_thousand_rows_are_the_limit
        steps_inside_a_batch_leave_one_version
        what_came_and_went_inside_a_batch_never_was;
    catalogue:
        containers_are_made_once_and_found
        an_update_changes_what_it_names
        epochs_rise_with_real_changes_only
        deletion_takes_all_that_was_inside
        numbers_are_never_given_twice
        operations_checked_under_another_catalogue_are_refused
        a_reopened_store_knows_everything
        keys_are_unique_by_id_and_by_secret;
    constraints:
        a_key_over_valid_time_is_declared_and_kept
        a_reference_over_valid_time_is_declared_and_kept;
    schema:
        a_new_column_is_null_in_the_rows_that_are_there
        every_kind_of_column_can_be_added
        rows_read_alike_before_and_after_upkeep
        a_rename_changes_the_catalogue_only
        limits_and_defaults_change_without_touching_rows
        a_text_is_not_cut_short
        a_text_that_was_looked_at_before_is_not_cut_short_either
        a_dropped_column_is_gone_and_stays_in_the_past
        positions_move_up_behind_a_dropped_column
        a_small_index_is_there_with_its_commit
        a_unique_index_guards_from_its_commit_on
        a_unique_index_over_equal_values_fails
        changes_of_another_schema_are_refused
        rows_checked_under_another_schema_are_refused
        a_change_that_is_rolled_back_leaves_nothing
        a_table_has_so_many_columns_and_no_more;
    related:
        a_relationship_comes_changes_and_goes_at_both_ends
        links_have_a_history
        links_are_given_and_taken_as_a_set
        links_that_are_brought_in_leave_the_time_of_change_alone
        rows_go_alone_unless_one_links_to_them
        links_change_places_once_they_are_freed
        deletions_go_no_further_than_a_commit_may
        many_deletions_find_the_rows_that_link_to_each
        many_deletions_are_refused_by_rows_that_link_to_one_or_take_them_along
        a_relationship_goes_with_its_table;
    time:
        every_version_is_kept
        now_and_versions_agree
        a_deleted_row_stays_readable_at_its_time
        permissions_of_today_judge_the_past
        the_horizon_survives
        run_upkeep_removes_deleted_tables_in_slices;
}
