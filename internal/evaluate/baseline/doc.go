// Package baseline compares the figures of an evaluation with those of two other tables. Real rows give the
// best possible figures. Rows whose columns were shuffled keep single columns and lose all dependence. The
// package also finds combinations of values that no real row has. Everything is computed from real rows: NOT
// PRIVATE.
package baseline
