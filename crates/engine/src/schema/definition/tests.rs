use super::*;
use model::TableId;

fn column(key: &str, kind: &str) -> NewColumn {
    NewColumn {
        key: key.into(),
        kind: kind.into(),
        ..NewColumn::default()
    }
}

fn varchar(key: &str, size: i64) -> NewColumn {
    NewColumn {
        size: Some(size),
        ..column(key, "varchar")
    }
}

fn index(key: &str, columns: &[&str]) -> NewIndex {
    NewIndex {
        key: key.into(),
        kind: "key".into(),
        columns: columns.iter().map(ToString::to_string).collect(),
        ..NewIndex::default()
    }
}

fn define(columns: Vec<NewColumn>, indexes: Vec<NewIndex>) -> Result<Table, EngineError> {
    let new = NewTable {
        id: TableId::new("t").unwrap(),
        name: "T".into(),
        permissions: vec![],
        row_security: false,
        enabled: true,
        columns,
        indexes,
    };
    let (project, database) = (ProjectId::new("p").unwrap(), DatabaseId::new("d").unwrap());
    table(&project, &database, &new, vec![])
}

/// The refusal's kind, as the wire will call it, and its text.
#[track_caller]
fn refused(columns: Vec<NewColumn>, indexes: Vec<NewIndex>) -> (&'static str, String) {
    let error = define(columns, indexes).expect_err("should be refused");
    let kind = match &error {
        EngineError::Schema(SchemaError::Column(ColumnFault::Exists(_))) => "column exists",
        EngineError::Schema(SchemaError::Column(ColumnFault::DefaultUnsupported(_))) => {
            "default unsupported"
        }
        EngineError::Schema(SchemaError::Column(ColumnFault::ValueInvalid(_))) => "value invalid",
        EngineError::Schema(SchemaError::Column(ColumnFault::FormatUnsupported(_))) => {
            "format unsupported"
        }
        EngineError::Schema(SchemaError::Index(IndexFault::Exists(_))) => "index exists",
        EngineError::Schema(SchemaError::Index(IndexFault::ColumnUnknown(_))) => "column unknown",
        EngineError::Schema(SchemaError::Index(IndexFault::Invalid(_))) => "index invalid",
        EngineError::Schema(SchemaError::Index(IndexFault::ColumnInvalid(_))) => {
            "index column invalid"
        }
        EngineError::Schema(SchemaError::Index(IndexFault::TooLong { .. })) => "index too long",
        EngineError::Schema(SchemaError::Index(IndexFault::LimitExceeded(_))) => "too many indexes",
        EngineError::Argument { .. } => "argument",
        EngineError::Unsupported(_) => "unsupported",
        other => panic!("{other:?}"),
    };
    (kind, error.to_string())
}

#[track_caller]
fn column_refused(new: NewColumn, kind: &str, fragment: &str) {
    let (found, text) = refused(vec![new], vec![]);
    assert_eq!(found, kind, "{text}");
    assert!(text.contains(fragment), "{text}");
}

#[track_caller]
fn index_refused(new: NewIndex, kind: &str, fragment: &str) {
    let list = NewColumn {
        array: true,
        ..varchar("list", 10)
    };
    let columns = vec![
        varchar("a", 10),
        column("n", "integer"),
        list,
        column("long", "text"),
    ];
    let (found, text) = refused(columns, vec![new]);
    assert_eq!(found, kind, "{text}");
    assert!(text.contains(fragment), "{text}");
}

#[test]
fn every_scalar_type_is_known_in_each_of_its_forms() {
    let with_format = |format: &str| NewColumn {
        format: Some(format.into()),
        ..column("k", "string")
    };
    let colours = NewColumn {
        elements: Some(vec!["red".into()]),
        ..column("k", "enum")
    };
    for (new, kind) in [
        (
            NewColumn {
                size: Some(1),
                ..column("k", "string")
            },
            ColumnKind::String { chars_max: 1 },
        ),
        (
            varchar("k", 16_381),
            ColumnKind::Varchar { chars_max: 16_381 },
        ),
        (column("k", "text"), ColumnKind::Text),
        (column("k", "mediumtext"), ColumnKind::Mediumtext),
        (column("k", "longtext"), ColumnKind::Longtext),
        (
            column("k", "integer"),
            ColumnKind::Integer {
                min: i64::MIN,
                max: i64::MAX,
            },
        ),
        (
            column("k", "bigint"),
            ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
        ),
        (
            column("k", "float"),
            ColumnKind::Float {
                min: f64::MIN,
                max: f64::MAX,
            },
        ),
        (
            column("k", "double"),
            ColumnKind::Float {
                min: f64::MIN,
                max: f64::MAX,
            },
        ),
        (column("k", "boolean"), ColumnKind::Boolean),
        (column("k", "email"), ColumnKind::Email),
        (with_format("email"), ColumnKind::Email),
        (with_format("url"), ColumnKind::Url),
        (column("k", "ip"), ColumnKind::Ip),
        (column("k", "datetime"), ColumnKind::Datetime),
        (
            colours,
            ColumnKind::Enum {
                elements: ["red".to_owned()].into(),
            },
        ),
    ] {
        let table = define(vec![new.clone()], vec![]).unwrap();
        assert_eq!(table.columns[0].kind, kind, "{new:?}");
    }
}

#[test]
fn columns_that_contradict_themselves_are_refused() {
    let number = || column("k", "integer");
    let (five, one) = (Some(Json::Int(5)), Some(Json::Int(1)));
    column_refused(varchar("k", 0), "argument", "1 to 16381, got 0");
    column_refused(varchar("k", 16_382), "argument", "1 to 16381, got 16382");
    column_refused(column("k", "varchar"), "argument", "needs one");
    column_refused(column("k", "enum"), "argument", "1 to 100 texts");
    column_refused(column("k", "map"), "argument", "unknown type `map`");
    column_refused(column("k", "relationship"), "argument", "relationships");
    column_refused(column("k", "point"), "unsupported", "`point`");
    column_refused(column("_k", "text"), "argument", "column key");
    column_refused(
        NewColumn {
            encrypt: true,
            ..number()
        },
        "argument",
        "`integer` cannot be encrypted",
    );
    column_refused(
        NewColumn {
            size: Some(149),
            encrypt: true,
            ..column("k", "string")
        },
        "argument",
        "needs 150 or more, got 149",
    );
    let formatted = NewColumn {
        format: Some("email".into()),
        ..number()
    };
    column_refused(formatted, "format unsupported", "no format `email`");
    let upside_down = NewColumn {
        min: five.clone(),
        max: one.clone(),
        ..number()
    };
    column_refused(upside_down, "value invalid", "greater than max");
    let textual = NewColumn {
        min: Some(Json::Text("1".into())),
        ..number()
    };
    column_refused(textual, "value invalid", "64-bit integers");
    let outside = NewColumn {
        max: one.clone(),
        default: five.clone(),
        ..number()
    };
    column_refused(outside, "value invalid", "does not fit");
    let required = NewColumn {
        required: true,
        default: one.clone(),
        ..number()
    };
    column_refused(required, "default unsupported", "a required column");
    let array = NewColumn {
        array: true,
        default: one,
        ..number()
    };
    column_refused(array, "default unsupported", "an array column");
}

#[test]
fn column_keys_are_unique_in_any_case() {
    let (kind, _) = refused(vec![column("Name", "text"), column("name", "text")], vec![]);
    assert_eq!(kind, "column exists");
}

#[test]
fn indexes_that_order_nothing_are_refused() {
    index_refused(
        index("i", &[]),
        "index column invalid",
        "at least one column",
    );
    index_refused(index("i", &["x"]), "column unknown", "unknown column `x`");
    index_refused(
        index("i", &["list"]),
        "index invalid",
        "array column `list`",
    );
    index_refused(index("i", &["a", "a"]), "index column invalid", "twice");
    index_refused(
        index("i", &["long"]),
        "index too long",
        "Index length is longer than",
    );
    let fulltext = NewIndex {
        kind: "fulltext".into(),
        ..index("i", &["$createdAt"])
    };
    index_refused(fulltext, "index column invalid", "text columns only");
    let spatial = NewIndex {
        kind: "spatial".into(),
        ..index("i", &["a"])
    };
    index_refused(spatial, "unsupported", "`spatial`");
    let odd = NewIndex {
        kind: "hash".into(),
        ..index("i", &["a"])
    };
    index_refused(odd, "argument", "unknown type `hash`");
    let sideways = NewIndex {
        orders: vec![Some("UP".into())],
        ..index("i", &["a"])
    };
    index_refused(sideways, "index column invalid", "neither ASC nor DESC");
    let uneven = NewIndex {
        lengths: vec![None],
        ..index("i", &["a", "n"])
    };
    index_refused(uneven, "index column invalid", "as many as columns");
    let over = NewIndex {
        lengths: vec![Some(11)],
        ..index("i", &["a"])
    };
    index_refused(over, "index column invalid", "not 1 to 10");
    let numeric = NewIndex {
        lengths: vec![Some(4)],
        ..index("i", &["n"])
    };
    index_refused(numeric, "index column invalid", "only text columns");
}

#[test]
fn an_index_keeps_order_direction_and_length() {
    let new = NewIndex {
        kind: "unique".into(),
        orders: vec![Some("desc".into()), None],
        lengths: vec![Some(5), None],
        ..index("i", &["a", "$createdAt"])
    };
    let table = define(vec![varchar("a", 10)], vec![new]).unwrap();
    let index = &table.indexes[0];
    assert_eq!(index.kind, IndexKind::Unique);
    let column = |field, direction, length| IndexColumn {
        field,
        direction,
        length,
        held: None,
    };
    assert_eq!(
        index.columns,
        [
            column(Field::Column(0), Direction::Desc, Some(5)),
            column(Field::Created, Direction::Asc, None),
        ]
    );
}

/// What an index over these columns, with these lengths, holds of each.
#[track_caller]
fn held(columns: &[NewColumn], lengths: &[Option<i64>]) -> Vec<Option<u32>> {
    let keys: Vec<&str> = columns.iter().map(|column| column.key.as_str()).collect();
    let new = NewIndex {
        lengths: lengths.to_vec(),
        ..index("i", &keys)
    };
    let table = define(columns.to_vec(), vec![new]).unwrap();
    let parts = &table.indexes[0].columns;
    parts.iter().map(|part| part.held).collect()
}

#[test]
fn an_index_holds_beginnings_where_whole_texts_would_be_too_long() {
    let (long, huge) = (varchar("l", 16_000), column("h", "longtext"));
    let short = varchar("s", 500);
    assert_eq!(held(std::slice::from_ref(&short), &[Some(255)]), [None]);
    assert_eq!(held(std::slice::from_ref(&huge), &[Some(768)]), [Some(240)]);
    assert_eq!(held(std::slice::from_ref(&long), &[Some(10)]), [Some(10)]);
    assert_eq!(
        held(&[long.clone(), huge.clone()], &[Some(255), Some(100)]),
        [Some(120), Some(100)],
    );
    // What has no length is held whole.
    assert_eq!(
        held(&[short.clone(), long.clone()], &[None, Some(255)]),
        [None, Some(240)],
    );
    let wide = NewIndex {
        lengths: vec![Some(500), Some(300)],
        ..index("i", &["s", "l"])
    };
    let (kind, text) = refused(vec![short.clone(), long.clone()], vec![wide]);
    assert_eq!(kind, "index too long");
    assert!(
        text.contains("768") && text.contains("shorter `lengths`"),
        "{text}"
    );
    let unique = NewIndex {
        kind: "unique".into(),
        lengths: vec![Some(10)],
        ..index("i", &["l"])
    };
    let (kind, text) = refused(vec![long], vec![unique]);
    assert_eq!(kind, "index too long");
    assert!(text.contains("whole values"), "{text}");
    let unique = NewIndex {
        kind: "unique".into(),
        lengths: vec![Some(10)],
        ..index("i", &["s"])
    };
    let table = define(vec![short], vec![unique]).unwrap();
    assert_eq!(table.indexes[0].columns[0].held, None);
}

#[test]
fn counts_are_bounded() {
    let many = |count: usize| {
        (0..count)
            .map(|i| column(&format!("c{i}"), "boolean"))
            .collect()
    };
    assert!(define(many(100), vec![]).is_ok());
    assert_eq!(refused(many(101), vec![]).0, "argument");
    let indexes = |count: usize| {
        (0..count)
            .map(|i| index(&format!("i{i}"), &["c0"]))
            .collect()
    };
    assert!(define(many(1), indexes(61)).is_ok());
    assert_eq!(refused(many(1), indexes(62)).0, "too many indexes");
    let twice = vec![index("i", &["c0"]), index("i", &["c0"])];
    assert_eq!(refused(many(1), twice).0, "index exists");
}
