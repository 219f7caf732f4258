package tidemark

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// declared is an index that a model declares, named after its field in snake case.
type declared struct {
	key       string
	columns   []string
	isUnique  bool
	reference string
}

// Bind fills a model: a struct that embeds a *Table[T], and whose other fields declare indexes that
// are lookups at the same time. Tags name the columns.
//
//	type Books struct {
//		*tidemark.Table[Book]
//		ByISBN   tidemark.Unique[Book, string]    `tidemark:"isbn"`
//		ByShelf  tidemark.Unique[Book, ShelfSlot] `tidemark:"shelf,slot"`
//		ByYear   tidemark.Index[Book, int64]      `tidemark:"year"`
//		ByAuthor tidemark.Reference[Book, Author] `tidemark:"author,table=authors"`
//	}
//
//	var books Books
//	err := tidemark.Bind(client, "books", &books)
//	book, err := books.ByISBN.Get(ctx, "9780441013593")
//
// An index is named by_isbn after the field ByISBN, as in the client for Python, or as name=… in the
// tag says.
//
// Bind asks nothing of the server; CreateTable makes the table with its indexes.
func Bind(client *Client, table string, model any) error {
	value := reflect.ValueOf(model)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("tidemark: a model is a pointer to a struct, not %T", model)
	}
	value = value.Elem()
	bound, err := bindTable(client, table, value)
	if err != nil {
		return err
	}
	for place := 0; place < value.NumField(); place++ {
		field := value.Type().Field(place)
		if !field.IsExported() {
			continue
		}
		lookup, isLookup := value.Field(place).Addr().Interface().(lookupField)
		if !isLookup {
			continue
		}
		if err := lookup.bindLookup(bound, field.Name, field.Tag.Get("tidemark")); err != nil {
			return fmt.Errorf("tidemark: %T.%s: %w", model, field.Name, err)
		}
	}
	return nil
}

// tableField is a *Table[T], whatever T is.
type tableField interface {
	bindTable(client *Client, id string) error
}

// lookupField is a lookup, whatever it looks for. table is the model's *Table[T].
type lookupField interface {
	bindLookup(table any, key, tag string) error
}

func bindTable(client *Client, id string, model reflect.Value) (any, error) {
	for place := 0; place < model.NumField(); place++ {
		field := model.Type().Field(place)
		if !field.Anonymous || field.Type.Kind() != reflect.Pointer {
			continue
		}
		table := reflect.New(field.Type.Elem())
		if found, isTable := table.Interface().(tableField); isTable {
			if err := found.bindTable(client, id); err != nil {
				return nil, err
			}
			model.Field(place).Set(table)
			return table.Interface(), nil
		}
	}
	return nil, fmt.Errorf("tidemark: %v embeds no *tidemark.Table", model.Type())
}

// wordEnd and wordStart are where a word begins inside a name: behind lower case, and before the
// last of several letters of upper case.
var (
	wordEnd   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	wordStart = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// snakeCase makes by_isbn of ByISBN.
func snakeCase(name string) string {
	name = wordEnd.ReplaceAllString(name, "${1}_${2}")
	return strings.ToLower(wordStart.ReplaceAllString(name, "${1}_${2}"))
}

// lookup is what all lookups have.
type lookup[T any] struct {
	table *Table[T]
	declared
}

func (l *lookup[T]) bind(table any, key, tag string, isUnique bool) error {
	found, isRight := table.(*Table[T])
	if !isRight {
		return fmt.Errorf("it looks for rows of another table than %T", table)
	}
	*l = lookup[T]{table: found, declared: declared{key: snakeCase(key), isUnique: isUnique}}
	for _, word := range strings.Split(tag, ",") {
		if target := strings.TrimPrefix(word, "table="); target != word {
			l.reference = target
			continue
		}
		if name := strings.TrimPrefix(word, "name="); name != word {
			l.key = name
			continue
		}
		if !found.shape.has(word) {
			return fmt.Errorf("there is no column %q", word)
		}
		l.columns = append(l.columns, word)
	}
	found.lookups = append(found.lookups, l.declared)
	return nil
}

func (l *lookup[T]) queries(key any, others []Query) ([]Query, error) {
	values, err := l.values(key)
	if err != nil {
		return nil, err
	}
	queries := append([]Query{}, others...)
	for place, column := range l.columns {
		queries = append(queries, Equal(column, values[place]))
	}
	return queries, nil
}

// values are those of a key: the key itself, or the fields of a struct in their order.
func (l *lookup[T]) values(key any) ([]any, error) {
	if len(l.columns) == 1 {
		return []any{key}, nil
	}
	parts := reflect.ValueOf(key)
	if parts.Kind() != reflect.Struct || parts.NumField() != len(l.columns) {
		return nil, fmt.Errorf("tidemark: %s looks up by %s; its key is a struct of %d fields, not %T",
			l.key, strings.Join(l.columns, ", "), len(l.columns), key)
	}
	values := make([]any, len(l.columns))
	for place := range values {
		values[place] = parts.Field(place).Interface()
	}
	return values, nil
}

// Unique finds the row of a key of type K; no two rows have the same key at any instant. For
// several columns K is a struct with a field for each, in their order.
type Unique[T, K any] struct{ lookup[T] }

func (u *Unique[T, K]) bindLookup(table any, key, tag string) error {
	return u.bind(table, key, tag, true)
}

// Get reads the row with this key, by AsOf and ValidAt at other times. ErrNotFound if there is
// none.
func (u *Unique[T, K]) Get(ctx context.Context, key K, queries ...Query) (T, error) {
	asked, err := u.queries(key, queries)
	if err != nil {
		var none T
		return none, err
	}
	return u.table.First(ctx, asked...)
}

// GetMany reads the rows with these keys, at most 1,000, in their order and all as of one commit;
// nil for each that is not there. AsOf and ValidAt read them at other times.
func (u *Unique[T, K]) GetMany(ctx context.Context, keys []K, queries ...Query) ([]*T, error) {
	listed := make([]any, len(keys))
	for place, key := range keys {
		values, err := u.values(key)
		if err != nil {
			return nil, err
		}
		listed[place] = values
	}
	return u.table.GetBy(ctx, u.key, listed, queries...)
}

// Index finds rows by values of type K, as Unique finds one.
type Index[T, K any] struct{ lookup[T] }

func (i *Index[T, K]) bindLookup(table any, key, tag string) error {
	return i.bind(table, key, tag, false)
}

// Each iterates over the rows with this key.
func (i *Index[T, K]) Each(ctx context.Context, key K, queries ...Query) *Rows[T] {
	asked, err := i.queries(key, queries)
	if err != nil {
		return &Rows[T]{err: err}
	}
	return i.table.Each(ctx, asked...)
}

// Reference says that a column holds the id of a row of another table, N, which is there at every
// instant at which this row is; a column without a value refers to nothing.
type Reference[T, N any] struct {
	lookup[T]
	target *Table[N]
}

func (r *Reference[T, N]) bindLookup(table any, key, tag string) error {
	if err := r.bind(table, key, tag, false); err != nil {
		return err
	}
	if r.reference == "" || len(r.columns) != 1 {
		return errors.New("its tag is one column and table=…")
	}
	var err error
	r.target, err = NewTable[N](r.table.client, r.reference)
	return err
}

// Each iterates over the rows that refer to the row of this id.
func (r *Reference[T, N]) Each(ctx context.Context, id string, queries ...Query) *Rows[T] {
	asked, err := r.queries(id, queries)
	if err != nil {
		return &Rows[T]{err: err}
	}
	return r.table.Each(ctx, asked...)
}

// Follow reads the row that row refers to, at the coordinates of row if it is a Row or its struct
// embeds ReadAt, else as of now. ErrNotFound if it refers to nothing.
func (r *Reference[T, N]) Follow(ctx context.Context, row T) (N, error) {
	value := reflect.ValueOf(row)
	id := r.table.shape.text(value, r.columns[0])
	if id == "" {
		var none N
		return none, noRow()
	}
	return r.target.Get(ctx, id, r.table.shape.read(value).Coordinates.Queries()...)
}
