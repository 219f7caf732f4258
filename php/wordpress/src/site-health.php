<?php
/** Shows the status on the page Tools, Site Health, Info: for sites without WP-CLI. */
class Tidemark_Site_Health {
	public static function register() {
		if ( function_exists( 'add_filter' ) ) {
			add_filter( 'debug_information', array( __CLASS__, 'add_section' ) );
		}
	}

	/** Counts no entries: that would read the whole index of a large store for each view. */
	public static function add_section( $sections ) {
		$tiers  = Tidemark_Tiers::shared();
		$fields = array();
		// A guest counts nothing in a folder that is another user's, so its own are shown.
		foreach ( $tiers->status() + $tiers->notices->totals() + $tiers->notices->counts as $name => $value ) {
			$fields[ $name ] = array( 'label' => $name, 'value' => $value );
		}
		$sections['tidemark'] = array( 'label' => 'Tidemark object cache', 'fields' => $fields );
		return $sections;
	}
}

Tidemark_Site_Health::register();
