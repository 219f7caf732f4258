package tidemark

// Query is one condition, order or bound of a list. Any method of the server that has no function
// here can be written as a Query.
type Query struct {
	Method    string `json:"method"`
	Attribute string `json:"attribute,omitempty"`
	Values    []any  `json:"values,omitempty"`
}

func about(method, column string, values ...any) Query {
	return Query{Method: method, Attribute: column, Values: values}
}

// Equal holds where the column has one of the values.
func Equal(column string, values ...any) Query { return about("equal", column, values...) }

// NotEqual holds where the column has another value.
func NotEqual(column string, value any) Query { return about("notEqual", column, value) }

// Less holds below the value.
func Less(column string, value any) Query { return about("lessThan", column, value) }

// LessOrEqual holds up to the value.
func LessOrEqual(column string, value any) Query { return about("lessThanEqual", column, value) }

// Greater holds above the value.
func Greater(column string, value any) Query { return about("greaterThan", column, value) }

// GreaterOrEqual holds from the value on.
func GreaterOrEqual(column string, value any) Query {
	return about("greaterThanEqual", column, value)
}

// Between holds from low to high, both included.
func Between(column string, low, high any) Query { return about("between", column, low, high) }

// IsNull holds where the column has no value.
func IsNull(column string) Query { return about("isNull", column) }

// IsNotNull holds where the column has a value.
func IsNotNull(column string) Query { return about("isNotNull", column) }

// StartsWith holds for texts that begin so.
func StartsWith(column, text string) Query { return about("startsWith", column, text) }

// Contains holds for texts with one of the texts in them, and arrays with one of the values.
func Contains(column string, values ...any) Query { return about("contains", column, values...) }

// Search holds where the words stand in a column with a full-text index.
func Search(column, words string) Query { return about("search", column, words) }

// OrderAsc sorts by the column, lowest first.
func OrderAsc(column string) Query { return about("orderAsc", column) }

// OrderDesc sorts by the column, highest first.
func OrderDesc(column string) Query { return about("orderDesc", column) }

// Limit is the most rows of a page.
func Limit(rows int) Query { return about("limit", "", rows) }

// Offset leaves out so many rows.
func Offset(rows int) Query { return about("offset", "", rows) }

// Select shows these columns only.
func Select(columns ...string) Query {
	values := make([]any, len(columns))
	for place, column := range columns {
		values[place] = column
	}
	return about("select", "", values...)
}

// CursorAfter begins behind the row of this id; in lists of versions, of this version.
func CursorAfter(row string) Query { return about("cursorAfter", "", row) }

// AsOf shows what was known then.
func AsOf(when Instant) Query { return about("asOf", "", when) }

// ValidAt shows what is, was or will be valid then.
func ValidAt(when Instant) Query { return about("validAt", "", when) }

// ValidBetween shows every piece of a row that shares an instant with the period; end may be zero.
func ValidBetween(begin, end Instant) Query { return about("validBetween", "", begin, end) }

// Versions shows every version ever known, also those that were replaced since.
func Versions() Query { return about("versions", "") }

func has(queries []Query, methods ...string) bool {
	for _, query := range queries {
		for _, method := range methods {
			if query.Method == method {
				return true
			}
		}
	}
	return false
}
