package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// beat is the interval of keep-alive messages, so that a closed stream is noticed.
const beat = 20 * time.Second

// Events adds a stream that notifies a page of changes. follow calls changed for each change and returns when the
// context ends.
func (c *Console) Events(path string, follow func(ctx context.Context, r *http.Request, changed func()) error) {
	c.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		select {
		case c.streams <- struct{}{}:
			defer func() { <-c.streams }()
		default:
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		out := http.NewResponseController(w)
		if err := out.SetWriteDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text string) bool {
			_, err := fmt.Fprint(w, text)
			return err == nil && out.Flush() == nil
		}
		if !say("retry: 2000\n\n") {
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		changes, done := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			done <- follow(ctx, r, func() {
				select {
				case changes <- struct{}{}:
				default: // the page is notified anyway
				}
			})
		}()
		defer func() { cancel(); <-done }()
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			ok := true
			select {
			case <-changes:
				ok = say("event: change\ndata:\n\n")
			case <-tick.C:
				ok = say(":\n\n")
			case err := <-done:
				done <- nil
				// The last change may be the end of the run; after it there are no events.
				say("event: change\ndata:\n\n")
				if err == nil {
					say("event: end\ndata:\n\n")
				}
				return
			case <-ctx.Done():
				return
			}
			if !ok {
				return
			}
		}
	})
}
