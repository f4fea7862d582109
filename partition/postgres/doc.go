// Package postgres reads a site's rows from PostgreSQL: one query, in a read-only transaction.
//
// # How to start
//
//	c := postgres.DefaultConfig()
//	c.DSNFile, c.Query = "dsn", "select age, sex, died from visits"
//	table, err := postgres.Read(ctx, schema, c, tabular.Options{})
//
// The cells come as PostgreSQL's texts and follow the same rules as those of a CSV file, so the same rows give the
// same table, partitions and manifest. A server may return rows in a different order each time, so the table sorts
// them by value.
//
// Errors and logs contain no password and no cell. While the server runs the query only the code of its error is
// kept, because its message may quote a row. The message of an error in the query itself, found before any row is
// read, is kept.
package postgres
