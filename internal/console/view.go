package console

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// View is the content of a page for its template.
type View struct {
	// Page is the name of its template's file, without .html.
	Page  string
	Title string
	// Events is the URL of the stream that reports changes of the page; empty without one.
	Events string
	Data   any

	status int // HTTP status; 0 means 200
}

// shown is the data for templates.
type shown struct {
	View
	Who    string
	Nav    []Link
	Path   string
	Notice notice
}

// Here reports whether a navigation entry is the current page.
func (s shown) Here(l Link) bool {
	return s.Path == l.Path || l.Path != "/" && strings.HasPrefix(s.Path, l.Path+"/")
}

// Error is an error whose page has an HTTP status.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotFound is the error for a page that does not exist.
func NotFound(format string, args ...any) error {
	return &Error{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// problem is the page of an error.
func problem(err error) View {
	status := http.StatusBadGateway
	if own := new(Error); errors.As(err, &own) {
		status = own.Status
	}
	return View{Page: "problem", Title: "This page cannot be shown", Data: sentence(err), status: status}
}

// sentence formats an error as a sentence. A field or file name at its start is kept.
func sentence(err error) string {
	text := strings.TrimSpace(err.Error())
	if word, _, _ := strings.Cut(text, " "); !strings.ContainsAny(word, ":._-/") {
		first, size := utf8.DecodeRuneInString(text)
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// parse makes a template for each page's file, with the common layout and parts.
func parse(pages fs.FS) (map[string]*template.Template, error) {
	layout, err := template.New("layout").Funcs(functions).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{"problem": layout}
	names, err := fs.Glob(pages, "*.html")
	if err != nil {
		return nil, err
	}
	var parts *template.Template // shared by all pages
	if parts, err = layout.Clone(); err == nil {
		parts, err = parts.ParseFS(pages, "*.html")
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		page, err := parts.Clone()
		if err == nil {
			page, err = page.ParseFS(pages, name)
		}
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(name, ".html")] = page
	}
	return all, nil
}

// render sends a whole page, or nothing of it.
func (c *Console) render(w http.ResponseWriter, r *http.Request, v View) {
	s := shown{View: v, Who: c.who, Nav: c.nav, Path: r.URL.Path}
	if r.Header.Get("X-Live") == "" { // a page that updates itself shows it already
		c.mu.Lock()
		s.Notice, c.said = c.said, notice{}
		c.mu.Unlock()
	}
	var page bytes.Buffer
	t := c.templates[v.Page]
	if t == nil {
		http.Error(w, "there is no page "+v.Page, http.StatusInternalServerError)
		return
	}
	if err := t.ExecuteTemplate(&page, "layout", s); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.status != 0 {
		w.WriteHeader(v.status)
	}
	_, _ = w.Write(c.access.placed(page.Bytes())) // the browser is gone
}
