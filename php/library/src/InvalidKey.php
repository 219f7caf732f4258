<?php
namespace Tidemark;

/** A key that PSR-16 does not allow. */
final class InvalidKey extends \InvalidArgumentException implements \Psr\SimpleCache\InvalidArgumentException {}
