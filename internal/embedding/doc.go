// Package embedding makes public vectors of records: what they count is fixed before any
// record is seen, and their length is bounded whatever a record holds. A sum of them over
// records, by class, is then one bounded question, and a generator whose records have the
// same mean vectors has the same columns, pairs of columns and random waves.
//
//	f, err := embedding.New(encoder, classes, parts)
//	f.Each(records, n, visit)   // nodes, which cut each vector to whole steps
//	batch := f.Batch()          // the student, for its own records: Take, Sum, Slope
//
// Vectors follow from the schema and the parts, so that every role makes the same ones and
// only sums travel. Noise and its price are others' work: [Features.Norm] is all they need.
package embedding
