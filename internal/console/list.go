package console

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// pageSize is the number of table rows on one page.
const pageSize = 50

// maxQuery bounds a search text, in bytes.
const maxQuery = 200

// List is one page of the rows that match a search.
type List[T any] struct {
	Rows []T
	// All counts the table's rows, Found the matches.
	All, Found int
	Query      string
	Filter     string
	// Page counts from 1.
	Page, Pages int
	path        string
	more        url.Values // other parameters of the list's URL
}

// With adds a parameter to the URLs of the list.
func (l List[T]) With(name, value string) List[T] {
	l.more = url.Values{name: {value}}
	return l
}

// ListOf selects what a request asks for from a table. Its parameters are q, words that a row's text must contain,
// filter, and page. filtered reports whether a row passes a nonempty filter.
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

// At is the URL of another page of the list.
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

// From and To number the rows shown, from 1; both are 0 if there are none.
func (l List[T]) From() int {
	if l.Found == 0 {
		return 0
	}
	return (l.Page-1)*pageSize + 1
}

// To is the number of the last row shown.
func (l List[T]) To() int { return (l.Page-1)*pageSize + len(l.Rows) }
