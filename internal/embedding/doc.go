// Package embedding maps records to public vectors: the map is fixed before any record is seen, and the length of
// a vector is bounded for every record. Their sum over records, by class, is then one bounded question. A
// generator whose records have the same mean vectors matches the columns, pairs of columns and random waves.
//
//	f, err := embedding.New(encoder, classes, parts)
//	f.Each(records, n, visit)   // nodes, which cut each vector to whole steps
//	batch := f.Batch()          // the student, for its own records: Take, Sum, Slope
//
// Vectors depend only on the schema and the parts, so every role makes the same ones and only sums are sent. Other
// packages add noise and account for it, by [Features.Norm].
package embedding
