// Package xlsx reads the cells of workbooks in Office Open XML (ECMA-376), the .xlsx files of spreadsheet programs.
//
// # How to start
//
//	file, err := xlsx.Open(f, size)
//	for cells, err := range file.Rows(0, nil) {
//		// the texts of a row of file.Sheets[0]
//	}
//
// Cells are what the file stores, not what a program shows: a number that is shown as 1.1 may be 1.0999. Numbers have
// the fewest digits that restore them, truth values are 0 and 1, and cells with a date format look like 2024-02-29,
// 2024-02-29 13:04:05 or 13:04:05. For a formula the stored result is read; nothing is computed.
//
// A sheet is streamed without writing to the disk; the texts that sheets share are in memory. The data is checked
// against the file's checksums and must be complete XML: a damaged file is an error, and never a shorter table. Sizes
// are bounded, whatever the file claims. No error contains a cell.
//
// Why there is no library for this: excelize 2.11.1 streams rows without the formats that distinguish dates from
// numbers, writes large sheets unencrypted to the temporary folder, and accepts files with damaged rows as shorter
// ones. It wrote the workbooks of the tests.
//
// The package knows neither schemas of tables nor privacy.
package xlsx
