// Package postgres reads a site's rows from PostgreSQL: one query, in a transaction that
// can only read.
//
// # How to start
//
//	c := postgres.DefaultConfig()
//	c.DSNFile, c.Query = "dsn", "select age, sex, died from visits"
//	table, err := postgres.Read(ctx, schema, c, tabular.Options{})
//
// The cells come as the texts that PostgreSQL writes and go through the same rules as those
// of a CSV file, so that the same rows give the same table, partitions and manifest. A server may
// give rows in another order each time: the table's are sorted by their values.
//
// Errors and logs hold no password and no cell: of what the server says while it runs the query
// only the code is kept, for its words may quote a row. The text of an error in the
// query itself, found before any row is read, is kept.
package postgres
