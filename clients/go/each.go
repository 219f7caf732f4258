package tidemark

import (
	"context"
	"errors"
)

// pageSize is how many rows an iteration fetches at a time.
const pageSize = 100

// Rows iterates over a list, fetched page by page at the coordinates of the first page: whatever
// others write meanwhile, no row is missed and none comes twice.
//
//	rows := books.Each(ctx, tidemark.Equal("author", "anne"))
//	for rows.Next() {
//		use(rows.Row())
//	}
//	if err := rows.Err(); err != nil { … }
type Rows[T any] struct {
	ctx     context.Context
	table   *Table[T]
	queries []Query
	pinned  bool
	page    []T
	place   int
	cursor  string
	ended   bool
	err     error
}

// Each iterates over every row that matches. Limits, offsets and cursors are its own.
func (t *Table[T]) Each(ctx context.Context, queries ...Query) *Rows[T] {
	rows := &Rows[T]{
		ctx: ctx, table: t, queries: append([]Query{}, queries...), place: -1,
		pinned: has(queries, "asOf"),
	}
	if has(queries, "limit", "offset", "cursorAfter", "cursorBefore") {
		rows.err = errors.New("tidemark: an iteration pages by itself; leave out limit and cursor")
	}
	return rows
}

// Next goes to the next row. False at the end, and after an error.
func (r *Rows[T]) Next() bool {
	r.place++
	if r.err == nil && r.place >= len(r.page) && !r.ended {
		r.err = r.fetch()
	}
	return r.err == nil && r.place < len(r.page)
}

// Row is the row that Next went to.
func (r *Rows[T]) Row() T { return r.page[r.place] }

// Err is what ended the iteration too early.
func (r *Rows[T]) Err() error { return r.err }

// All reads the rest.
func (r *Rows[T]) All() ([]T, error) {
	var all []T
	for r.Next() {
		all = append(all, r.Row())
	}
	return all, r.err
}

func (r *Rows[T]) fetch() error {
	if !r.pinned {
		now, err := r.table.client.Now(r.ctx)
		if err != nil {
			return err
		}
		if has(r.queries, "validAt", "validBetween", "versions") {
			now.ValidAt = Instant{}
		}
		r.queries = append(r.queries, now.Queries()...)
		r.pinned = true
	}
	queries := append(append([]Query{}, r.queries...), Limit(pageSize))
	if r.cursor != "" {
		queries = append(queries, CursorAfter(r.cursor))
	}
	page, err := r.table.page(r.ctx, queries, false)
	if err != nil {
		return err
	}
	r.page, r.place, r.cursor = page.Rows, 0, page.last
	r.ended = len(page.Rows) < pageSize
	if !r.ended && r.cursor == "" {
		return errors.New("tidemark: an iteration needs $id; name it in select")
	}
	return nil
}
