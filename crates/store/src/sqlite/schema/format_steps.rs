//! What each format on disk adds to the one before, in their order, but for the tables of rows
//! (`tables.rs`). A step is never edited once released: files out there were made by it.

/// The tables of the store itself.
///
/// - `meta`, one row: written in each commit and read in each snapshot, whose stamp it is.
///   `words` names the rule by which full-text indexes were made.
///   `x_at` is the last instant of which the tables of now show anything: when something was
///   committed, or what was due activated, of which a part may be left.
/// - `tx`: one row a commit; `n` is dense, so that a gap is seen. `tx_row`: what it touched.
/// - The catalogue over time: a row holds from the mark `sf` until the mark `st`. User columns
///   have numbers that name the physical columns and are never given twice.
/// - `upkeep`: what is left to do for a table, and the `$sequence` up to which it is done; for an
///   index of words that is being filled, up to where it is.
pub(crate) const SYSTEM_TABLES: &str = "
CREATE TABLE meta (
  one             INTEGER PRIMARY KEY CHECK (one = 1),
  mark            INTEGER NOT NULL,
  x_at            INTEGER NOT NULL,
  horizon         INTEGER NOT NULL,
  catalogue_epoch INTEGER NOT NULL,
  next_table      INTEGER NOT NULL,
  next_database   INTEGER NOT NULL,
  lineage         TEXT    NOT NULL,
  words           TEXT    NOT NULL
);
INSERT INTO meta VALUES (1, 0, 0, 0, 0, 1, 1, lower(hex(randomblob(16))), '');

CREATE TABLE tx (
  tt     INTEGER PRIMARY KEY,
  n      INTEGER NOT NULL,
  prev   INTEGER NOT NULL,
  meta   TEXT,
  user   TEXT,
  erased INTEGER
);
CREATE TABLE tx_row (
  tt  INTEGER NOT NULL,
  tab INTEGER NOT NULL,
  id  TEXT    NOT NULL,
  PRIMARY KEY (tt, tab, id)
) WITHOUT ROWID;

CREATE TABLE project (
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  created INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX project_known ON project (id) WHERE st = 9223372036854775807;

CREATE TABLE api_key (
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  scopes  TEXT    NOT NULL,
  expires INTEGER,
  hash    BLOB    NOT NULL,
  created INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX api_key_known ON api_key (project, id) WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX api_key_hash ON api_key (hash) WHERE st = 9223372036854775807;

CREATE TABLE database_ (
  seq     INTEGER NOT NULL,
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  enabled INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX database_known ON database_ (project, id) WHERE st = 9223372036854775807;

CREATE TABLE table_ (
  number           INTEGER NOT NULL,
  project          TEXT    NOT NULL,
  database_        TEXT    NOT NULL,
  id               TEXT    NOT NULL,
  name             TEXT    NOT NULL,
  enabled          INTEGER NOT NULL,
  row_security     INTEGER NOT NULL,
  permissions      TEXT    NOT NULL,
  created          INTEGER NOT NULL,
  updated          INTEGER NOT NULL,
  schema_epoch     INTEGER NOT NULL,
  permission_epoch INTEGER NOT NULL,
  sf               INTEGER NOT NULL,
  st               INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX table_known ON table_ (project, database_, id)
  WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX table_number ON table_ (number) WHERE st = 9223372036854775807;

CREATE TABLE column_ (
  tab       INTEGER NOT NULL,
  number    INTEGER NOT NULL,
  key       TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  chars_max INTEGER,
  low,
  high,
  elements  TEXT,
  required  INTEGER NOT NULL,
  is_array  INTEGER NOT NULL,
  default_  TEXT,
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  sf        INTEGER NOT NULL,
  st        INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX column_known ON column_ (tab, number) WHERE st = 9223372036854775807;

CREATE TABLE index_ (
  tab     INTEGER NOT NULL,
  number  INTEGER NOT NULL,
  key     TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  columns TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  error   TEXT    NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX index_known ON index_ (tab, number) WHERE st = 9223372036854775807;

CREATE TABLE upkeep (
  tab  INTEGER NOT NULL,
  task TEXT    NOT NULL,
  seq  INTEGER NOT NULL,
  PRIMARY KEY (tab, task)
) WITHOUT ROWID;
";

/// The tables of format 2.
///
/// - `staged`: one row a transaction, kept until `keep`. `count` and `bytes` are of its
///   operations.
/// - `staged_op`: the operations of those that are open; `n` is their order. `seen` is the mark
///   whose state the caller that staged one had seen.
/// - `request_key`: which requests have run, so that none runs twice; `request` stands for what
///   was asked.
pub(crate) const STAGED_TABLES: &str = "
CREATE TABLE staged (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  keep    INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  bytes   INTEGER NOT NULL
);
CREATE UNIQUE INDEX staged_id ON staged (project, id);
CREATE INDEX staged_open ON staged (project, status, bytes);
CREATE INDEX staged_keep ON staged (keep);
CREATE TABLE staged_op (
  tx    INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  seen  INTEGER NOT NULL,
  place TEXT    NOT NULL,
  id    TEXT,
  body  TEXT    NOT NULL
);
CREATE UNIQUE INDEX staged_op_order ON staged_op (tx, n);
CREATE TABLE request_key (
  project TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  part    INTEGER NOT NULL,
  request TEXT    NOT NULL,
  mark    INTEGER,
  at      INTEGER NOT NULL,
  PRIMARY KEY (project, key, part)
) WITHOUT ROWID;
CREATE INDEX request_key_at ON request_key (at);
CREATE TRIGGER staged_gone AFTER DELETE ON staged BEGIN
  DELETE FROM staged_op WHERE tx = old.seq;
END;
";

/// A later format: constraints over valid time. `kind` is `unique` or `ref`; `columns` are
/// numbers of columns with commas between them; `related` is the table that a `ref` leads to.
pub(crate) const OVER_TIME: &str = "
CREATE TABLE over_time (
  tab     INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  place   INTEGER NOT NULL,
  columns TEXT    NOT NULL,
  related INTEGER,
  PRIMARY KEY (tab, place)
) WITHOUT ROWID;
";

/// A later format: the database that a transaction was committed through, where it says so.
pub(crate) const NOTED: &str = "ALTER TABLE tx ADD COLUMN noted_in INTEGER;";

/// A later format still: what owners decide about the past of their tables, and a way to the
/// catalogue as it once was. `history` is a number of days, 0 for none, null for all of it.
pub(crate) const OPTIONS: &str = "
ALTER TABLE table_ ADD COLUMN pinned_max_age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE table_ ADD COLUMN history INTEGER;
ALTER TABLE table_ ADD COLUMN kept_from INTEGER NOT NULL DEFAULT -9223372036854775808;
CREATE INDEX table_over_time ON table_ (number, sf);
CREATE INDEX column_over_time ON column_ (tab, sf);
";

/// What format 6 adds: the answers to requests that can be sent again.
pub(crate) const REQUEST_ANSWERS: &str = "
ALTER TABLE request_key ADD COLUMN answer BLOB;
CREATE INDEX request_key_answer ON request_key (mark) WHERE answer IS NOT NULL;
";

/// A later format: who may look at the past of a table. 0 for API keys alone, also of tables that
/// were made before.
pub(crate) const WHO_LOOKS_BACK: &str = "
ALTER TABLE table_ ADD COLUMN past INTEGER NOT NULL DEFAULT 0;
";

/// A later format: which columns are encrypted, and the id of the key; empty until it is used.
pub(crate) const ENCRYPTION: &str = "
ALTER TABLE column_ ADD COLUMN encrypt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
";

/// A later format: the greatest age in seconds of a table's lists; a day is what any may have.
pub(crate) const GREATEST_AGE: &str = "
ALTER TABLE table_ ADD COLUMN ttl_max INTEGER NOT NULL DEFAULT 86400;
";

/// What a later format adds: the bytes of each answer, and those of all answers of one owner, which
/// is the first word of a key. `bytes` is 0 exactly where there is no answer.
///
/// Rows of `request_key` are replaced by upserts only: `INSERT OR REPLACE` runs no trigger for what
/// it replaces.
pub(crate) const ANSWER_BYTES: &str = "
ALTER TABLE request_key ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE request_key SET bytes = length(answer) WHERE answer IS NOT NULL;
CREATE INDEX request_key_kept ON request_key (project, substr(key, 1, instr(key, ' ')), at, bytes)
  WHERE bytes > 0;
CREATE TABLE kept_bytes (
  project TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  bytes   INTEGER NOT NULL,
  PRIMARY KEY (project, owner)
) WITHOUT ROWID;
INSERT INTO kept_bytes (project, owner, bytes)
  SELECT project, substr(key, 1, instr(key, ' ')), sum(bytes) FROM request_key
  WHERE bytes > 0 GROUP BY 1, 2;
CREATE TRIGGER request_key_new AFTER INSERT ON request_key WHEN new.bytes > 0 BEGIN
  INSERT INTO kept_bytes (project, owner, bytes)
    VALUES (new.project, substr(new.key, 1, instr(new.key, ' ')), new.bytes)
    ON CONFLICT (project, owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER request_key_other AFTER UPDATE OF bytes ON request_key
WHEN new.bytes <> old.bytes BEGIN
  INSERT INTO kept_bytes (project, owner, bytes)
    VALUES (new.project, substr(new.key, 1, instr(new.key, ' ')), new.bytes - old.bytes)
    ON CONFLICT (project, owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER request_key_gone AFTER DELETE ON request_key WHEN old.bytes > 0 BEGIN
  UPDATE kept_bytes SET bytes = bytes - old.bytes
    WHERE project = old.project AND owner = substr(old.key, 1, instr(old.key, ' '));
  DELETE FROM kept_bytes WHERE bytes = 0
    AND project = old.project AND owner = substr(old.key, 1, instr(old.key, ' '));
END;
";

/// Changes nothing that is there. From here on an index may hold beginnings of texts, in which an
/// earlier version would look for whole ones.
pub(crate) const BEGINNINGS: &str = "";

/// A later format: the counters. What was stored before is counted from the next start on.
pub(crate) const TABLE_BYTES: &str = "
CREATE TABLE table_bytes (
  tab   INTEGER PRIMARY KEY,
  bytes INTEGER NOT NULL
);
INSERT INTO table_bytes (tab, bytes)
  SELECT number, 0 FROM table_ WHERE st = 9223372036854775807;
INSERT INTO upkeep (tab, task, seq)
  SELECT number, 'count', 0 FROM table_ WHERE st = 9223372036854775807;
";

/// A later format: how commits changed a database and what is in it, from here on. `n` is the order
/// within a commit, `database` its number, `tab` the id of a table, which may be gone.
pub(crate) const SCHEMA_RECORDS: &str = "
CREATE TABLE tx_schema (
  tt       INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  database INTEGER NOT NULL,
  tab      TEXT,
  act      TEXT    NOT NULL,
  key      TEXT,
  PRIMARY KEY (tt, n)
) WITHOUT ROWID;
";

/// A later format: when a row of a table was erased last. Of erasures before it is not known in
/// which table they were, so each table that was there says so: rather once too often than not.
pub(crate) const ERASURES: &str = "
CREATE TABLE erasure (
  tab INTEGER PRIMARY KEY,
  tt  INTEGER NOT NULL
);
INSERT INTO erasure (tab, tt)
  SELECT number, (SELECT max(tt) FROM tx WHERE erased > 0) AS last FROM table_
  GROUP BY number
  HAVING max(st) = 9223372036854775807 AND min(sf) <= last;
";

/// A later format: functions, of the catalogue, and their variables. `body` is a JSON object, whose
/// members may become more; `value` is sealed.
pub(crate) const FUNCTIONS: &str = "
CREATE TABLE function_ (
  seq     INTEGER NOT NULL,
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  body    TEXT    NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX function_known ON function_ (project, id) WHERE st = 9223372036854775807;
CREATE INDEX function_seq ON function_ (seq);
CREATE TABLE variable (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  function INTEGER NOT NULL,
  id       TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  value    BLOB    NOT NULL,
  secret   INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL
);
CREATE UNIQUE INDEX variable_id ON variable (function, id);
CREATE UNIQUE INDEX variable_key ON variable (function, key);
";

/// A later format: deployments and their pieces. `bytes` is what the archive will have, `received`
/// what is there. Pieces of deployments that are gone go bit by bit: these stand in `pieces_gone`.
pub(crate) const DEPLOYMENTS: &str = "
CREATE TABLE deployment (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  function   INTEGER NOT NULL,
  id         TEXT    NOT NULL,
  status     TEXT    NOT NULL,
  activate   INTEGER NOT NULL,
  entrypoint TEXT    NOT NULL,
  commands   TEXT    NOT NULL,
  bytes      INTEGER NOT NULL,
  received   INTEGER NOT NULL,
  output     INTEGER NOT NULL,
  build_ms   INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL
);
CREATE UNIQUE INDEX deployment_id ON deployment (function, id);
CREATE INDEX deployment_order ON deployment (function, seq);
CREATE INDEX deployment_unsent ON deployment (created) WHERE received < bytes;
CREATE INDEX deployment_waiting ON deployment (seq) WHERE status = 'waiting';
CREATE TABLE deployment_piece (
  deployment INTEGER NOT NULL,
  part       TEXT    NOT NULL,
  start      INTEGER NOT NULL,
  bytes      BLOB    NOT NULL
);
CREATE UNIQUE INDEX deployment_piece_order
  ON deployment_piece (deployment, part, start, length(bytes));
CREATE TABLE pieces_gone (
  deployment INTEGER PRIMARY KEY
);
";

/// A later format: records of executions. `execution_kept` counts those of each function; those of
/// functions that are gone go bit by bit: these stand in `executions_gone`.
pub(crate) const EXECUTIONS: &str = "
CREATE TABLE execution (
  seq              INTEGER PRIMARY KEY AUTOINCREMENT,
  function         INTEGER NOT NULL,
  id               TEXT    NOT NULL,
  deployment       TEXT    NOT NULL,
  cause            TEXT    NOT NULL,
  status           TEXT    NOT NULL,
  method           TEXT    NOT NULL,
  path             TEXT    NOT NULL,
  response_status  INTEGER NOT NULL,
  duration_us      INTEGER NOT NULL,
  bytes            INTEGER NOT NULL,
  created          INTEGER NOT NULL,
  updated          INTEGER NOT NULL,
  request_headers  TEXT    NOT NULL,
  response_headers TEXT    NOT NULL,
  logs             TEXT    NOT NULL,
  errors           TEXT    NOT NULL
);
CREATE UNIQUE INDEX execution_id ON execution (function, id);
CREATE INDEX execution_order ON execution (function, seq);
CREATE TABLE execution_kept (
  function INTEGER PRIMARY KEY,
  count    INTEGER NOT NULL,
  bytes    INTEGER NOT NULL
);
CREATE TABLE executions_gone (
  function INTEGER PRIMARY KEY
);
";

/// A later format: executions that wait. What their handlers are given stands apart, so that a
/// lease rewrites no body; of functions that are gone it goes bit by bit: those stand in
/// `calls_gone`. `queue_size` counts what waits of each project.
pub(crate) const QUEUE: &str = "
CREATE TABLE queued (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  function   INTEGER NOT NULL,
  project    TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  cause      TEXT    NOT NULL,
  deployment TEXT    NOT NULL,
  due        INTEGER NOT NULL,
  scheduled  INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  lease      INTEGER NOT NULL,
  method     TEXT    NOT NULL,
  path       TEXT    NOT NULL,
  depth      INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL
);
CREATE UNIQUE INDEX queued_id ON queued (function, id);
CREATE INDEX queued_due ON queued (due, seq);
CREATE TABLE queued_call (
  seq  INTEGER PRIMARY KEY,
  call BLOB NOT NULL
);
CREATE TABLE queue_size (
  project TEXT PRIMARY KEY,
  count   INTEGER NOT NULL,
  bytes   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE calls_gone (
  seq INTEGER PRIMARY KEY
);
ALTER TABLE execution ADD COLUMN due INTEGER;
";

/// A later format: the last minute of each function's schedule that was queued, or when the
/// schedule began.
pub(crate) const SCHEDULES: &str = "
CREATE TABLE schedule (
  function INTEGER PRIMARY KEY,
  minute   INTEGER NOT NULL
);
";

/// A later format: the functions that listen to changes of rows, each from a mark on, and how far
/// changes were looked at.
pub(crate) const ROW_EVENTS: &str = "
CREATE TABLE listening (
  function INTEGER PRIMARY KEY,
  tt       INTEGER NOT NULL
);
CREATE TABLE event_cursor (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  tt  INTEGER NOT NULL,
  tab INTEGER NOT NULL,
  id  TEXT    NOT NULL
);
";

/// A later format: how far changes were looked at for projects whose events have waited, while
/// those of others went on.
pub(crate) const EVENTS_APART: &str = "
CREATE TABLE event_apart (
  project TEXT    PRIMARY KEY,
  tt      INTEGER NOT NULL,
  tab     INTEGER NOT NULL,
  id      TEXT    NOT NULL
) WITHOUT ROWID;
";

/// A later format: functions whose oldest records of executions go bit by bit, until so many are
/// left at most, of so many bytes, all of them created since then.
pub(crate) const EXECUTIONS_OLD: &str = "
CREATE TABLE executions_old (
  function  INTEGER PRIMARY KEY,
  count_max INTEGER NOT NULL,
  bytes_max INTEGER NOT NULL,
  since     INTEGER NOT NULL
);
";
