/**
 * A point in time: a `Date`; a date, or a date and time, as ISO 8601 text; or microseconds since
 * 1970 as a whole number. `"min"` is the beginning of time.
 */
export type Instant = Date | string | number | bigint;

/** What was known then, as a text for `queries`; also valid then, unless another query says so. */
export function asOf(instant: Instant): string;

/** What is, was or will be valid then, as a text for `queries`. */
export function validAt(instant: Instant): string;

/**
 * Every piece of a row that shares an instant with the period, as a text for `queries`. `end` lies
 * outside the period; without it the period has no end.
 */
export function validBetween(begin: Instant, end?: Instant | null): string;

/** Every version ever known, also those that were replaced since, as a text for `queries`. */
export function versions(): string;

/** Where a row stands on both time axes. Instants are ISO 8601 texts with microseconds. */
export interface Times {
  /** First instant at which it is valid; `"min"` is the beginning of time. */
  $validFrom: string;
  /** First instant at which it is not; null for no end. */
  $validTo: string | null;
  /** It was known as exactly this since then. */
  $systemFrom: string;
  /** It was known so until then, null for now; only `versions()` shows it. */
  $systemTo?: string | null;
  /** Names the version: what `cursorAfter` takes where a row may come more than once. */
  $version: string;
}

/** A row as read with one of the queries above: `listRows<Versioned<Book>>(…)`. */
export type Versioned<T> = T & Times;

/** What the headers of an answer say about its age. */
export interface Freshness {
  /** What the cache did; null where no cache was looked up, as for a single row. */
  cache: 'hit' | 'miss' | 'bypass' | null;
  /** The commit that the rows were read from: `asOf(mark)` names it. */
  mark: number | null;
  /** Seconds since the rows were read; null where no cache was looked up. */
  age: number | null;
  /** Proven to hold: false only within a `ttl`, if a commit since may have altered it. */
  isExact: boolean;
  /** It is about a past in which rows were erased since. */
  erased: boolean;
}

/**
 * Reads the headers of an answer, of `fetch` or of anything else with `get`. Null if they say
 * nothing, as those of writes of tables or of another server.
 */
export function freshness(headers: { get(name: string): string | null }): Freshness | null;

/** A `Client` of an official SDK, as far as it is used here. */
export interface SdkClient {
  config: { endpoint: string; project: string };
  call(
    method: string,
    url: any,
    headers?: { [name: string]: string },
    params?: { [name: string]: any },
  ): Promise<any>;
}

/** Which commits are undone. At least one of `user` and `meta` is needed. */
export interface Undoing {
  databaseId: string;
  /** Those after this instant, up to `until` or, without it, now. */
  after: Instant;
  until?: Instant;
  /** Of this author, as `"key:ID"`. */
  user?: string;
  /** With these members of their metadata. */
  meta?: { [name: string]: string | number | boolean | null };
  /** Nothing is written; what would be refused is refused. */
  dryRun?: boolean;
  /** What the commit of the undo itself keeps; at most 1,024 bytes as JSON. */
  commitMeta?: object;
  /** Makes it safe to send again. */
  idempotencyKey?: string;
}

/** What an undo did, or would do. */
export interface Undone {
  /** Its commit; null where nothing was written. */
  $systemFrom: string | null;
  /** How many commits were found. */
  commits: number;
  rows: {
    tableId: string;
    rowId: string;
    /** The permissions that it gets again; null where they stay. */
    $permissions: string[] | null;
    changes: {
      $validFrom: string;
      $validTo: string | null;
      /** What the row becomes again; null where it is absent. */
      data: { [column: string]: any } | null;
    }[];
  }[];
}

/**
 * Makes rows again what they were before certain commits, in one commit or not at all. Rows that
 * others have changed since are refused with 409, and the message names them.
 */
export function undo(client: SdkClient, which: Undoing): Promise<Undone>;
