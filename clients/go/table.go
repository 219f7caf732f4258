package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
)

// Table reads and writes the rows of one table as values of T: a Row, or a struct whose fields
// have tags.
//
//	type Book struct {
//		ID    string `tidemark:"$id"`
//		Title string `tidemark:"title,size=200"`
//		Year  *int64 `tidemark:"year"`
//	}
//
// Fields are strings, integers, floats, bools and time.Times, slices of these, and pointers to
// these for columns that may be null. Fields without a tag are not stored.
type Table[T any] struct {
	client   *Client
	database string
	id       string
	shape    *shape
	// lookups that a model declares.
	lookups []declared
}

// NewTable is the table of this id in the client's database. It asks nothing of the server.
func NewTable[T any](client *Client, id string) (*Table[T], error) {
	table := new(Table[T])
	if err := table.bindTable(client, id); err != nil {
		return nil, err
	}
	return table, nil
}

func (t *Table[T]) bindTable(client *Client, id string) error {
	shape, err := shapeOf(reflect.TypeOf((*T)(nil)).Elem())
	if err != nil {
		return err
	}
	*t = Table[T]{client: client, database: client.options.Database, id: id, shape: shape}
	return nil
}

// Page is one slice of a list.
type Page[T any] struct {
	Rows []T
	// Total is how many rows match, up to the server's cap.
	Total int64
	// last is the cursor behind the last row.
	last string
}

// Written is a write that was done.
type Written struct {
	ID string
	// Mark of the commit; 0 if the row was like that already.
	Mark int64
}

// Get reads the row of this id, by AsOf and ValidAt at other times. ErrNotFound if there is none.
func (t *Table[T]) Get(ctx context.Context, id string, queries ...Query) (T, error) {
	if len(queries) == 0 {
		return run(ctx, t.client, t.getting(id))
	}
	var row T
	texts, err := queryTexts(queries)
	if err != nil {
		return row, err
	}
	asked := t.getting(id).call
	asked.params = url.Values{"queries[]": texts}
	got, err := t.client.do(ctx, asked)
	if err != nil {
		return row, err
	}
	return t.decode(got.body, place{times(queries), got.seen})
}

// GetMany reads the rows of these ids, at most 1,000, in their order and all as of one commit; nil
// for each that is not there. AsOf and ValidAt read them at other times; Select is the only other
// query that they take.
func (t *Table[T]) GetMany(ctx context.Context, ids []string, queries ...Query) ([]*T, error) {
	return t.read(ctx, wanted{TableID: t.id, IDs: ids}, queries)
}

// GetBy reads the rows with these keys of a unique index, as GetMany does it by ids. A key of an
// index of several columns is a slice.
func (t *Table[T]) GetBy(
	ctx context.Context, index string, keys []any, queries ...Query,
) ([]*T, error) {
	return t.read(ctx, wanted{TableID: t.id, Index: index, Keys: keys}, queries)
}

func (t *Table[T]) read(ctx context.Context, rows wanted, queries []Query) ([]*T, error) {
	if err := rows.heed(queries); err != nil {
		return nil, err
	}
	got, err := t.client.read(ctx, t.database, []wanted{rows})
	if err != nil {
		return nil, err
	}
	answer := got.Results[0]
	if answer.Error != nil {
		return nil, answer.Error
	}
	// As the server resolved them: giving them back repeats the answer for ever.
	where := place{Coordinates{AsOf: answer.AsOf, ValidAt: answer.ValidAt}, got.Mark}
	found := make([]*T, len(answer.Rows))
	for number, sent := range answer.Rows {
		if string(sent) == "null" {
			continue
		}
		row, err := t.decode(sent, where)
		if err != nil {
			return nil, err
		}
		found[number] = &row
	}
	return found, nil
}

// Page reads one page with its total: by default the first 25 rows, by $sequence.
func (t *Table[T]) Page(ctx context.Context, queries ...Query) (Page[T], error) {
	return t.page(ctx, queries, true)
}

func (t *Table[T]) page(ctx context.Context, queries []Query, total bool) (Page[T], error) {
	var page Page[T]
	texts, err := queryTexts(queries)
	if err != nil {
		return page, err
	}
	content, err := json.Marshal(map[string]any{"queries": texts, "total": total})
	if err != nil {
		return page, err
	}
	asked := call{method: http.MethodPost, path: t.rows() + "/query", content: content}
	got, err := t.client.do(ctx, asked)
	if err != nil {
		return page, err
	}
	var answer struct {
		Total int64
		Rows  []json.RawMessage
	}
	if err := json.Unmarshal(got.body, &answer); err != nil {
		return page, err
	}
	page.Total = answer.Total
	page.Rows = make([]T, 0, len(answer.Rows))
	where := place{times(queries), got.seen}
	for _, sent := range answer.Rows {
		row, err := t.decode(sent, where)
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, row)
	}
	if len(answer.Rows) > 0 {
		page.last, err = cursor(answer.Rows[len(answer.Rows)-1], queries)
	}
	return page, err
}

// cursor is the row's id, or its version in lists where a row may come more than once.
func cursor(sent json.RawMessage, queries []Query) (string, error) {
	var row struct {
		ID      string `json:"$id"`
		Version string `json:"$version"`
	}
	err := json.Unmarshal(sent, &row)
	if has(queries, "validBetween", "versions") {
		return row.Version, err
	}
	return row.ID, err
}

// First reads the first row that matches. ErrNotFound if none does.
func (t *Table[T]) First(ctx context.Context, queries ...Query) (T, error) {
	page, err := t.page(ctx, append(append([]Query{}, queries...), Limit(1)), false)
	if err != nil || len(page.Rows) > 0 {
		return firstOf(page.Rows), err
	}
	return firstOf(page.Rows), noRow()
}

func firstOf[T any](rows []T) T {
	var row T
	if len(rows) > 0 {
		row = rows[0]
	}
	return row
}

// Create makes a new row; without an id it gets one. ErrConflict if its id or a unique value is
// taken.
func (t *Table[T]) Create(ctx context.Context, row T) (Written, error) {
	return run(ctx, t.client, t.writingRow("create", row))
}

// Upsert makes the row be there with these columns, whether or not it was.
func (t *Table[T]) Upsert(ctx context.Context, row T) (Written, error) {
	return run(ctx, t.client, t.writingRow("upsert", row))
}

// Update changes some columns. ErrNotFound if there is no such row.
func (t *Table[T]) Update(ctx context.Context, id string, changes Row) (Written, error) {
	return run(ctx, t.client, t.writing("update", id, changes))
}

// Delete removes a row. ErrNotFound if there is no such row.
func (t *Table[T]) Delete(ctx context.Context, id string) (Written, error) {
	return run(ctx, t.client, t.writing("delete", id, nil))
}

// Increment adds to a number, whatever it is by then; by may be below zero.
func (t *Table[T]) Increment(
	ctx context.Context, id, column string, by float64,
) (Written, error) {
	return run(ctx, t.client, t.incrementing(id, column, by))
}

// CreateMany makes at most 1,000 new rows, all at one mark or none.
func (t *Table[T]) CreateMany(ctx context.Context, rows []T) ([]Written, error) {
	return t.writeMany(ctx, "create", rows, Period{})
}

// UpsertMany is CreateMany for rows that may be there.
func (t *Table[T]) UpsertMany(ctx context.Context, rows []T) ([]Written, error) {
	return t.writeMany(ctx, "upsert", rows, Period{})
}

func (t *Table[T]) writeMany(
	ctx context.Context, action string, rows []T, period Period,
) ([]Written, error) {
	operations := make([]operation, len(rows))
	for place, row := range rows {
		id, values := t.shape.encode(reflect.ValueOf(row))
		values = period.with(values)
		operations[place] = operation{Action: action, TableID: t.id, RowID: id, Values: values}
	}
	results, err := t.client.write(ctx, t.database, operations, true)
	if err != nil {
		return nil, err
	}
	done := make([]Written, len(rows))
	for place, one := range results {
		done[place] = written(operations[place].RowID, one)
	}
	return done, nil
}

func written(id string, done result) Written {
	if done.Mark == nil {
		return Written{ID: id}
	}
	return Written{ID: id, Mark: int64(*done.Mark)}
}

func (t *Table[T]) decode(sent json.RawMessage, where place) (T, error) {
	var row T
	err := t.shape.decode(sent, reflect.ValueOf(&row).Elem(), where)
	return row, err
}

func (t *Table[T]) rows() string {
	return join("tablesdb", t.database, "tables", t.id, "rows")
}

func (t *Table[T]) getting(id string) rowCall[T] {
	path := t.rows() + join(id)
	return rowCall[T]{
		call: call{method: http.MethodGet, path: path, nature: reading},
		part: part{database: t.database, table: t.id, id: id},
		parse: func(sent json.RawMessage, seen mark) (T, error) {
			if string(sent) == "null" {
				var none T
				return none, noRow()
			}
			return t.decode(sent, place{seen: seen})
		},
	}
}

func (t *Table[T]) writingRow(action string, row T) rowCall[Written] {
	id, values := t.shape.encode(reflect.ValueOf(row))
	return t.writing(action, id, values)
}

func (t *Table[T]) incrementing(id, column string, by float64) rowCall[Written] {
	action := "increment"
	if by < 0 {
		action, by = "decrement", -by
	}
	return t.writing(action, id, map[string]any{"column": column, "value": by})
}

func (t *Table[T]) writing(action, id string, values map[string]any) rowCall[Written] {
	one := operation{Action: action, TableID: t.id, RowID: id}
	if values != nil {
		one.Values = values
	}
	return rowCall[Written]{
		part: part{database: t.database, write: &one},
		parse: func(sent json.RawMessage, _ mark) (Written, error) {
			var done result
			if err := json.Unmarshal(sent, &done); err != nil {
				return Written{}, err
			}
			return written(id, done), nil
		},
	}
}

func noRow() error {
	return &Error{Code: http.StatusNotFound, Type: "row_not_found", Message: "There is no such row."}
}

func queryTexts(queries []Query) ([]string, error) {
	texts := make([]string, len(queries))
	for place, query := range queries {
		text, err := json.Marshal(query)
		if err != nil {
			return nil, err
		}
		texts[place] = string(text)
	}
	return texts, nil
}

// IsThere turns ErrNotFound of a read into false.
func IsThere(err error) (bool, error) {
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
