<?php
/**
 * Plugin Name: Tidemark object cache
 * Description: A persistent object cache in one file: no extension and no server needed.
 * Version: 0.1.0
 * Author: The Tidemark developers
 * License: GPL-2.0-or-later
 * License URI: https://www.gnu.org/licenses/gpl-2.0.html
 *
 * Copyright (c) The Tidemark developers
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of
 * the GNU General Public License as published by the Free Software Foundation; either version
 * 2 of the License, or (at your option) any later version. It is distributed WITHOUT ANY
 * WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR
 * PURPOSE. See the GNU General Public License for more details.
 *
 * Built from php/wordpress/src by `cargo xtask dist`; change it there.
 */

defined( 'ABSPATH' ) || exit;
