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

// View is a page as its template shows it.
type View struct {
	// Page is the name of its template's file, without .html.
	Page  string
	Title string
	// Events is the address of the stream that tells when the page has changed; empty where none does.
	Events string
	Data   any

	status int // of the answer; 0 for 200
}

// shown is what templates get.
type shown struct {
	View
	Who    string
	Nav    []Link
	Path   string
	Notice notice
}

// Here says whether an entry of the navigation is that of the page.
func (s shown) Here(l Link) bool {
	return s.Path == l.Path || l.Path != "/" && strings.HasPrefix(s.Path, l.Path+"/")
}

// Error is one whose page has a status of HTTP.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what it is about.
func (e *Error) Unwrap() error { return e.Err }

// NotFound is the error of a page that there is not.
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

// sentence is an error as a sentence. What begins with the name of a field or a file stays as it is.
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

// parse makes a template of each file that has a page, with the layout and the parts of all pages around it.
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
	var parts *template.Template // those that pages share
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

// render answers with a page, whole or not at all.
func (c *Console) render(w http.ResponseWriter, r *http.Request, v View) {
	s := shown{View: v, Who: c.who, Nav: c.nav, Path: r.URL.Path}
	if r.Header.Get("X-Live") == "" { // a page that brings itself up to date shows it already
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
	_, _ = page.WriteTo(w) // a browser that is gone
}
