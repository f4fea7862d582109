// Package xlsx reads the cells of workbooks in Office Open XML (ECMA-376), the .xlsx files of
// spreadsheet programs.
//
// # How to start
//
//	file, err := xlsx.Open(f, size)
//	for cells, err := range file.Rows(0, nil) {
//		// the texts of a row of file.Sheets[0]
//	}
//
// Cells are what the file stores, not what a program shows: a number that is shown as 1.1 may be 1.0999. Numbers have
// the fewest digits that bring them back, truth values are 0 and 1, and cells with a format of dates are
// 2024-02-29, 2024-02-29 13:04:05 or 13:04:05. Of formulas the stored result is read; nothing is computed.
//
// A sheet is read as a stream, of which nothing is written to the disk; the texts that sheets share are held in
// memory. What is read is checked against the file's checksums and must be whole XML: a damaged file is an error,
// and never a shorter table. Sizes are bounded, whatever the file says of them. No error holds a cell.
//
// Why this is no library: excelize 2.11.1 streams rows without the formats by which dates are told from numbers,
// writes large sheets in the clear to the folder for temporary files, and takes files with damaged rows for shorter
// ones. The workbooks of the tests were written by it.
//
// It knows nothing of schemas of tables and of privacy.
package xlsx
