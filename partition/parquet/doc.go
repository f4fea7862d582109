// Package parquet reads flat Parquet files: tables whose columns have one number, truth value, text, date or time
// each, or null. It decodes with github.com/parquet-go/parquet-go.
//
// # How to start
//
//	file, err := parquet.Open(f, size)
//	for cells, err := range file.Rows(nil) {
//		// a text for each of file.Columns, as in CSV, empty for null
//	}
//
// It reads one row group at a time, and one page of each of its columns.
//
// # Damaged files
//
// The library trusts the sizes and counts in a file. So this package checks them first. It walks the footer and the
// page headers before the library decodes them, compares sizes with the file and counts with each other, and refuses
// a footer, page or number of values larger than writers make. A panic of the library is caught in one place and
// becomes an error. No error contains a value.
//
// A page is unpacked here first, to the size that it says and no further. Its runs and deltas are counted before the
// library makes room for what they stand for. Checksums of pages are verified if a writer made them; without them a
// flipped bit may change a value.
//
// The package knows neither schemas of tables nor privacy.
package parquet
