package tidemark

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
)

// Operation is one step of a commit over valid time. Make one with Insert, Put, Patch and the
// like, or fill it in.
type Operation struct {
	Op    string `json:"op"`
	Table string `json:"table"`
	ID    string `json:"id"`
	// Doc holds the columns that are written.
	Doc       map[string]any `json:"doc,omitempty"`
	ValidFrom *Instant       `json:"valid_from,omitempty"`
	ValidTo   *Instant       `json:"valid_to,omitempty"`
	// Exists, Equals and UnchangedSince are what an assert demands; the first two at ValidAt.
	Exists         *bool          `json:"exists,omitempty"`
	Equals         map[string]any `json:"equals,omitempty"`
	UnchangedSince *int64         `json:"unchanged_since,omitempty"`
	ValidAt        *Instant       `json:"vt,omitempty"`
}

func over[T any](table *Table[T], op, id string, doc map[string]any, period Period) Operation {
	step := Operation{Op: op, Table: table.id, ID: id, Doc: doc}
	if !period.ValidFrom.IsZero() {
		step.ValidFrom = &period.ValidFrom
	}
	if !period.ValidTo.IsZero() {
		step.ValidTo = &period.ValidTo
	}
	return step
}

// Insert gives the row this content; refused if it is there at any instant of the period.
func Insert[T any](table *Table[T], row T, period Period) Operation {
	id, values := table.shape.encode(reflect.ValueOf(row))
	return over(table, "insert", id, values, period)
}

// Put gives the row exactly this content.
func Put[T any](table *Table[T], row T, period Period) Operation {
	id, values := table.shape.encode(reflect.ValueOf(row))
	return over(table, "put", id, values, period)
}

// Patch merges into every piece, and makes the row in the gaps.
func Patch[T any](table *Table[T], id string, changes Row, period Period) Operation {
	return over(table, "patch", id, changes, period)
}

// Update merges where the row is; elsewhere nothing.
func Update[T any](table *Table[T], id string, changes Row, period Period) Operation {
	return over(table, "update", id, changes, period)
}

// Delete makes the row absent.
func Delete[T any](table *Table[T], id string, period Period) Operation {
	return over(table, "delete", id, nil, period)
}

// Erase removes every version at every system time.
func Erase[T any](table *Table[T], id string) Operation {
	return over(table, "erase", id, nil, Period{})
}

// At makes a requirement of what is valid at an instant, in place of the commit's own.
func (o Operation) At(when Instant) Operation {
	o.ValidAt = &when
	return o
}

// RequireExists refuses the commit unless the row is there, or is not.
func RequireExists[T any](table *Table[T], id string, exists bool) Operation {
	step := over(table, "assert", id, nil, Period{})
	step.Exists = &exists
	return step
}

// RequireEquals refuses the commit unless the columns have these values.
func RequireEquals[T any](table *Table[T], id string, columns Row) Operation {
	step := over(table, "assert", id, nil, Period{})
	step.Equals = columns
	return step
}

// RequireUnchanged refuses the commit if anything of the row changed after this mark.
func RequireUnchanged[T any](table *Table[T], id string, since int64) Operation {
	step := over(table, "assert", id, nil, Period{})
	step.UnchangedSince = &since
	return step
}

// Committed are operations that were committed.
type Committed struct {
	Mark int64
	// Affected says for each operation whether it changed something.
	Affected []bool
}

// Commit does the operations at one mark, or none of them. Later ones see earlier ones. meta is
// kept with the commit, and may be nil: who, why, which request.
func (c *Client) Commit(
	ctx context.Context, meta any, operations ...Operation,
) (Committed, error) {
	asked := struct {
		Ops  []Operation `json:"ops"`
		Meta any         `json:"meta,omitempty"`
	}{operations, meta}
	content, err := json.Marshal(asked)
	if err != nil {
		return Committed{}, err
	}
	got, err := c.do(ctx, call{
		method:  http.MethodPost,
		path:    join("tidemark", "databases", c.options.Database, "transactions"),
		content: content,
		nature:  keyed,
		marks:   markOfCommit,
	})
	if err != nil {
		return Committed{}, err
	}
	var answer struct {
		TT   mark
		Rows []struct{ Affected int }
	}
	if err := json.Unmarshal(got.body, &answer); err != nil {
		return Committed{}, err
	}
	done := Committed{Mark: int64(answer.TT)}
	for _, row := range answer.Rows {
		done.Affected = append(done.Affected, row.Affected != 0)
	}
	return done, nil
}

func markOfCommit(body []byte) []mark {
	var answer struct{ TT mark }
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	return []mark{answer.TT}
}

// Reading is the answer to a read of the server's own kinds.
type Reading struct {
	// Rows have a shape that depends on the kind: the server's page on time says which.
	Rows json.RawMessage `json:"rows"`
	// Giving ValidAt and AsOf back as vt and tt repeats the answer for ever.
	ValidAt Instant `json:"vt"`
	AsOf    Instant `json:"tt"`
	// StableUntil is the next instant at which the answer changes without a write; none for never.
	StableUntil Instant `json:"stableUntil"`
	// Erased says that rows which it may have shown once are erased since.
	Erased bool `json:"erased"`
}

// Read asks one read of the server's own kinds: history, diff, timeline and the like. members are
// its kind and what the kind takes.
func (c *Client) Read(ctx context.Context, members Row) (Reading, error) {
	readings, err := c.Reads(ctx, []Row{members})
	if err != nil {
		return Reading{}, err
	}
	return readings[0], nil
}

// Reads asks up to 100 of them in one request.
func (c *Client) Reads(ctx context.Context, asked []Row) ([]Reading, error) {
	content, err := json.Marshal(map[string]any{"reads": asked})
	if err != nil {
		return nil, err
	}
	got, err := c.do(ctx, call{
		method:  http.MethodPost,
		path:    join("tidemark", "databases", c.options.Database, "reads"),
		content: content,
	})
	if err != nil {
		return nil, err
	}
	var answer struct{ Answers []Reading }
	err = json.Unmarshal(got.body, &answer)
	return answer.Answers, err
}
