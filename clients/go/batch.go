package tidemark

import (
	"context"
	"encoding/json"
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
}

// result is what became of one operation, or of one element of a batch of reads.
type result struct {
	Mark  *int64            `json:"mark"`
	Rows  []json.RawMessage `json:"rows"`
	Error *Error            `json:"error"`
}

func marksOfResults(body []byte) []int64 {
	var answer struct{ Results []result }
	var marks []int64
	if json.Unmarshal(body, &answer) == nil {
		for _, one := range answer.Results {
			if one.Mark != nil {
				marks = append(marks, *one.Mark)
			}
		}
	}
	return marks
}

func markOfAnswer(body []byte) []int64 {
	var answer struct{ Mark int64 }
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	return []int64{answer.Mark}
}

// write does the operations in one request, all at one mark or each on its own.
func (c *Client) write(
	ctx context.Context, database string, operations []operation, atomic bool,
) ([]result, error) {
	body := struct {
		Operations []operation `json:"operations"`
		Atomic     bool        `json:"atomic"`
	}{operations, atomic}
	return c.batch(ctx, join("tidemark", "databases", database, "batch", "writes"), body,
		call{nature: keyed, marks: marksOfResults})
}

// read gets the rows in one request, all as of one commit.
func (c *Client) read(ctx context.Context, database string, reads []wanted) ([]result, error) {
	body := struct {
		Reads []wanted `json:"reads"`
	}{reads}
	return c.batch(ctx, join("tidemark", "databases", database, "batch", "reads"), body,
		call{nature: reading, marks: markOfAnswer})
}

func (c *Client) batch(
	ctx context.Context, path string, body any, asked call,
) ([]result, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	asked.method, asked.path, asked.content = http.MethodPost, path, content
	got, err := c.do(ctx, asked)
	if err != nil {
		return nil, err
	}
	var answer struct{ Results []result }
	err = json.Unmarshal(got, &answer)
	return answer.Results, err
}
