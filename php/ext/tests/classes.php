<?php
// Classes of every kind that a value may hold.

#[AllowDynamicProperties]
class Plain {
	public $open = 1;
	protected $half = array( 1, 2 );
	private $own = 'o';
	public ?Plain $self = null;
	public int $typed = 5;
	public readonly string $fixed;
	public int $unset;
	public static $made = 0;
	public static $ended = 0;

	public function __construct() {
		$this->fixed = 'f';
		++self::$made;
	}

	public function __destruct() {
		++self::$ended;
	}
}

class Sleeper {
	public $kept;
	private $inner = 'i';
	public $lost = 'gone';

	public function __sleep() {
		return array( 'kept', 'inner' );
	}

	public function __wakeup() {
		$this->lost = 'woken';
	}
}

class Stateful {
	public $data;
	/** @var callable|null Called by the next one that is written or read. */
	public static $on_write;
	public static $on_read;

	public function __construct( $data = null ) {
		$this->data = $data;
	}

	public function __serialize(): array {
		if ( $does = self::$on_write ) {
			self::$on_write = null;
			$does( $this );
		}
		return array( 'data' => $this->data );
	}

	public function __unserialize( array $data ): void {
		if ( $does = self::$on_read ) {
			self::$on_read = null;
			$does( $this );
		}
		$this->data = $data['data'];
	}
}

enum Suit: string {
	case Hearts = 'h';
	case Spades = 's';
}
