//! A query as sent: read, but not yet held against a table.

use model::Json;

/// The queries of one request, in the order sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Ast {
    /// Each query.
    pub calls: Vec<Call>,
}

/// One query: a method, what it is about, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What is asked.
    pub method: Method,
    /// The attribute, where one was sent.
    pub attribute: Option<String>,
    /// The values; none for `or` and `and`.
    pub values: Vec<Json>,
    /// The queries inside an `or` or `and`; none for other methods.
    pub inner: Vec<Call>,
}

macro_rules! methods {
    (
        filters { $($filter:ident $filter_text:literal;)* }
        others { $($other:ident $other_text:literal;)* }
    ) => {
        /// A method of the query language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $filter_text, "`")] $filter,)*
            $(#[doc = concat!("`", $other_text, "`")] $other,)*
        }

        impl Method {
            /// Every method.
            pub const ALL: &[Method] = &[$(Method::$filter,)* $(Method::$other,)*];

            /// The method's name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Method::$filter => $filter_text,)*
                    $(Method::$other => $other_text,)*
                }
            }

            /// The method called `text`.
            pub fn parse(text: &str) -> Option<Method> {
                match text {
                    $($filter_text => Some(Method::$filter),)*
                    $($other_text => Some(Method::$other),)*
                    _ => None,
                }
            }

            /// Whether it says which rows are meant, so that `or` and `and` can hold it.
            pub fn is_filter(self) -> bool {
                matches!(self, $(Method::$filter)|*)
            }
        }
    };
}

methods! {
    filters {
        Equal "equal";
        NotEqual "notEqual";
        LessThan "lessThan";
        LessThanEqual "lessThanEqual";
        GreaterThan "greaterThan";
        GreaterThanEqual "greaterThanEqual";
        Between "between";
        NotBetween "notBetween";
        IsNull "isNull";
        IsNotNull "isNotNull";
        StartsWith "startsWith";
        NotStartsWith "notStartsWith";
        EndsWith "endsWith";
        NotEndsWith "notEndsWith";
        Contains "contains";
        ContainsAny "containsAny";
        ContainsAll "containsAll";
        NotContains "notContains";
        Search "search";
        NotSearch "notSearch";
        Regex "regex";
        Or "or";
        And "and";
    }
    others {
        OrderAsc "orderAsc";
        OrderDesc "orderDesc";
        OrderRandom "orderRandom";
        Limit "limit";
        Offset "offset";
        CursorAfter "cursorAfter";
        CursorBefore "cursorBefore";
        Select "select";
        AsOf "asOf";
        ValidAt "validAt";
        ValidBetween "validBetween";
        SystemBetween "systemBetween";
        Versions "versions";
    }
}

/// Methods of the reference's query language that this server knows of and does not offer: the
/// answer then says so, instead of calling the method unknown.
const NOT_OFFERED: &[&str] = &[
    "exists",
    "notExists",
    "elemMatch",
    "distanceEqual",
    "distanceNotEqual",
    "distanceGreaterThan",
    "distanceLessThan",
    "intersects",
    "notIntersects",
    "crosses",
    "notCrosses",
    "overlaps",
    "notOverlaps",
    "touches",
    "notTouches",
    "covers",
    "notCovers",
    "spatialEquals",
    "notSpatialEquals",
    "vectorDot",
    "vectorCosine",
    "vectorEuclidean",
    "join",
    "leftJoin",
    "rightJoin",
    "fullOuterJoin",
    "crossJoin",
    "count",
    "countDistinct",
    "sum",
    "avg",
    "min",
    "max",
    "stddev",
    "stddevPop",
    "stddevSamp",
    "variance",
    "varPop",
    "varSamp",
    "bitAnd",
    "bitOr",
    "bitXor",
    "groupBy",
    "having",
    "distinct",
    "relationship",
];

/// Whether `text` names a method that exists, but not here.
pub fn is_not_offered(text: &str) -> bool {
    NOT_OFFERED.contains(&text)
}
