package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// measured are the results by format, kind of work and rows. If a kind was measured several times, the one with the
// least processor time counts.
type measured map[string]map[int64]*result

func load(path string) (measured, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := measured{}
	for in := json.NewDecoder(f); ; {
		r := new(result)
		switch err := in.Decode(r); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		key := r.Format + " " + r.What
		if all[key] == nil {
			all[key] = map[int64]*result{}
		}
		if before := all[key][r.Rows]; before == nil || r.CPU < before.CPU {
			all[key][r.Rows] = r
		}
	}
}

// showRows prints what a file of results says.
func showRows(to io.Writer, path string) error {
	all, err := load(path)
	if err != nil {
		return err
	}
	all.readers(to)
	all.works(to)
	all.pairs(to)
	return nil
}

// readers prints the ways to read a table beside pandas, for the rows that pandas read.
func (m measured) readers(to io.Writer) {
	fmt.Fprintf(to, "| reading a table | rows | processor time | of pandas | memory |\n|---|---|---|---|---|\n")
	for _, rows := range slices.Sorted(maps.Keys(m["csv "+pandas])) {
		theirs := m["csv "+pandas][rows]
		for _, way := range []struct{ key, name string }{
			{"csv " + pandas, "pandas " + theirs.Version + ", `read_csv`"}, {"csv " + whole, "CSV into memory"},
			{"csv " + reading, "CSV in blocks"}, {"parquet " + whole, "Parquet into memory"},
			{"parquet " + reading, "Parquet in blocks"},
		} {
			if r := m[way.key][rows]; r != nil {
				fmt.Fprintf(to, "| %s | %d | %.2f s | %.2f | %.0f MiB |\n", way.name, rows, r.CPU, r.CPU/theirs.CPU,
					r.PeakMiB)
			}
		}
	}
}

// works prints each kind of work on Parquet by rows. An exponent is that of time, from the line before.
func (m measured) works(to io.Writer) {
	fmt.Fprintf(to, "\n| work | rows | processor time | exponent | rows a second and core | memory |\n"+
		"|---|---|---|---|---|---|\n")
	for _, what := range []string{reading, encoding, start, marginals, embed} {
		of := m["parquet "+what]
		var before *result
		for _, rows := range slices.Sorted(maps.Keys(of)) {
			r, exponent := of[rows], ""
			if before != nil {
				exponent = fmt.Sprintf("%.2f", math.Log(r.CPU/before.CPU)/math.Log(float64(rows)/float64(before.Rows)))
			}
			fmt.Fprintf(to, "| `%s` | %d | %.2f s | %s | %.0f | %.0f MiB |\n", what, rows, r.CPU, exponent, r.PerCore,
				r.PeakMiB)
			before = r
		}
	}
}

// pairs prints the sum of pairs beside what memory could give it.
func (m measured) pairs(to io.Writer) {
	fmt.Fprintf(to, "\n| sum of pairs alone | bytes a row | bandwidth of memory | its limit, rows a second | "+
		"of the limit |\n|---|---|---|---|---|\n")
	of := m["parquet "+pairs]
	for _, rows := range slices.Sorted(maps.Keys(of)) {
		r := of[rows]
		limit := r.Triad / r.Bytes
		fmt.Fprintf(to, "| %.0f rows a second and core | %.0f | %.1f GB/s | %.0f | %.1f %% |\n", r.PerCore, r.Bytes,
			r.Triad/1e9, limit, 100*r.PerCore/limit)
	}
}
