//! The format of a store in a schema, and the way to it from each earlier one.
//!
//! The tables are those of a data directory, by the same names and columns, so that a store can be
//! moved (`sqlite/schema/format_steps.rs` says what they are for). What differs is what each
//! database does best: texts compare by bytes in every column and index, and numbers that are never
//! given twice come from sequences. There are no triggers: the writer keeps the counters.

/// What leads from each format to the next; the first one starts from an empty schema. Steps are
/// never edited once released: schemas out there were made by them.
pub(super) const STEPS: &[&str] = &[STORE_TABLES, STANDING, LAST_GROUP, WORDS];

/// Where the store was when it was opened last: the cluster, whose standbys have the same, and the
/// timeline, which rises with each promotion. Empty before the first time.
const STANDING: &str = r#"
ALTER TABLE meta ADD system text COLLATE "C" NOT NULL DEFAULT '',
  ADD timeline bigint NOT NULL DEFAULT 0
"#;

/// The group of batches that was committed last: which one it is of all, and its name.
const LAST_GROUP: &str = r#"
ALTER TABLE meta ADD groups bigint NOT NULL DEFAULT 0,
  ADD last_group text COLLATE "C" NOT NULL DEFAULT ''
"#;

/// Searches go by indexes of words, which are made when a store is opened whose `words` name none.
const WORDS: &str = "UPDATE meta SET words = ''";

/// The format this binary writes.
pub(super) const FORMAT: i64 = STEPS.len() as i64;

/// `meta` is read in each snapshot, whose stamp it is. `format` is 0 until all steps are done, and
/// `moving` is 1 from when a store is first copied here until that counts, and 2 once it was moved
/// elsewhere. What code printed is bytes: a text here has no U+0000.
const STORE_TABLES: &str = r#"
CREATE TABLE meta (
  one             bigint PRIMARY KEY CHECK (one = 1),
  format          bigint NOT NULL,
  mark            bigint NOT NULL,
  x_at            bigint NOT NULL,
  horizon         bigint NOT NULL,
  catalogue_epoch bigint NOT NULL,
  next_table      bigint NOT NULL,
  next_database   bigint NOT NULL,
  lineage         text COLLATE "C" NOT NULL,
  words           text COLLATE "C" NOT NULL,
  key_id          text COLLATE "C" NOT NULL,
  moving          bigint NOT NULL
);
INSERT INTO meta
  VALUES (1, 0, 0, 0, 0, 0, 1, 1, replace(gen_random_uuid()::text, '-', ''), '', '', 0);

CREATE TABLE tx (
  tt       bigint PRIMARY KEY,
  n        bigint NOT NULL UNIQUE,
  prev     bigint NOT NULL,
  meta     text COLLATE "C",
  "user"   text COLLATE "C",
  erased   bigint,
  noted_in bigint
);
CREATE TABLE tx_row (
  tt  bigint NOT NULL,
  tab bigint NOT NULL,
  id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (tt, tab, id)
);
CREATE TABLE tx_schema (
  tt       bigint NOT NULL,
  n        bigint NOT NULL,
  database bigint NOT NULL,
  tab      text COLLATE "C",
  act      text COLLATE "C" NOT NULL,
  key      text COLLATE "C",
  PRIMARY KEY (tt, n)
);

CREATE TABLE project (
  id      text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  sf      bigint NOT NULL,
  st      bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX project_known ON project (id) WHERE st = 9223372036854775807;
CREATE TABLE api_key (
  project text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  scopes  text COLLATE "C" NOT NULL,
  expires bigint,
  hash    bytea NOT NULL,
  created bigint NOT NULL,
  sf      bigint NOT NULL,
  st      bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX api_key_known ON api_key (project, id) WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX api_key_hash ON api_key (hash) WHERE st = 9223372036854775807;
CREATE TABLE database_ (
  seq     bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  kind    text COLLATE "C" NOT NULL,
  enabled bigint NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  sf      bigint NOT NULL,
  st      bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX database_known ON database_ (project, id) WHERE st = 9223372036854775807;
CREATE TABLE table_ (
  number           bigint NOT NULL,
  project          text COLLATE "C" NOT NULL,
  database_        text COLLATE "C" NOT NULL,
  id               text COLLATE "C" NOT NULL,
  name             text COLLATE "C" NOT NULL,
  enabled          bigint NOT NULL,
  row_security     bigint NOT NULL,
  permissions      text COLLATE "C" NOT NULL,
  created          bigint NOT NULL,
  updated          bigint NOT NULL,
  schema_epoch     bigint NOT NULL,
  permission_epoch bigint NOT NULL,
  pinned_max_age   bigint NOT NULL,
  history          bigint,
  kept_from        bigint NOT NULL,
  past             bigint NOT NULL,
  ttl_max          bigint NOT NULL,
  sf               bigint NOT NULL,
  st               bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX table_known ON table_ (project, database_, id)
  WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX table_number ON table_ (number) WHERE st = 9223372036854775807;
CREATE INDEX table_over_time ON table_ (number, sf);
CREATE TABLE column_ (
  tab       bigint NOT NULL,
  number    bigint NOT NULL,
  key       text COLLATE "C" NOT NULL,
  kind      text COLLATE "C" NOT NULL,
  chars_max bigint,
  low       text COLLATE "C",
  high      text COLLATE "C",
  elements  text COLLATE "C",
  required  bigint NOT NULL,
  is_array  bigint NOT NULL,
  default_  text COLLATE "C",
  created   bigint NOT NULL,
  updated   bigint NOT NULL,
  encrypt   bigint NOT NULL,
  sf        bigint NOT NULL,
  st        bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX column_known ON column_ (tab, number) WHERE st = 9223372036854775807;
CREATE INDEX column_over_time ON column_ (tab, sf);
CREATE TABLE index_ (
  tab     bigint NOT NULL,
  number  bigint NOT NULL,
  key     text COLLATE "C" NOT NULL,
  kind    text COLLATE "C" NOT NULL,
  columns text COLLATE "C" NOT NULL,
  status  text COLLATE "C" NOT NULL,
  error   text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  sf      bigint NOT NULL,
  st      bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX index_known ON index_ (tab, number) WHERE st = 9223372036854775807;
CREATE TABLE function_ (
  seq     bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  body    text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  sf      bigint NOT NULL,
  st      bigint NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX function_known ON function_ (project, id) WHERE st = 9223372036854775807;
CREATE INDEX function_seq ON function_ (seq);

CREATE TABLE upkeep (
  tab  bigint NOT NULL,
  task text COLLATE "C" NOT NULL,
  seq  bigint NOT NULL,
  PRIMARY KEY (tab, task)
);
CREATE TABLE over_time (
  tab     bigint NOT NULL,
  kind    text COLLATE "C" NOT NULL,
  place   bigint NOT NULL,
  columns text COLLATE "C" NOT NULL,
  related bigint,
  PRIMARY KEY (tab, place)
);
CREATE TABLE table_bytes (
  tab   bigint PRIMARY KEY,
  bytes bigint NOT NULL
);
CREATE TABLE erasure (
  tab bigint PRIMARY KEY,
  tt  bigint NOT NULL
);

CREATE TABLE staged (
  seq     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  project text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  owner   text COLLATE "C" NOT NULL,
  status  text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  expires bigint NOT NULL,
  keep    bigint NOT NULL,
  count   bigint NOT NULL,
  bytes   bigint NOT NULL
);
CREATE UNIQUE INDEX staged_id ON staged (project, id);
CREATE INDEX staged_open ON staged (project, status, bytes);
CREATE INDEX staged_keep ON staged (keep);
CREATE TABLE staged_op (
  tx    bigint NOT NULL REFERENCES staged (seq) ON DELETE CASCADE,
  n     bigint NOT NULL,
  seen  bigint NOT NULL,
  place text COLLATE "C" NOT NULL,
  id    text COLLATE "C",
  body  text COLLATE "C" NOT NULL,
  PRIMARY KEY (tx, n)
);
CREATE TABLE request_key (
  project text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  part    bigint NOT NULL,
  request text COLLATE "C" NOT NULL,
  mark    bigint,
  at      bigint NOT NULL,
  answer  bytea,
  bytes   bigint NOT NULL,
  PRIMARY KEY (project, key, part)
);
CREATE INDEX request_key_at ON request_key (at);
CREATE INDEX request_key_answer ON request_key (mark) WHERE answer IS NOT NULL;
CREATE INDEX request_key_kept
  ON request_key (project, substr(key, 1, strpos(key, ' ')), at, bytes) WHERE bytes > 0;
CREATE TABLE kept_bytes (
  project text COLLATE "C" NOT NULL,
  owner   text COLLATE "C" NOT NULL,
  bytes   bigint NOT NULL,
  PRIMARY KEY (project, owner)
);

CREATE TABLE variable (
  seq      bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  function bigint NOT NULL,
  id       text COLLATE "C" NOT NULL,
  key      text COLLATE "C" NOT NULL,
  value    bytea NOT NULL,
  secret   bigint NOT NULL,
  created  bigint NOT NULL,
  updated  bigint NOT NULL
);
CREATE UNIQUE INDEX variable_id ON variable (function, id);
CREATE UNIQUE INDEX variable_key ON variable (function, key);
CREATE TABLE deployment (
  seq        bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  function   bigint NOT NULL,
  id         text COLLATE "C" NOT NULL,
  status     text COLLATE "C" NOT NULL,
  activate   bigint NOT NULL,
  entrypoint text COLLATE "C" NOT NULL,
  commands   text COLLATE "C" NOT NULL,
  bytes      bigint NOT NULL,
  received   bigint NOT NULL,
  output     bigint NOT NULL,
  build_ms   bigint NOT NULL,
  created    bigint NOT NULL,
  updated    bigint NOT NULL
);
CREATE UNIQUE INDEX deployment_id ON deployment (function, id);
CREATE INDEX deployment_order ON deployment (function, seq);
CREATE INDEX deployment_unsent ON deployment (created) WHERE received < bytes;
CREATE INDEX deployment_waiting ON deployment (seq) WHERE status = 'waiting';
CREATE TABLE deployment_piece (
  deployment bigint NOT NULL,
  part       text COLLATE "C" NOT NULL,
  start      bigint NOT NULL,
  bytes      bytea NOT NULL,
  PRIMARY KEY (deployment, part, start)
);
CREATE TABLE pieces_gone (deployment bigint PRIMARY KEY);
CREATE TABLE execution (
  seq              bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  function         bigint NOT NULL,
  id               text COLLATE "C" NOT NULL,
  deployment       text COLLATE "C" NOT NULL,
  cause            text COLLATE "C" NOT NULL,
  status           text COLLATE "C" NOT NULL,
  method           text COLLATE "C" NOT NULL,
  path             text COLLATE "C" NOT NULL,
  response_status  bigint NOT NULL,
  duration_us      bigint NOT NULL,
  bytes            bigint NOT NULL,
  created          bigint NOT NULL,
  updated          bigint NOT NULL,
  request_headers  text COLLATE "C" NOT NULL,
  response_headers text COLLATE "C" NOT NULL,
  logs             bytea NOT NULL,
  errors           bytea NOT NULL,
  due              bigint
);
CREATE UNIQUE INDEX execution_id ON execution (function, id);
CREATE INDEX execution_order ON execution (function, seq);
CREATE TABLE execution_kept (
  function bigint PRIMARY KEY,
  count    bigint NOT NULL,
  bytes    bigint NOT NULL
);
CREATE TABLE executions_gone (function bigint PRIMARY KEY);
CREATE TABLE queued (
  seq        bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  function   bigint NOT NULL,
  project    text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  cause      text COLLATE "C" NOT NULL,
  deployment text COLLATE "C" NOT NULL,
  due        bigint NOT NULL,
  scheduled  bigint NOT NULL,
  attempt    bigint NOT NULL,
  lease      bigint NOT NULL,
  method     text COLLATE "C" NOT NULL,
  path       text COLLATE "C" NOT NULL,
  depth      bigint NOT NULL,
  bytes      bigint NOT NULL,
  created    bigint NOT NULL,
  updated    bigint NOT NULL
);
CREATE UNIQUE INDEX queued_id ON queued (function, id);
CREATE INDEX queued_due ON queued (due, seq);
CREATE TABLE queued_call (
  seq  bigint PRIMARY KEY,
  call bytea NOT NULL
);
CREATE TABLE queue_size (
  project text COLLATE "C" PRIMARY KEY,
  count   bigint NOT NULL,
  bytes   bigint NOT NULL
);
CREATE TABLE calls_gone (seq bigint PRIMARY KEY);
CREATE TABLE schedule (
  function bigint PRIMARY KEY,
  minute   bigint NOT NULL
);
CREATE TABLE listening (
  function bigint PRIMARY KEY,
  tt       bigint NOT NULL
);
CREATE TABLE event_cursor (
  one bigint PRIMARY KEY CHECK (one = 1),
  tt  bigint NOT NULL,
  tab bigint NOT NULL,
  id  text COLLATE "C" NOT NULL
);
CREATE TABLE event_apart (
  project text COLLATE "C" PRIMARY KEY,
  tt      bigint NOT NULL,
  tab     bigint NOT NULL,
  id      text COLLATE "C" NOT NULL
);
CREATE TABLE executions_old (
  function  bigint PRIMARY KEY,
  count_max bigint NOT NULL,
  bytes_max bigint NOT NULL,
  since     bigint NOT NULL
);
"#;
