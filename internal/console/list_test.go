package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func numbers(query string) List[int] {
	all := make([]int, 10_000)
	for i := range all {
		all[i] = i + 1
	}
	r := httptest.NewRequest(http.MethodGet, "/numbers", nil)
	r.URL.RawQuery = query
	return ListOf(r, all, strconv.Itoa, func(n int, filter string) bool { return filter == "even" && n%2 == 0 })
}

// A page shows fifty of ten thousand rows, and its URLs keep the request.
func TestListOf(t *testing.T) {
	l := numbers("")
	testkit.Same(t, "the first page", []int{50, 1, 50, 200, 10_000}, []int{len(l.Rows), l.From(), l.To(), l.Pages,
		l.Found})
	l = numbers("q=99&filter=even&page=2")
	testkit.Same(t, "the second page", []int{len(l.Rows), l.From(), l.To(), 10_000},
		[]int{len(l.Rows), 51, 50 + len(l.Rows), l.All})
	testkit.Same(t, "the address of the next", "/numbers?filter=even&page=3&q=99", l.At(3))
	testkit.Same(t, "with more", "/numbers?dataset=d&filter=even&q=99", l.With("dataset", "d").At(1))
	for _, n := range l.Rows {
		if n%2 != 0 {
			t.Errorf("%d is not even", n)
		}
	}
	l = numbers("q=none")
	testkit.Same(t, "nothing", []int{0, 0, 0, 1}, []int{len(l.Rows), l.From(), l.To(), l.Pages})
}

// Any request gives a page of the list whose own URL gives the same page.
func FuzzListOf(f *testing.F) {
	for _, query := range []string{"", "q=1&page=2", "page=-1", "page=99999999999999999999", "q=%ff%00&filter=even",
		"q=a;b",
		"page=200&page=3"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		l := numbers(query)
		if l.Page < 1 || l.Page > l.Pages || len(l.Rows) > pageSize || len(l.Query) > maxQuery || l.To() > l.Found {
			t.Fatalf("%q: page %d of %d with %d lines", query, l.Page, l.Pages, len(l.Rows))
		}
		again, err := url.Parse(l.At(l.Page))
		testkit.Must(t, err)
		same := numbers(again.RawQuery)
		if same.Query != l.Query || same.Filter != l.Filter || same.Page != l.Page || same.Found != l.Found {
			t.Fatalf("%q leads to another page: %s", query, again)
		}
	})
}

func TestWords(t *testing.T) {
	testkit.Same(t, "a time", "2026-11-26 18:06 UTC", When("2026-11-26T19:06:59+01:00"))
	testkit.Same(t, "no time", "–", When("soon"))
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		testkit.Same(t, "a size", want, Bytes(n))
	}
}
