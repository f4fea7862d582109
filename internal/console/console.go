package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxBody bounds a form with its files, in bytes.
	maxBody = 2 << 20
	// mostStreams bounds the open streams of events: one for each open page.
	mostStreams = 64
	// farewell is how long requests may continue when the console ends.
	farewell = 2 * time.Second
)

//go:embed static templates
var files embed.FS

// Link is an entry of the navigation.
type Link struct{ Path, Text string }

// Console serves the pages added to it. Add all of them before Serve.
type Console struct {
	who       string
	nav       []Link
	listener  net.Listener
	mux       *http.ServeMux
	templates map[string]*template.Template
	access    *access
	streams   chan struct{}

	mu   sync.Mutex
	said notice // the last form's result, until a page has shown it
}

// notice is a sentence at the top of the next page.
type notice struct {
	Text    string
	Problem bool
}

// New listens on a loopback address, host:port; who names the person. Pages have templates in files *.html, each with
// a template "main".
func New(listen, who string, nav []Link, pages fs.FS) (*Console, error) {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() || at.Addr().Zone() != "" {
		return nil, fmt.Errorf("--listen: %q is not a loopback address; use one such as 127.0.0.1:0, and ssh -L to "+
			"reach another machine's console", listen)
	}
	c := &Console{who: who, nav: nav, mux: http.NewServeMux(), streams: make(chan struct{}, mostStreams)}
	if c.templates, err = parse(pages); err != nil {
		return nil, err
	}
	if c.listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", at.String()); err != nil {
		return nil, fmt.Errorf("--listen: %w; use another port, or 0 for a free one", err)
	}
	c.access = newAccess(c.listener.Addr().String())
	static, err := fs.Sub(files, "static")
	if err != nil {
		return nil, err
	}
	c.mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	return c, nil
}

// Address is the URL that opens the console, once and within a few minutes.
func (c *Console) Address() string { return c.access.address() }

// Get adds a page.
func (c *Console) Get(path string, page func(*http.Request) (View, error)) {
	c.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		v, err := page(r)
		if err != nil {
			v = problem(err)
		}
		c.render(w, r, v)
	})
}

// Post adds a form's action. The form is parsed before do is called. do returns the next page, and a sentence about
// the result.
func (c *Console) Post(path string, do func(*http.Request) (to, say string, err error)) {
	c.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		// Requests to others may take longer than a page.
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := parseForm(r); err != nil {
			http.Error(w, sentence(fmt.Errorf("the form cannot be read: %w", err)), http.StatusBadRequest)
			return
		}
		to, say, err := do(r)
		said := notice{Text: say}
		if err != nil {
			said = notice{sentence(err), true}
		}
		c.mu.Lock()
		c.said = said
		c.mu.Unlock()
		http.Redirect(w, r, c.access.path+to, http.StatusSeeOther)
	})
}

// parseForm reads a form, with its files.
func parseForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	if err := r.ParseMultipartForm(maxBody); !errors.Is(err, http.ErrNotMultipart) {
		return err
	}
	return nil
}

// Handle adds a handler that is neither a page nor a form.
func (c *Console) Handle(pattern string, h http.HandlerFunc) { c.mux.HandleFunc(pattern, h) }

// handler is the whole console, behind its checks.
func (c *Console) handler() http.Handler {
	cross := http.NewCrossOriginProtection()
	return c.access.guard(cross.Handler(http.MaxBytesHandler(c.mux, maxBody)))
}

// Serve answers until the context ends.
func (c *Console) Serve(ctx context.Context) error {
	streams, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{
		Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return streams },
	}
	stopped := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // ends the remaining requests
		}
	})
	defer stopped()
	if err := server.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the console: %w", err)
	}
	return nil
}

// Close closes the port of a console that does not serve.
func (c *Console) Close() error { return c.listener.Close() }
