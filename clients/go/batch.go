package tidemark

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// operationsMax is the most operations, and the most rows read, of one request (the server's page
// of batches).
const operationsMax = 1_000

// operation is one write in a batch.
type operation struct {
	Action  string `json:"action"`
	TableID string `json:"tableId"`
	RowID   string `json:"rowId"`
	Values  any    `json:"data,omitempty"`
}

// wanted are rows of one table in a batch of reads, by ids or by keys of a unique index.
type wanted struct {
	TableID string   `json:"tableId"`
	IDs     []string `json:"ids,omitempty"`
	Index   string   `json:"index,omitempty"`
	Keys    []any    `json:"keys,omitempty"`
	// Queries may select columns.
	Queries []string `json:"queries,omitempty"`
	AsOf    *Instant `json:"asOf,omitempty"`
	ValidAt *Instant `json:"validAt,omitempty"`
}

// heed takes from queries what an element of a batch of reads can say.
func (w *wanted) heed(queries []Query) error {
	for _, query := range queries {
		switch query.Method {
		case "asOf", "validAt":
		case "select":
			text, err := json.Marshal(query)
			if err != nil {
				return err
			}
			w.Queries = append(w.Queries, string(text))
		default:
			return fmt.Errorf("tidemark: rows by ids or keys take AsOf, ValidAt and Select, not %.40q",
				query.Method)
		}
	}
	at := times(queries)
	if !at.AsOf.IsZero() {
		w.AsOf = &at.AsOf
	}
	if !at.ValidAt.IsZero() {
		w.ValidAt = &at.ValidAt
	}
	return nil
}

// result is what became of one operation, or of one element of a batch of reads.
type result struct {
	Mark  *mark             `json:"mark"`
	Rows  []json.RawMessage `json:"rows"`
	Error *Error            `json:"error"`
	// AsOf and ValidAt are there if the element named a time.
	AsOf    Instant `json:"asOf"`
	ValidAt Instant `json:"validAt"`
}

func marksOfResults(body []byte) []mark {
	var answer struct{ Results []result }
	var marks []mark
	if json.Unmarshal(body, &answer) == nil {
		for _, one := range answer.Results {
			if one.Mark != nil {
				marks = append(marks, *one.Mark)
			}
		}
	}
	return marks
}

func markOfAnswer(body []byte) []mark {
	var answer struct{ Mark mark }
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	return []mark{answer.Mark}
}

// results of a batch, and the mark of the rows among them that were read as of now.
type results struct {
	Results []result
	Mark    mark
}

// write does the operations in one request, all at one mark or each on its own.
func (c *Client) write(
	ctx context.Context, database string, operations []operation, atomic bool,
) ([]result, error) {
	body := struct {
		Operations []operation `json:"operations"`
		Atomic     bool        `json:"atomic"`
	}{operations, atomic}
	got, err := c.batch(ctx, join("tidemark", "databases", database, "batch", "writes"), body,
		call{nature: keyed, marks: marksOfResults})
	return got.Results, err
}

// read gets the rows in one request, all as of one commit.
func (c *Client) read(ctx context.Context, database string, reads []wanted) (results, error) {
	body := struct {
		Reads []wanted `json:"reads"`
	}{reads}
	return c.batch(ctx, join("tidemark", "databases", database, "batch", "reads"), body,
		call{nature: reading, marks: markOfAnswer})
}

func (c *Client) batch(
	ctx context.Context, path string, body any, asked call,
) (results, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return results{}, err
	}
	asked.method, asked.path, asked.content = http.MethodPost, path, content
	got, err := c.do(ctx, asked)
	if err != nil {
		return results{}, err
	}
	var answer results
	err = json.Unmarshal(got.body, &answer)
	return answer, err
}
