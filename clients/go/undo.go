package tidemark

import (
	"context"
	"encoding/json"
	"net/http"
)

// Undoing says which commits are undone: those after After, up to Until or, without it, now. At
// least one of User and Meta is needed.
type Undoing struct {
	After Instant
	Until Instant
	// User is their author, as "key:ID".
	User string
	// Meta are members of their metadata.
	Meta Row
	// DryRun writes nothing; what would be refused is refused.
	DryRun bool
}

// Undone is what an undo did, or would do.
type Undone struct {
	// Mark of its commit; 0 where nothing was written.
	Mark int64
	// Commits is how many were found.
	Commits int
	Rows    []UndoneRow
}

// UndoneRow is how one row is undone.
type UndoneRow struct {
	Table string `json:"tableId"`
	ID    string `json:"rowId"`
	// Permissions that it gets again; nil where they stay.
	Permissions []string       `json:"$permissions"`
	Changes     []UndoneChange `json:"changes"`
}

// UndoneChange is what a row becomes again over a period of valid time.
type UndoneChange struct {
	ValidFrom Instant `json:"$validFrom"`
	ValidTo   Instant `json:"$validTo"`
	// Data is nil where the row is absent.
	Data Row `json:"data"`
}

// Undo makes rows again what they were before certain commits, in one commit or not at all. What
// others have changed since is ErrConflict, and the message names the rows. The commit keeps the
// metadata of ctx (WithMeta).
func (c *Client) Undo(ctx context.Context, which Undoing) (Undone, error) {
	asked := map[string]any{"after": which.After, "dryRun": which.DryRun}
	if !which.Until.IsZero() {
		asked["until"] = which.Until
	}
	if which.User != "" {
		asked["user"] = which.User
	}
	if which.Meta != nil {
		asked["meta"] = which.Meta
	}
	content, err := json.Marshal(asked)
	if err != nil {
		return Undone{}, err
	}
	got, err := c.do(ctx, call{
		method:  http.MethodPost,
		path:    join("tidemark", "databases", c.options.Database, "undo"),
		content: content,
		nature:  keyed,
		marks:   markOfUndo,
	})
	if err != nil {
		return Undone{}, err
	}
	var answer struct {
		SystemFrom mark `json:"$systemFrom"`
		Commits    int
		Rows       []UndoneRow
	}
	err = json.Unmarshal(got.body, &answer)
	return Undone{int64(answer.SystemFrom), answer.Commits, answer.Rows}, err
}

func markOfUndo(body []byte) []mark {
	var answer struct {
		SystemFrom mark `json:"$systemFrom"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	return []mark{answer.SystemFrom}
}
