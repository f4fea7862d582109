// Package parquet reads flat Parquet files: tables whose columns hold one
// number, truth value, text, date or time each, or null. The decoders are those of
// github.com/parquet-go/parquet-go.
//
// # How to start
//
//	file, err := parquet.Open(f, size)
//	for cells, err := range file.Rows(nil) {
//		// a text for each of file.Columns, as CSV has it, empty for null
//	}
//
// A row group is read at a time, and of each of its columns a page.
//
// # Damaged files
//
// The library trusts what a file says of sizes and counts. So this package looks at
// them first: the footer and the headers of pages are walked before the library decodes them, sizes are
// held against the file and counts against each other, and a footer, page or number of values beyond what
// writers make is refused. What the library does not expect is a panic in it, which
// ends at one place here and is an error. No error holds a value.
//
// What is left: a page that was made to unpack to far more than it says, in gzip or zstd, takes that
// memory. Checksums of pages are checked where a writer made them; without them a flipped
// bit may be another value.
//
// It knows nothing of schemas of tables and of privacy.
package parquet
