// Package partition has the public schema of a site's table, the table itself, and the permanent assignment of every
// privacy unit to a partition.
//
// Packages below it read tables from files (tabular, idx, parquet, xlsx) and databases (postgres), group rows that
// are too many to keep in memory (grouping), and turn rows into training data of teachers (encode).
//
// # How to start
//
//	schema, err := partition.LoadSchema("flchain/schema.yaml")
//	table, err := tabular.Read(schema, "flchain/train.csv.gz", tabular.Options{})
//	key, err := partition.LoadOrCreateKey("partition.key")
//	assigned, err := partition.Assign(key, table, 200, "record")
//	encoder := encode.New(schema)
//	encoded := encoder.Encode(table)            // rows x encoder.Width() numbers, and a class per row
//	teacher := assigned.Of[17]                  // the teacher of row 17
//
// # The schema
//
// schema.yaml is public. Nothing in it may be computed from the rows: bounds, categories and fills that depend on the
// data are a release that nobody has paid for. Unknown fields are errors. A column has
//
//	name        unique in the schema
//	kind        continuous, integer, categorical, binary, date, datetime, code or identifier
//	lower/upper public bounds of a number or a date, both included (binary: 0 and 1)
//	format      of a date: how it is written, as in DD.MM.YYYY
//	resolution  of a date: the unit that it is counted in, from lower on
//	categories  public values of a categorical column; names gives them words for reports
//	prefixes    public groups of codes; a code belongs to its longest prefix
//	codes       of codes: the site's list, a file beside the schema
//	pattern     of an identifier: how it is written, as in P-######
//	clip        [lo, hi] inside lower and upper, see below
//	nullable    true: an empty cell is a value of its own
//	role        site (which institution a row belongs to) or unit (the privacy unit's identifier)
//	scale       linear (the default) or log, see below
//	repeat      n: n columns name_0 .. name_(n-1), as for the pixels of images
//	doc         a remark
//	source      where bounds or categories come from: dictionary, built-in, rows; see Source
//
// A schema may also say how CSV files are written ([CSV]), and list columns under ignore that a file may have but
// that nothing reads.
//
// A column of role unit may omit its kind; its cells are then any non-empty text. A date is computed with as an
// integer and a code as a category. An identifier has no cell value, so it does not distinguish records.
//
// A number outside lower and upper is an error that names row and column. With clip, the data's owner asks for the
// opposite: every finite number outside clip is moved to the nearest edge, however far away it is. Without clip
// nothing is ever moved.
//
// scale: log is for skewed nonnegative numbers (incomes, counts, laboratory values). A value v in the range [lo, hi]
// (clip if given, else lower and upper) is encoded as
//
//	(log1p(v) - log1p(lo)) / (log1p(hi) - log1p(lo))
//
// instead of (v - lo) / (hi - lo), and decoded by the inverse. The transform is monotone and depends on public bounds
// only, so it costs nothing.
//
// A schema of format idx describes images: a column for each pixel, an integer from 0 to 255, and a label.
//
// # Partitions
//
// A unit's partition is a hash of the unit under the site's secret key. With unit "record" the hash covers the
// record's parsed values and, among equal records, a running number; with a unit column it covers the unit's text. So
// adding or removing one record moves no other (seen as multisets), all rows of a unit stay together, and the same
// file gives the same partitions as long as the key exists. Manifest records data and key, so that a node that
// returns with other data is noticed.
//
// # What this package does not promise
//
// It adds no noise: tables, encoded rows, row counts, partition sizes and the manifest file are private and must stay
// on the node. Only the manifest's Fingerprint, a keyed hash, may be shown to others. Partitions have equal size only
// on average and may be empty. Anybody with the key and a record can compute the record's partition, so the key is as
// secret as the data.
package partition
