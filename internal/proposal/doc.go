// Package proposal writes a first schema.yaml for a table that has none: from the cells it tells kinds, formats and
// which columns have empty cells, and from public knowledge it takes bounds and categories.
//
// # What may come from the rows
//
// A schema is public. Bounds never come from the rows: a minimum releases a record. They come from a data dictionary
// (source: dictionary), from the list of common variables in this package (source: built-in), or are left to a person
// (source: TODO). Categories come from the same, or else from the rows (source: rows), and then only those that many
// rows have; a certificate lists such columns as outside the guarantee.
//
// Kinds, formats of dates, the dialect of the file and whether a column has an empty cell are told from the rows and
// are not paid for. They are what a description of the table would say; [Note] tells the reader so. The proposal holds
// no other figure of the rows, and no error of this package holds a cell.
package proposal
