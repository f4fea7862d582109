package console

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// pageSize is how many lines of a table one page has.
const pageSize = 50

// maxQuery bounds what is searched for, in bytes.
const maxQuery = 200

// List is a part of a table: what a person searched for, one page of it.
type List[T any] struct {
	Rows []T
	// All counts the table, Found what the search found.
	All, Found int
	Query      string
	Filter     string
	// Page counts from 1.
	Page, Pages int
	path        string
	more        url.Values // that the list's address has besides
}

// With adds a parameter of the page to the addresses of the list.
func (l List[T]) With(name, value string) List[T] {
	l.more = url.Values{name: {value}}
	return l
}

// ListOf takes what a request asks for out of a table. Its parameters are q, words that text must have, filter, and
// page. filtered says whether a line passes a filter that is not empty.
func ListOf[T any](r *http.Request, all []T, text func(T) string, filtered func(T, string) bool) List[T] {
	asked := r.URL.Query()
	l := List[T]{All: len(all), Query: cut(asked.Get("q")), Filter: cut(asked.Get("filter")), path: r.URL.Path}
	words := strings.Fields(strings.ToLower(l.Query))
	var found []T
	for _, row := range all {
		if l.Filter != "" && !filtered(row, l.Filter) {
			continue
		}
		if len(words) > 0 && !hasAll(strings.ToLower(text(row)), words) {
			continue
		}
		found = append(found, row)
	}
	l.Found, l.Pages = len(found), max(1, (len(found)+pageSize-1)/pageSize)
	page, err := strconv.Atoi(asked.Get("page"))
	if err != nil {
		page = 1
	}
	l.Page = min(max(1, page), l.Pages)
	from := (l.Page - 1) * pageSize
	l.Rows = found[from:min(from+pageSize, len(found))]
	return l
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxQuery)], "") }

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// At is the address of another page of the list.
func (l List[T]) At(page int) string {
	q := url.Values{}
	maps.Copy(q, l.more)
	if l.Query != "" {
		q.Set("q", l.Query)
	}
	if l.Filter != "" {
		q.Set("filter", l.Filter)
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	return l.path + "?" + q.Encode()
}

// From and To number the lines that are shown, from 1; both are 0 where there are none.
func (l List[T]) From() int {
	if l.Found == 0 {
		return 0
	}
	return (l.Page-1)*pageSize + 1
}

// To is the number of the last line that is shown.
func (l List[T]) To() int { return (l.Page-1)*pageSize + len(l.Rows) }
