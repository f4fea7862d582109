package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// beat is how often a stream says that it is there, so that an end is noticed.
const beat = 20 * time.Second

// Events adds a stream that tells a page when it has changed. follow calls changed each time until it returns, which
// it does when the context ends.
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
				default: // the page is told anyway
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
				// The last change may be that the run ended: nothing more is to be told then.
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
