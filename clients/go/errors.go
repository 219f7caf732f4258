package tidemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Kinds of refusal, for errors.Is. An Error belongs to at most one.
var (
	// ErrInvalid: the request cannot be right, from any caller (400, 413).
	ErrInvalid = errors.New("invalid")
	// ErrDenied: this caller may not do this (401, 403).
	ErrDenied = errors.New("denied")
	// ErrNotFound: what the request names is not there, or the caller may not know of it (404, 410).
	ErrNotFound = errors.New("not found")
	// ErrConflict: what is there stands against it, as an id or a unique value that is taken (409).
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: not now; the same request may succeed later (408, 429, 503).
	ErrUnavailable = errors.New("unavailable")
	// ErrClosed: the client has been closed.
	ErrClosed = errors.New("tidemark: the client has been closed")
)

// Error is a refusal by the server. Branch on Type, or by errors.Is on one of the kinds; Message
// is for people and may change.
type Error struct {
	// Code is the HTTP status, or that of one operation in a batch.
	Code int `json:"code"`
	// Type is one of those that the server's page of errors lists.
	Type    string `json:"type"`
	Message string `json:"message"`
	// RequestID is how the server's log knows the request; empty for a part of a batch.
	RequestID string `json:"-"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("tidemark: %d %s: %s", e.Code, e.Type, e.Message)
}

// Is tells errors.Is which kind the refusal is of.
func (e *Error) Is(kind error) bool {
	switch e.Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return kind == ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return kind == ErrDenied
	case http.StatusNotFound, http.StatusGone:
		return kind == ErrNotFound
	case http.StatusConflict:
		return kind == ErrConflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return kind == ErrUnavailable
	}
	return false
}

// NoAnswerError says that no answer came, and that sending the request again did not help or was
// not safe. It wraps the failure of the connection or of the context.
type NoAnswerError struct {
	// Sent says that the request may have reached the server: whether it had its effect is not
	// known.
	Sent bool
	Err  error
}

func (e *NoAnswerError) Error() string { return "tidemark: no answer: " + e.Err.Error() }

func (e *NoAnswerError) Unwrap() error { return e.Err }

// refusal reads the body of a refusal; what is no such body is named by its status.
func refusal(body []byte, status int, requestID string) *Error {
	refused := &Error{}
	if err := json.Unmarshal(body, refused); err != nil || refused.Type == "" {
		refused = &Error{
			Type:    "unknown",
			Message: fmt.Sprintf("HTTP status %d without an error's body", status),
		}
	}
	if refused.Code == 0 {
		refused.Code = status
	}
	refused.RequestID = requestID
	return refused
}
