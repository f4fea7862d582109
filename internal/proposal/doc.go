// Package proposal writes a first schema.yaml for a table that has none. It infers kinds, formats and empty
// cells from the rows, and takes bounds and categories from public knowledge.
//
// # What may come from the rows
//
// A schema is public. Bounds never come from the rows: a minimum releases a record. They come from a data
// dictionary (source: dictionary), from the list of common variables in this package (source: built-in), or are
// left to a person (source: TODO). Categories come from the same sources, or else from the rows (source: rows),
// and then only those that many rows have; a certificate lists such columns as outside the guarantee.
//
// Kinds, formats of dates, the dialect of the file and whether a column has an empty cell are inferred from the
// rows and are not paid for. A description of the table would state them as well; [Note] tells the reader so.
// The proposal has no other information from the rows, and no error of this package contains a cell.
package proposal
